// Records graphs on a thread of its own, so that calls go on meanwhile. Private to graphs/.
//
// Threads: any, but for Start and the destructor.

#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"

#include "coppice/runtime/stream.h"

namespace coppice::internal {

class BackgroundRecorder {
 public:
  // Records on the given stream, and tells whoever waits for that what came of it.
  using Job = absl::AnyInvocable<void(CuStream stream)>;

  // Starts the thread, which works in `context`, which outlives the recorder.
  static absl::StatusOr<std::unique_ptr<BackgroundRecorder>> Start(const Context& context);
  // Finishes the job under way; drops those behind it.
  ~BackgroundRecorder();
  BackgroundRecorder(const BackgroundRecorder&) = delete;
  BackgroundRecorder& operator=(const BackgroundRecorder&) = delete;

  void Add(Job job);
  // Waits until there is no job left.
  void Wait();

 private:
  BackgroundRecorder(const Context& context, Stream stream)
      : context_(context), stream_(std::move(stream)) {}

  void Loop();

  const Context& context_;
  const Stream stream_;
  std::mutex mutex_;  // Guards what is below.
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool busy_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace coppice::internal
