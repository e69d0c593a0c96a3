// Records graphs on a thread of its own, so that calls go on meanwhile. Private to graphs/.
//
// The bucket of a recording is marked as such, and its trace does not change; the node belongs to
// the recording until it is published. The lane's lock is taken for that alone.
//
// Threads: any, but for Start and the destructor.

#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "coppice/runtime/stream.h"

#include "graphs/lane.h"
#include "graphs/node.h"

namespace coppice::internal {

class BackgroundRecorder {
 public:
  struct Job {
    Lane* lane = nullptr;
    const Program* program = nullptr;
    std::vector<int64_t> scalars;
    std::unique_ptr<Node> node;
  };
  // Records the job's node on the given stream; publishes it, or says in its bucket why not.
  using Work = std::function<void(Job& job, CuStream stream)>;

  // Starts the thread, which works in `context`. Both outlive the recorder.
  static absl::StatusOr<std::unique_ptr<BackgroundRecorder>> Start(const Context& context,
                                                                   Work work);
  // Finishes the job under way; drops those behind it.
  ~BackgroundRecorder();
  BackgroundRecorder(const BackgroundRecorder&) = delete;
  BackgroundRecorder& operator=(const BackgroundRecorder&) = delete;

  void Add(Job job);
  // Waits until there is no job left.
  void Wait();

 private:
  BackgroundRecorder(const Context& context, Stream stream, Work work)
      : context_(context), stream_(std::move(stream)), work_(std::move(work)) {}

  void Loop();

  const Context& context_;
  const Stream stream_;
  const Work work_;
  std::mutex mutex_;  // Guards what is below.
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool busy_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace coppice::internal
