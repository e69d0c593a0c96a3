// The recording thread and its queue.

#include "graphs/record/background_recorder.h"

#include <utility>

#include "coppice/base/status.h"

#include "graphs/trace/own_threads.h"

namespace coppice::internal {

absl::StatusOr<std::unique_ptr<BackgroundRecorder>> BackgroundRecorder::Start(
    const Context& context) {
  COPPICE_ASSIGN_OR_RETURN(Stream stream, Stream::Create(context.driver()));
  std::unique_ptr<BackgroundRecorder> recorder(new BackgroundRecorder(context, std::move(stream)));
  OwnThreads::Begin();
  recorder->thread_ = std::thread([raw = recorder.get()] { raw->Loop(); });
  return recorder;
}

BackgroundRecorder::~BackgroundRecorder() {
  if (OwnThreads::AreGone()) {
    OwnThreads::Forget(mutex_, changed_, thread_);
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (!thread_.joinable()) return;
  thread_.join();
  OwnThreads::End();
}

void BackgroundRecorder::Add(Job job) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_all();
}

void BackgroundRecorder::Wait() {
  if (OwnThreads::AreGone()) return;
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return jobs_.empty() && !busy_; });
}

void BackgroundRecorder::Loop() {
  // A context that cannot be made current makes the first driver call of a recording say so.
  (void)context_.MakeCurrent().ok();
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    busy_ = true;
    lock.unlock();
    job(stream_.handle());
    job = nullptr;
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace coppice::internal
