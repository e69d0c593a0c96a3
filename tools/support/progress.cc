// Draws the bar in place with a carriage return.

#include "tools/support/progress.h"

#include <algorithm>
#include <unistd.h>
#include <utility>

#include "fmt/format.h"

#include "tools/support/console.h"

namespace coppice {
namespace {

constexpr int64_t kBarWidth = 40;

}  // namespace

Progress::Progress(std::FILE* stream, bool enabled, std::string label)
    : stream_(stream), drawn_(enabled && isatty(fileno(stream)) != 0), label_(std::move(label)) {}

Progress::~Progress() {
  if (drawn_) Print(stream_, "\r\033[K");
}

void Progress::Update(int64_t done, int64_t total) {
  if (!drawn_) return;
  const int64_t percent = 100 * done / std::max<int64_t>(total, 1);
  if (percent == percent_) return;
  percent_ = percent;
  const std::string bar(static_cast<size_t>(kBarWidth * percent / 100), '#');
  Print(stream_, "\r{} [{:<{}}] {:>3} %", label_, bar, kBarWidth, percent);
  std::fflush(stream_);
}

}  // namespace coppice
