// Reads, looks, paints, waits.

#include "tools/prof/watch/prof_watch.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <memory>
#include <optional>
#include <poll.h>
#include <system_error>
#include <utility>

#include "nlohmann/json.hpp"

#include "coppice/base/status.h"

#include "tools/prof/pool_trace.h"
#include "tools/prof/prof.h"
#include "tools/prof/watch/file_tail.h"
#include "tools/prof/watch/traced_process.h"
#include "tools/prof/watch/watch_report.h"
#include "tools/prof/watch/watch_state.h"

namespace coppice {
namespace {

// A number names a process; a file that is called so, by a path with a slash.
std::optional<int64_t> ProcessOf(const std::string& text) {
  int64_t process = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, process);
  if (error != std::errc() || end != last || process < 0) return std::nullopt;
  return process;
}

// One trace from its first line on.
class WatchedTrace {
 public:
  static absl::StatusOr<std::unique_ptr<WatchedTrace>> Open(const std::string& name,
                                                            const std::string& path) {
    COPPICE_ASSIGN_OR_RETURN(FileTail tail, FileTail::Open(path));
    return std::unique_ptr<WatchedTrace>(new WatchedTrace(name, std::move(tail)));
  }

  absl::StatusOr<FileTail::Change> Read() {
    return tail_.Read([this](std::string_view bytes) {
      const absl::Status status = stream_.Take(bytes);
      stream_.ForgetPlans();
      return status;
    });
  }

  WatchedSession Look(std::optional<double> seconds) {
    return state_.Look(stream_.trace(), seconds);
  }
  const FileTail& tail() const { return tail_; }
  bool begun() const { return stream_.trace().lanes > 0; }
  bool ended() const { return stream_.trace().ended; }

 private:
  WatchedTrace(const std::string& name, FileTail tail)
      : tail_(std::move(tail)),
        on_event_(
            [this](const PoolTrace& trace, const TracedEvent& event) { state_.Add(trace, event); }),
        stream_(name, on_event_) {}

  FileTail tail_;
  WatchState state_;
  const std::function<void(const PoolTrace&, const TracedEvent&)> on_event_;
  TraceStream stream_;
};

class Watcher {
 public:
  Watcher(const ProfWatchOptions& options, const Console& console, const WatchWorld& world)
      : options_(options), console_(console), world_(world), process_(ProcessOf(options.trace)) {}

  ExitCode Run() {
    if (const absl::Status status = Begin(); !status.ok()) return FailProf(console_, status);
    while (true) {
      // Asked before the trace is read, so that what it wrote last is seen.
      const bool left = IsGone();
      const absl::StatusOr<FileTail::Change> change = trace_->Read();
      if (!change.ok()) return FailProf(console_, change.status());
      if (IsAnother(*change)) {
        if (const absl::Status status = BeginAnew(*change); !status.ok())
          return FailProf(console_, status);
        continue;
      }
      const bool gone = left && (trace_->begun() || !MayBegin());
      Show(gone);
      if (trace_->ended() || options_.once) return kExitOk;
      if (gone) return kExitMismatch;
      if (std::ferror(console_.out) != 0) return kExitOutput;  // Nobody reads it any more.
      world_.wait(options_.interval_ns);
      // Without a last look: the time since the one before says nothing of rates.
      if (console_.stopped()) return kExitStopped;
    }
  }

 private:
  absl::Status Begin() {
    // From the first question on a signal asks to stop.
    static_cast<void>(console_.stopped());
    name_ = options_.trace;
    path_ = options_.trace;
    if (process_.has_value()) {
      COPPICE_ASSIGN_OR_RETURN(TracedProcess traced,
                               FindTracedProcess(*process_, world_.processes));
      name_ = fmt::format("{} of process {}", traced.name, *process_);
      path_ = traced.path;
    }
    COPPICE_ASSIGN_OR_RETURN(trace_, WatchedTrace::Open(name_, path_));
    return absl::OkStatus();
  }

  // Whether what the path leads to is not what was read, and there is more to see of it.
  bool IsAnother(FileTail::Change change) {
    if (change == FileTail::Change::kRemoved && !std::exchange(removed_, true))
      Note("the file was moved or removed; data that its writer adds is still read");
    return change == FileTail::Change::kCutShort ||
           (change == FileTail::Change::kReplaced && !trace_->ended());
  }

  absl::Status BeginAnew(FileTail::Change change) {
    Note(change == FileTail::Change::kCutShort
             ? "the file was cut short or rewritten; reading it again from its beginning"
             : "another file replaced the trace; reading the new one from its beginning");
    looked_ns_.reset();
    COPPICE_ASSIGN_OR_RETURN(trace_, WatchedTrace::Open(name_, path_));
    return absl::OkStatus();
  }

  // Below what was painted, which stays.
  void Note(const char* note) {
    block_.Keep();
    Print(console_.err, "coppice prof: note: {}: {}\n", name_, note);
  }

  bool IsGone() const {
    if (!process_.has_value()) return !world_.has_writer(trace_->tail());
    const absl::StatusOr<TracedProcess> traced = FindTracedProcess(*process_, world_.processes);
    return !traced.ok() || traced->path != path_;
  }

  // Whether it may get a writer. Between making a file and taking it, a session has written
  // nothing.
  bool MayBegin() const { return !process_.has_value() && !trace_->tail().is_pipe(); }

  void Show(bool gone) {
    const int64_t now_ns = world_.now_ns();
    std::optional<double> seconds;
    if (looked_ns_.has_value()) seconds = static_cast<double>(now_ns - *looked_ns_) / 1e9;
    looked_ns_ = now_ns;
    WatchedSession session = trace_->Look(seconds);
    if (gone && session.state != WatchedState::kEnded) session.state = WatchedState::kGone;
    if (options_.json) {
      const auto replace = nlohmann::ordered_json::error_handler_t::replace;
      Print(console_.out, "{}\n", JsonOfWatch(session, name_).dump(-1, ' ', false, replace));
    } else {
      const Terminal terminal = world_.terminal();
      Print(console_.out, "{}",
            block_.Paint(LinesOfWatch(session, name_, terminal.columns - 1), terminal));
    }
    std::fflush(console_.out);
  }

  const ProfWatchOptions& options_;
  const Console& console_;
  const WatchWorld& world_;
  const std::optional<int64_t> process_;
  std::string name_;
  std::string path_;
  std::unique_ptr<WatchedTrace> trace_;
  RepaintedBlock block_;
  std::optional<int64_t> looked_ns_;
  bool removed_ = false;
};

}  // namespace

ExitCode WatchSession(const ProfWatchOptions& options,
                      const Console& console,
                      const WatchWorld& world) {
  return Watcher(options, console, world).Run();
}

ExitCode ProfWatch(const ProfWatchOptions& options, const Console& console) {
  using Clock = std::chrono::steady_clock;
  constexpr int64_t kSliceNs = 50'000'000;  // How long a signal waits at most to be seen.
  const auto now_ns = [] {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
        .count();
  };
  const WatchWorld world = {
      .now_ns = now_ns,
      .wait =
          [&](int64_t nanoseconds) {
            const int64_t end = now_ns() + nanoseconds;
            for (int64_t left = nanoseconds; left > 0 && !console.stopped(); left = end - now_ns())
              poll(nullptr, 0, static_cast<int>(std::min(left, kSliceNs) / 1'000'000 + 1));
          },
      .terminal = [&] { return TerminalOf(console.out); }};
  return WatchSession(options, console, world);
}

}  // namespace coppice
