// Calls of a warp: frames, and the memory that each thread has for them.

#include <algorithm>
#include <bit>
#include <cstring>

#include "fmt/format.h"

#include "runtime/emulator/ptx/resident_warp.h"

namespace coppice::ptx {
namespace {

// Of a thread, as on a GPU.
constexpr int64_t kThreadMemoryMax = 512 << 10;
constexpr int kDepthMax = 1 << 13;
// Of the registers of all calls of a launch: what the host gives.
constexpr size_t kFrameBytesMax = size_t{1} << 30;

// Copies what a call passes, of each of `lanes`, between places of two frames' thread memory.
void CopyPlaces(ResidentWarp& warp,
                uint32_t lanes,
                const std::vector<Place>& from,
                int64_t from_memory,
                const std::vector<Place>& to,
                int64_t to_memory) {
  const size_t count = std::min(from.size(), to.size());
  for (size_t i = 0; i < count; ++i) {
    const size_t bytes = static_cast<size_t>(std::min(from[i].bytes, to[i].bytes));
    for (uint32_t left = lanes; left != 0; left &= left - 1) {
      std::byte* const memory =
          warp.thread_memory() + std::countr_zero(left) * warp.thread_stride();
      const std::byte* const source = memory + from_memory + from[i].offset;
      std::byte* const target = memory + to_memory + to[i].offset;
      std::memcpy(target, source, bytes);
      if (warp.state().taint != nullptr) warp.state().taint->Copy(source, target, bytes);
    }
  }
}

}  // namespace

bool ResidentWarp::GrowThreadMemory(int64_t bytes) {
  if (bytes > kThreadMemoryMax) return false;
  // No power of two: the same offset of all lanes would fall in few sets of a cache.
  const int64_t stride =
      std::min(std::max((bytes + 63) / 64 * 64, 2 * thread_stride_) + 64, kThreadMemoryMax + 64);
  std::vector<std::byte> grown(static_cast<size_t>(stride * kLanes));
  for (int lane = 0; lane < kLanes && thread_stride_ != 0; ++lane)
    std::memcpy(grown.data() + lane * stride, thread_memory_.data() + lane * thread_stride_,
                static_cast<size_t>(thread_stride_));
  if (state_.taint != nullptr) {
    state_.taint->Clear(grown);
    for (int lane = 0; lane < kLanes && thread_stride_ != 0; ++lane)
      state_.taint->Copy(thread_memory_.data() + lane * thread_stride_,
                         grown.data() + lane * stride, static_cast<size_t>(thread_stride_));
    state_.taint->Clear(thread_memory_);
  }
  thread_memory_ = std::move(grown);
  thread_stride_ = stride;
  return true;
}

// Lanes that come to a call one after the other are in one frame, so that they may meet in there.
Frame* ResidentWarp::FindCall(const Code& callee, const CallSite& site) const {
  for (int i = 0; i < count_; ++i) {
    Frame* frame = fragments_[static_cast<size_t>(i)].frame;
    while (frame->depth > frame_->depth + 1)
      frame = frame->caller;
    if (frame->caller == frame_ && frame->site == &site && frame->code == &callee) return frame;
  }
  return nullptr;
}

bool ResidentWarp::Call(const Code& callee, const CallSite& site, uint32_t lanes) {
  constexpr int64_t kAlignment = 16;
  Frame* const caller = frame_;
  const int64_t memory = (ThreadBytes(*caller) + kAlignment - 1) / kAlignment * kAlignment;
  const int64_t bytes = memory + callee.thread_bytes;
  const bool deep = caller->depth >= kDepthMax || state_.frames.bytes() > kFrameBytesMax;
  if (deep || (bytes > thread_stride_ && !GrowThreadMemory(bytes))) {
    Fault(Finding::Kind::kIllegalAddress, std::countr_zero(lanes),
          fmt::format("calls {} at depth {}, but the stack has no room left", callee.name,
                      caller->depth));
    return false;
  }
  Frame* frame = count_ == 1 ? nullptr : FindCall(callee, site);
  if (frame == nullptr) {
    frame = state_.frames.Take(callee);
    frame->caller = caller;
    frame->site = &site;
    frame->return_pc = pc() + 1;
    frame->lanes = 0;
    frame->depth = caller->depth + 1;
    frame->memory = memory;
    if (state_.taint != nullptr) state_.taint->Start(*frame);
  }
  frame->lanes |= lanes;
  CopyPlaces(*this, lanes, site.arguments, caller->memory, callee.parameters, memory);

  Fragment& running = Running();
  if (running.mask == lanes) {
    running.pc = 0;
    running.frame = frame;
    return true;
  }
  running.mask &= ~lanes;
  if ((running.mask & mask_) == 0) running.pc = pc() + 1;
  Add(lanes, 0, frame);
  return true;
}

Step ResidentWarp::Return() {
  Frame* const frame = frame_;
  if (frame->caller == nullptr) return Exit();
  TakeExecuting();
  CopyPlaces(*this, mask_, frame->code->results, frame->memory, frame->site->results,
             frame->caller->memory);
  Running().pc = frame->return_pc;
  Running().frame = frame->caller;
  frame->lanes &= ~mask_;
  if (frame->lanes == 0) DropFrame(frame);
  return Step::kChoose;
}

Step ResidentWarp::Exit() {
  TakeExecuting();
  for (Frame* frame = frame_; frame != nullptr;) {
    Frame* const caller = frame->caller;
    frame->lanes &= ~mask_;
    if (frame->lanes == 0) DropFrame(frame);
    frame = caller;
  }
  live_ &= ~mask_;
  Remove(running_);
  // Who waits for lanes of the warp has fewer to wait for.
  for (int i = 0; i < count_; ++i) {
    Fragment& fragment = fragments_[static_cast<size_t>(i)];
    if (fragment.state == Fragment::State::kGather) fragment.state = Fragment::State::kReady;
    if (fragment.state == Fragment::State::kWarpBarrier) ReleaseWarpBarrier(fragment.members);
  }
  barriers_.OnExit(*this);
  return Step::kChoose;
}

void ResidentWarp::DropFrame(Frame* frame) {
  state_.frames.Return(frame);
  // Taken again, it is another frame.
  if (frame_ == frame) frame_ = nullptr;
}

}  // namespace coppice::ptx
