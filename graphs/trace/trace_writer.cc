// Events as lines of text, and the thread that carries them to the file.

#include "graphs/trace/trace_writer.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "fmt/compile.h"
#include "fmt/ranges.h"
#include <sys/stat.h>

#include "coppice/base/check.h"
#include "coppice/base/status.h"
#include "coppice/base/utf8.h"
#include "coppice/graphs/described/trace_fields.h"

#include "graphs/trace/own_threads.h"

namespace coppice::internal {
namespace {

constexpr int64_t kEventsMin = 16;
constexpr int64_t kEventsMax = int64_t{1} << 26;
constexpr auto kPeriod = std::chrono::milliseconds(200);  // How old the file is at most.
constexpr size_t kTextMax = size_t{64} * 1024;            // Written at once.
constexpr mode_t kOwnerOnly = 0600;

std::string NameOfError(int error) {
  return std::generic_category().message(error);
}

// Takes the file for this description of it, as long as that is open; nobody waits. Whoever watches
// a trace can ask for such a lock without taking it.
bool LockFile(int file) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  return fcntl(file, F_OFD_SETLK, &whole) == 0;
}

absl::StatusOr<int> OpenTrace(const std::string& path) {
  if (path.find('\0') != std::string::npos)
    return InvalidArgument(
        "TraceOptions::path: byte {} of the path is NUL; give a path without NUL bytes",
        path.find('\0'));
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, kOwnerOnly);
  struct stat found {};
  bool opened = file >= 0 && fstat(file, &found) == 0;
  // A file that was there before may have been readable by others, and may be somebody's trace:
  // nothing of it goes before it is this one's alone.
  if (opened && S_ISREG(found.st_mode)) {
    opened = LockFile(file) && fchmod(file, kOwnerOnly) == 0 && ftruncate(file, 0) == 0;
  }
  if (opened) return file;
  const int error = errno;
  if (file >= 0) close(file);
  if (error == EAGAIN)
    return FailedPrecondition(
        "Session::Create: another session is already writing its trace to '{}'; give each session "
        "its own file",
        path);
  return MakeError(
      absl::ErrnoToStatusCode(error),
      "Session::Create: the trace '{}' cannot be created: {}; choose a file in a writable folder",
      path, NameOfError(error));
}

}  // namespace

std::string QuoteJson(const std::string& text) {
  std::string quoted = "\"";
  for (size_t i = 0; i < text.size();) {
    const size_t length = Utf8SequenceLength(std::string_view(text).substr(i));
    const auto byte = static_cast<unsigned char>(text[i]);
    if (length == 0) {
      quoted += "\\ufffd";
    } else if (byte == '"' || byte == '\\') {
      quoted += {'\\', text[i]};
    } else if (byte < 0x20) {
      quoted += fmt::format("\\u{:04x}", byte);
    } else {
      quoted.append(text, i, length);
    }
    i += std::max<size_t>(length, 1);
  }
  return quoted + "\"";
}

absl::StatusOr<std::unique_ptr<TraceWriter>> TraceWriter::Create(
    const TraceOptions& options, int lanes, std::function<void(const std::string&)> log) {
  if (options.events_per_lane < kEventsMin || options.events_per_lane > kEventsMax) {
    return InvalidArgument("Session::Create: events_per_lane of the trace is {}; use {} to {}",
                           options.events_per_lane, kEventsMin, kEventsMax);
  }
  COPPICE_ASSIGN_OR_RETURN(const int file, OpenTrace(options.path));
  std::unique_ptr<TraceWriter> writer(new TraceWriter(options, lanes, file, std::move(log)));
  OwnThreads::Begin();
  writer->thread_ = std::thread([raw = writer.get()] { raw->Loop(); });
  return writer;
}

TraceWriter::TraceWriter(const TraceOptions& options,
                         int lanes,
                         int file,
                         std::function<void(const std::string&)> log)
    : path_(options.path),
      wait_when_full_(options.wait_when_full),
      file_(file),
      log_(std::move(log)),
      time_(clock_) {
  for (int lane = 0; lane < lanes; ++lane)
    sources_.push_back(std::make_unique<Source>(options.events_per_lane, lane));
  sources_.push_back(std::make_unique<Source>(options.events_per_lane, -1));
}

TraceWriter::~TraceWriter() {
  if (OwnThreads::AreGone()) {  // The file is the parent's, which goes on with it.
    OwnThreads::Forget(mutex_, changed_, thread_);
    close(file_);
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
    OwnThreads::End();
  }
  close(file_);
}

void TraceWriter::Define(const std::string& line) {
  if (OwnThreads::AreGone()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (status_.ok()) definitions_ += line;
}

absl::Status TraceWriter::Flush() {
  if (OwnThreads::AreGone()) {
    return FailedPrecondition(
        "the trace '{}' belongs to the process that this process was forked from; only that "
        "process writes it",
        path_);
  }
  std::unique_lock<std::mutex> lock(mutex_);
  const int64_t pass = passes_begun_ + 1;
  awake_.store(true);
  changed_.notify_all();
  changed_.wait(lock, [&] { return passes_done_ >= pass; });
  return status_;
}

void TraceWriter::Wake() {
  if (awake_.exchange(true)) return;
  // Not between the thread's look at `awake_` and its sleep.
  { const std::lock_guard<std::mutex> lock(mutex_); }
  changed_.notify_all();
}

// Whether the ring takes an event.
bool TraceWriter::MakeRoom(Source& source, size_t events) {
  if (OwnThreads::AreGone()) return false;
  Wake();
  if (source.events.Extend(events)) return true;
  if (!wait_when_full_) return false;
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return source.events.Extend(events); });
  return true;
}

void TraceWriter::PutAtLimit(Source& source, std::span<const RingEvent> events) {
  const auto put = [&](std::span<const RingEvent> next) {
    return source.events.Put(next) || (MakeRoom(source, next.size()) && source.events.Put(next));
  };
  // What was lost is told where it was lost: before the next event that finds room.
  if (source.dropped > 0) {
    const RingEvent lost(events.front().ticks(), DroppedEvent{.events = source.dropped});
    if (put(std::span(&lost, 1))) source.dropped = 0;
  }
  if (source.dropped > 0 || !put(events)) {
    ++source.dropped;
    dropped_.fetch_add(1, std::memory_order_relaxed);
  }
}

void TraceWriter::Loop() {
  // A pipe that nobody reads is a failed write, not the process's end.
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);

  std::vector<uint64_t> heads(sources_.size());
  std::string definitions;
  std::unique_lock<std::mutex> lock(mutex_);
  for (bool last = false; !last;) {
    changed_.wait_for(lock, kPeriod, [this] { return stopping_ || awake_.load(); });
    last = stopping_;
    awake_.store(false);
    ++passes_begun_;
    for (size_t i = 0; i < sources_.size(); ++i)
      heads[i] = sources_[i]->events.head();
    definitions.clear();
    definitions.swap(definitions_);
    const bool failed = !status_.ok();
    lock.unlock();
    time_.Advance();
    const absl::Status written = failed ? absl::OkStatus() : WritePass(definitions, heads, last);
    // What nobody will read gives its room back too.
    for (size_t i = 0; i < sources_.size(); ++i)
      sources_[i]->events.Take(heads[i], [](const RingEvent&) {});
    if (!written.ok() && log_) log_(fmt::format("coppice: {}", MessageOf(written)));
    lock.lock();
    status_.Update(written);
    passes_done_ = passes_begun_;
    changed_.notify_all();
  }
}

absl::Status TraceWriter::WritePass(const std::string& definitions,
                                    const std::vector<uint64_t>& heads,
                                    bool last) {
  text_.append(definitions.data(), definitions.data() + definitions.size());
  absl::Status status;
  for (size_t i = 0; i < sources_.size(); ++i) {
    Source& source = *sources_[i];
    source.events.Take(heads[i], [&](const RingEvent& event) {
      Format(source, event);
      if (text_.size() >= kTextMax && status.ok()) status = WriteText();
    });
    // Nobody puts events in any more.
    if (last && source.dropped > 0) {
      Write(source, clock_.Now(), DroppedEvent{.events = std::exchange(source.dropped, 0)});
    }
  }
  if (last) Write(*sources_.back(), clock_.Now(), EndEvent());
  if (status.ok()) status = WriteText();
  return status;
}

CallEvent TraceWriter::CallOf(const RingCall& call, uint64_t ticks, FurtherExtents& further) const {
  CallEvent event{
      .call = call.call,
      .bucket = call.bucket,
      .node = call.node,
      .path = call.path,
      .reason = call.reason,
      .real_elements = call.real_elements,
      .padded_elements = call.padded_elements,
      .program = call.program,
      .host_ns = call.host_ticks == 0 ? -1 : time_.Between(ticks - call.host_ticks, ticks),
      .outputs = call.outputs};
  const FurtherExtents rest = std::exchange(further, {});
  for (const std::span<const int32_t> extents :
       {std::span<const int32_t>(call.extents), std::span<const int32_t>(rest.extents)})
    for (const int32_t extent : extents)
      if (extent >= 0) event.extents.Add(extent);
  return event;
}

template <typename Event>
void TraceWriter::Write(Source& source, uint64_t ticks, const Event& event) {
  // Where two pieces of the clock's line meet, rounding may not turn time back.
  source.last_ns = std::max(source.last_ns, time_.At(ticks));
  const auto out = std::back_inserter(text_);
  fmt::format_to(out, FMT_COMPILE("[{},\"{}\",{}"), source.last_ns, kTraceEventName<Event>,
                 source.lane);
  VisitFields(event,
              [&]<typename Field>(const char* /*name*/, const Field& field, int64_t /*least*/) {
                if constexpr (std::same_as<Field, TraceExtents>) {
                  fmt::format_to(out, FMT_COMPILE(",[{}]"), fmt::join(field.values(), ","));
                } else if constexpr (std::is_enum_v<Field>) {
                  fmt::format_to(out, FMT_COMPILE(",\"{}\""), NameOf(field));
                } else {
                  fmt::format_to(out, FMT_COMPILE(",{}"), int64_t{field});
                }
              });
  fmt::format_to(out, FMT_COMPILE("]\n"));
}

void TraceWriter::Format(Source& source, const RingEvent& event) {
  event.VisitEvent([&]<typename Event>(const Event& what) {
    if constexpr (std::same_as<Event, FurtherExtents>) {
      source.further = what;
    } else if constexpr (std::same_as<Event, RingCall>) {
      Write(source, event.ticks(), CallOf(what, event.ticks(), source.further));
    } else {
      Write(source, event.ticks(), what);
    }
  });
}

absl::Status TraceWriter::WriteText() {
  const char* next = text_.data();
  size_t left = text_.size();
  text_.clear();
  while (left > 0) {
    const ssize_t written = write(file_, next, left);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      return MakeError(
          absl::ErrnoToStatusCode(errno),
          "the trace '{}' cannot be written: {}; the trace ends here, and the session continues",
          path_, NameOfError(errno));
    }
    next += written;
    left -= static_cast<size_t>(written);
  }
  return absl::OkStatus();
}

}  // namespace coppice::internal
