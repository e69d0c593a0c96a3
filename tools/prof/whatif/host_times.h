// How long the host is busy with a call, by what calls of the trace took. Private to
// tools/prof/whatif/.
//
// Units: nanoseconds, elements. Threads: immutable once made.

#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "coppice/graphs/program.h"

#include "tools/prof/whatif/traced_calls.h"

namespace coppice {

// The extents that a call of these is padded to, by the policies of `spec`; its own where no bucket
// holds it.
std::vector<int64_t> PaddedBy(const ProgramSpec& spec, std::span<const int32_t> extents);

class HostTimes {
 public:
  struct Time {
    int64_t ns = 0;
    bool measured = false;  // In this very bucket; else in another one.
  };

  // Of calls of programs of these specs, in the order of the trace's programs.
  HostTimes(const TracedCalls& traced, const std::vector<ProgramSpec>& specs);

  // The median of calls of the program that ran so in this bucket, or in the one nearest in size.
  // Where no call of it ever ran eagerly, a warm-up stands for it, which runs the same; 0 ns: no
  // call ran so.
  Time Of(int program, RunKind path, const std::vector<int64_t>& bucket) const;

 private:
  using Buckets = std::map<std::vector<int64_t>, int64_t>;  // Medians.

  std::map<std::pair<int, RunKind>, Buckets> times_;
};

}  // namespace coppice
