// A list of free frames; most calls fit in the one that was returned last.

#include "runtime/emulator/ptx/frame.h"

namespace coppice::ptx {

Frame* FramePool::Take(const Code& code) {
  const size_t lines = static_cast<size_t>((code.frame_bytes + 63) / 64);
  Owned* taken = nullptr;
  for (size_t i = free_.size(); i-- > 0 && taken == nullptr;) {
    if (free_[i]->lines.size() < lines) continue;
    taken = free_[i];
    free_[i] = free_.back();
    free_.pop_back();
  }
  if (taken == nullptr) {
    taken = &frames_.emplace_back();
    taken->lines.resize(lines);
    bytes_ += lines * sizeof(Line);
  }
  taken->registers = reinterpret_cast<std::byte*>(taken->lines.data());
  taken->code = &code;
  return taken;
}

}  // namespace coppice::ptx
