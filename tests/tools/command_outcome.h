// Runs the command in this process and keeps what it wrote.
//
// Threads: one at a time.

#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tools/coppice/command_line.h"
#include "tools/support/console.h"

namespace coppice {

struct CommandOutcome {
  ExitCode code = kExitOk;
  std::string out;
  std::string err;
};

// A stream that collects text in memory.
class TextStream {
 public:
  TextStream() : stream_(open_memstream(&text_, &bytes_)) {}
  ~TextStream() {
    std::fclose(stream_);
    std::free(text_);
  }
  TextStream(const TextStream&) = delete;
  TextStream& operator=(const TextStream&) = delete;

  std::FILE* stream() const { return stream_; }
  std::string Text() const {
    std::fflush(stream_);
    return std::string(text_, bytes_);
  }

 private:
  char* text_ = nullptr;
  size_t bytes_ = 0;
  std::FILE* stream_;
};

// Runs `program` with `arguments` by `run(argument_count, arguments, console)`.
template <typename Run>
CommandOutcome OutcomeOf(const char* program, const std::vector<std::string>& arguments, Run run) {
  std::vector<const char*> pointers = {program};
  for (const std::string& argument : arguments)
    pointers.push_back(argument.c_str());
  const TextStream out;
  const TextStream err;
  CommandOutcome outcome;
  outcome.code = run(static_cast<int>(pointers.size()), pointers.data(),
                     Console{.out = out.stream(), .err = err.stream()});
  outcome.out = out.Text();
  outcome.err = err.Text();
  return outcome;
}

inline CommandOutcome RunCoppice(const std::vector<std::string>& arguments) {
  return OutcomeOf("coppice", arguments,
                   [](int count, const char* const* pointers, const Console& console) {
                     return RunCommandLine(count, pointers, /*program=*/"", console);
                   });
}

}  // namespace coppice
