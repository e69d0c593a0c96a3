// What a session holds, and the paths a call can take under its lane's lock. Private to graphs/.
//
// Threads: the methods run under the lock of the lane they are given.

#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/allocator/pool.h"
#include "coppice/graphs/session.h"
#include "coppice/graphs/staging.h"
#include "coppice/runtime/stream.h"

#include "graphs/call_shape.h"
#include "graphs/lane.h"
#include "graphs/node.h"
#include "graphs/recorder.h"

namespace coppice {

struct Session::State {
  State(const Context& session_context,
        SessionOptions session_options,
        std::unique_ptr<Pool> session_pool,
        StagingKernels kernels)
      : context(session_context),
        driver(session_context.driver()),
        options(std::move(session_options)),
        pool(std::move(session_pool)),
        staging(std::move(kernels)) {}

  absl::StatusOr<Lease> RunInLane(const Call& call,
                                  const internal::CallShape& shape,
                                  internal::Lane& lane);
  absl::StatusOr<Lease> Replay(const Call& call,
                               const internal::CallShape& shape,
                               internal::Lane& lane,
                               internal::Node& node);
  absl::Status PoisonExpired(CuStream stream, internal::Lane& lane) const;
  absl::StatusOr<Lease> RunWithoutGraph(const Call& call,
                                        const internal::CallShape& shape,
                                        internal::Lane& lane,
                                        internal::Node* node);
  absl::StatusOr<Lease> RunEager(const Call& call,
                                 const internal::CallShape& shape,
                                 internal::Lane& lane,
                                 Reason reason);
  absl::StatusOr<Lease> WarmUp(const Call& call,
                               const internal::CallShape& shape,
                               internal::Lane& lane,
                               const internal::NodeKey& key);
  absl::StatusOr<std::unique_ptr<internal::Node>> MakeNode(const Call& call,
                                                           const internal::NodeKey& key,
                                                           internal::Lane& lane);
  absl::Status TryRecord(const Call& call,
                         internal::Lane& lane,
                         internal::Node& node,
                         Reason& reason);
  absl::Status WarmBucket(const Call& call,
                          const internal::CallShape& shape,
                          const Binding* scratch,
                          internal::Lane& lane);
  internal::RunRequest RequestOf(const Call& call,
                                 std::span<const int64_t> extents,
                                 const StagingParams& params,
                                 const internal::Lane& lane) const;
  Reason ReasonForNewNode(const internal::NodeTable& table, const internal::NodeKey& key) const;
  Lease Finish(const Call& call,
               const internal::CallShape& shape,
               internal::Lane& lane,
               Path path,
               Reason reason);
  absl::Status Remember(absl::Status status);
  absl::Status Poison();  // The first sticky error; OK if there was none.

  const Context& context;
  const Driver& driver;
  const SessionOptions options;
  const std::unique_ptr<Pool> pool;
  const StagingKernels staging;
  std::vector<DeviceMemory> workspaces;  // One per lane, or none.
  std::vector<std::unique_ptr<internal::Lane>> lanes;

  std::atomic<bool> poisoned{false};  // Set once, after `poison` is.
  std::mutex mutex;                   // Guards what is below.
  absl::Status poison;                // The first sticky error.
  std::vector<std::unique_ptr<Program>> programs;
  std::vector<std::unique_ptr<Binding>> bindings;
};

}  // namespace coppice
