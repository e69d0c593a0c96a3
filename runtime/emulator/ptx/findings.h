// What is found to be wrong while a launch runs.
//
// Threads: one thread runs a launch.

#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/emulator/ptx/code.h"
#include "runtime/emulator/ptx/launch.h"
#include "runtime/emulator/ptx/program.h"

namespace coppice::ptx {

// A thread of a launch, and an instruction that it executes.
struct Whereabouts {
  std::array<unsigned, 3> block;
  std::array<unsigned, 3> thread;
  const Code& code;
  const Instr& instr;
};

// "file.py:12", if the PTX says so.
std::string SourceOf(const Whereabouts& where);

class Findings {
 public:
  explicit Findings(const Kernel& kernel) : kernel_(kernel) {}

  // Notes what ends the launch; the first counts.
  void Fault(Finding::Kind kind,
             const Whereabouts& where,
             std::string message,
             uint64_t address = 0);
  bool HasFault() const { return fault_.has_value(); }
  // Notes something else that is wrong at an instruction. Once per instruction and kind.
  void Report(Finding::Kind kind, const Whereabouts& where, std::string message, uint64_t address);
  bool WasReported(Finding::Kind kind, const Instr& instr) const;
  // The same of a race that may change nothing: whether it does is asked when the launch is over.
  void ReportDoubtful(const Whereabouts& where, std::string message, uint64_t address);
  bool HasDoubtful() const { return !doubtful_.empty(); }
  void DropDoubtful() { doubtful_.clear(); }

  void MoveTo(Outcome& outcome);

 private:
  Finding Describe(Finding::Kind kind,
                   const Whereabouts& where,
                   std::string message,
                   uint64_t address) const;

  const Kernel& kernel_;
  std::optional<Finding> fault_;
  std::vector<Finding> findings_;
  std::set<std::pair<Finding::Kind, const Instr*>> reported_;
  std::map<const Instr*, Finding> doubtful_;
};

}  // namespace coppice::ptx
