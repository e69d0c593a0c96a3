// Programs of the simulated traffic as programs of a package: the same tables of steps, said as
// launches of PTX kernels instead of launched by a callable. So a session may know them, run them
// without a warm-up, and set their executables to the sizes of calls.
//
// What a package has no words for stays a callable: streams and breaks of a program's own, random
// numbers, static outputs, counts, symbols that a call gives by themselves, and reductions other
// than a sum.
//
// Units: elements. Threads: one.

#pragma once

#include <memory>
#include <span>
#include <string>

#include "coppice/graphs/session.h"
#include "coppice/runtime/loaded_package.h"

#include "tests/sim/traffic_programs.h"

namespace coppice {

// Whether a package can say what the program does.
bool FitsPackage(const TrafficProgram& program);

class TrafficPackage {
 public:
  // Of those of `programs` that fit one. Must outlive their sessions.
  TrafficPackage(const Context& context,
                 std::span<const TrafficProgram> programs,
                 const TrafficSymbol& symbol);

  // Requires: FitsPackage(program), which is one of those given.
  absl::StatusOr<const Program*> Register(Session& session,
                                          const TrafficProgram& program,
                                          ExactReplay exact) const;

 private:
  std::string zip_;
  std::unique_ptr<const package::LoadedPackage> loaded_;
};

}  // namespace coppice
