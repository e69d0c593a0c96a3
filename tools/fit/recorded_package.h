// A package in a session on a device that has no memory: what its graphs and their plans take, by
// the session's own books.
//
// Units: bytes. Threads: one at a time per process, as WeightlessDevice.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/graphs/exact_replay.h"
#include "coppice/graphs/memory_usage.h"
#include "coppice/graphs/session_stats.h"
#include "coppice/padding/padding_policy.h"
#include "coppice/runtime/loaded_package.h"

#include "tools/fit/fit_traffic.h"
#include "tools/prof/whatif/weightless_device.h"

namespace coppice {

struct RecordedMemory {
  MemoryUsage usage;
  std::vector<NodeInfo> nodes;  // Of one lane; all are alike.
  int64_t lanes = 1;
  int64_t families = 0;  // Executables that several nodes share, of all lanes.

  int64_t graphs() const { return lanes * std::ssize(nodes); }

  int64_t pool_bytes() const;       // Of plans and eager runs.
  int64_t exec_bytes() const;       // An estimate.
  int64_t staging_bytes() const;    // And of other windows that graphs need.
  int64_t constants_bytes() const;  // Those that the package has.
  int64_t total() const { return usage.total; }
  // Of calls above all buckets, and the rest of `pool_bytes`.
  int64_t eager_bytes() const { return usage.of(MemoryKind::kEager); }
};

class RecordedPackage {
 public:
  // Loads the package at `path`; where there are files of trusted keys, one of them signed it.
  // Errors: as OpenSigned, Package::Verify and LoadedPackage::Load.
  static absl::StatusOr<std::unique_ptr<RecordedPackage>> Open(
      const std::string& path, const std::vector<std::string>& trusted_keys);

  const package::Manifest& manifest() const { return loaded_->manifest(); }
  // Constants that the application has to give, and what static inputs take: its own memory.
  int64_t given_constants_bytes() const { return given_constants_bytes_; }
  int64_t static_bytes() const { return static_bytes_; }

  struct Recording {
    std::vector<PaddingPolicy> policies;         // Of each program's symbol with traffic.
    std::vector<std::vector<int64_t>> buckets;   // Of each of them, recorded on every lane.
    std::vector<std::vector<int64_t>> launches;  // Of each bucket on the first lane; none: none.
    int64_t lanes = 1;
    ExactReplay exact = ExactReplay::kNever;
    std::string profile;  // Where to save what was launched; empty: nowhere.
  };
  // Makes a session, records, makes one call of the largest size above all buckets of a program,
  // and reads the session's books. More than two lanes are two, and what the second added, again.
  // Errors: as Session::Register, Session::Bind, Session::Run, SessionWarming::Warm and
  // SessionWarming::SaveProfile.
  absl::StatusOr<RecordedMemory> Record(const std::vector<ProgramTraffic>& programs,
                                        const Recording& recording);

 private:
  RecordedPackage() = default;

  absl::StatusOr<RecordedMemory> RecordOn(int lanes,
                                          const std::vector<ProgramTraffic>& programs,
                                          const Recording& recording);

  std::unique_ptr<WeightlessDevice> device_;
  std::unique_ptr<const package::LoadedPackage> loaded_;
  std::map<std::string, Tensor> constants_;
  int64_t given_constants_bytes_ = 0;
  int64_t static_bytes_ = 0;
};

}  // namespace coppice
