// Looks at a case in one way after another, until something is wrong.
//
//   what the recorder saw       a static input in memory that was freed
//   at its own size             without graphs; reads of memory that nobody wrote, too
//   padded, several seeds       in the buckets of the case; outputs are compared with the first
//   padded, three poisons       the same
//   what nobody does            scalars that no kernel reads, outputs that no kernel writes
//   what the case says          outputs that it has are compared with the first, too
//
// Units: elements. Threads: one at a time.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/graphs/case_file.h"
#include "coppice/runtime/package.h"

#include "tools/package/first_step.h"
#include "tools/replay/case_player.h"
#include "tools/replay/verdict.h"
#include "tools/support/console.h"

namespace coppice {

class Examination {
 public:
  // Opens the package. `value` has a call of a program of a package. Errors: as
  // PackageDevice::OpenPackage; kInvalidArgument it is another package than that of the case.
  static absl::StatusOr<Examination> Create(const Case& value, const PlaySource& source);

  // All of it, with so many seeds. Errors: as PlayCase; kCancelled the console asks to stop.
  absl::StatusOr<Verdict> Examine(const Case& value, int64_t seeds, const Console& console) const;

  absl::StatusOr<Played> Play(const Case& value, const Way& way) const {
    return PlayCase(value, source_, way);
  }

  // What is wrong in this way alone; nothing is: kNothing. Errors: as PlayCase.
  absl::StatusOr<Verdict> LookAgain(const Case& value, const Verdict& found) const;

  // Names the step that is the first to write something else, and the instruction at which padding
  // gets there, if they can be told.
  void NameStep(const Case& value, Verdict& verdict) const;

  // Where the padding of each padded size of each call of a package gets.
  std::vector<FollowedPadding> FollowPadding(const Case& value, const Console& console) const;
  // What outputs depend on, by the last call of each program of a package.
  std::vector<FollowedInputs> FollowInputs(const Case& value, const Console& console) const;

  const package::Package& package() const { return package_; }

 private:
  Examination(PlaySource source, package::Package package)
      : source_(std::move(source)), package_(std::move(package)) {}

  const package::Program& ProgramOf(const Case& value, const CaseCall& call) const;
  std::optional<Verdict> Compare(const Case& value,
                                 const Played& reference,
                                 const Played& played,
                                 const Way& way) const;
  std::optional<Verdict> CompareRecorded(const Case& value, const Played& reference) const;
  std::optional<Verdict> FindUnreadScalar(const Case& value) const;
  std::optional<Verdict> FindUnwritten(const Case& value, const Played& reference) const;
  std::optional<size_t> FindUnwritten(const Case& value,
                                      const CaseCall& call,
                                      size_t output,
                                      const HostArray& array) const;
  // Asks `ask` about a call of a package, on a device of its own.
  using Ask = std::function<absl::Status(const PackageDevice& device,
                                         int program,
                                         const StepQuestion& question,
                                         const std::vector<HostArray>& statics)>;
  absl::Status AskOfCall(const Case& value,
                         const CaseCall& call,
                         Poison poison,
                         const Ask& ask) const;
  Verdict VerdictOf(const Case& value, const Trouble& trouble, const Way& way) const;

  PlaySource source_;
  package::Package package_;
};

}  // namespace coppice
