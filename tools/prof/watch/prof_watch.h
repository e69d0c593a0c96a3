// `coppice prof watch`: a session while it runs.
//
// Units: nanoseconds. Threads: one at a time per process.

#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tools/prof/watch/file_tail.h"
#include "tools/support/console.h"
#include "tools/support/terminal.h"

namespace coppice {

struct ProfWatchOptions {
  std::string trace;                    // Its path, or the number of the process that writes it.
  int64_t interval_ns = 1'000'000'000;  // From one look to the next.
  bool once = false;                    // One look, and the end.
  bool json = false;                    // An object per line.
};

// What a watcher has of the world outside of the trace.
struct WatchWorld {
  std::function<int64_t()> now_ns;                // A clock that does not jump.
  std::function<void(int64_t nanoseconds)> wait;  // Returns earlier if it is to stop.
  std::function<Terminal()> terminal;             // Asked before each look.
  std::string processes = "/proc";
  std::function<bool(const FileTail&)> has_writer = &FileTail::has_writer;
};

// Looks at the session until its trace ends, whoever wrote it is gone, or `console` says to stop.
// Of a process that is asked of the system, of a file its lock; a file that nobody writes to and
// that has not begun is waited for.
//
// Exit codes: 0 the trace has its end, or one look was wanted; 1 its writer is gone, and the trace
// has no end; 2 there is no such process or file, or it is no trace; 5 it was stopped.
ExitCode WatchSession(const ProfWatchOptions& options,
                      const Console& console,
                      const WatchWorld& world);

// The same in this world.
ExitCode ProfWatch(const ProfWatchOptions& options, const Console& console);

}  // namespace coppice
