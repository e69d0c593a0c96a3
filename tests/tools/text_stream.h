// A stream whose text a test can read.
//
// Threads: one at a time.

#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace coppice {

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

}  // namespace coppice
