// A warp that executes a few instructions of PTX on memory of the test.
//
//   HostWarp warp("atom.shared.add.u32 %r0, [%r1], %r2;");
//   warp.Lanes<uint32_t>("%r1")[3] = 64;    // Before and after it, by the names of registers.
//   warp.Run();
//
// Registers: %h<20> of 16 bits, %r<80> and %f<80> of 32, %d<20> of 64, %q<9> of 128, %p<9>. Global
// addresses are those of the host; shared memory is `shared`, at 0 of .shared and at kSharedWindow
// of generic addresses. Variables: .shared "sm", at 0.
//
// Threads: one.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/emulator/ptx/async_work.h"
#include "runtime/emulator/ptx/code.h"
#include "runtime/emulator/ptx/decoder.h"
#include "runtime/emulator/ptx/form.h"
#include "runtime/emulator/ptx/syntax.h"
#include "runtime/emulator/ptx/warp.h"

namespace coppice::ptx {

class HostWarp final : public Warp, public Warp::MemoryAccess, public Warp::Control {
 public:
  struct Access {
    Space space;
    uint64_t address;
    int64_t bytes;
    AccessKind kind;
    int lane;
  };

  explicit HostWarp(std::string_view body);
  ~HostWarp();

  // Why the text is not decoded; empty if it is.
  const std::string& error() const { return error_; }

  void Execute(uint32_t mask) { mask_ = active_ = mask; }
  void SetLive(uint32_t live) { live_ = live; }
  // Makes it a warp of the other's block, with its shared memory and what is under way there.
  void Join(HostWarp& other);

  template <typename T>
  T* Lanes(std::string_view name) {
    return To<T>(SlotOf(name, sizeof(T)));
  }
  uint32_t& Bits(std::string_view name) { return *To<uint32_t>(SlotOf(name, 0)); }

  // Executes instruction i; as `row` does, if it is given.
  Step Run(size_t i = 0, const Form* row = nullptr);
  // All of them, one after the other, while they go on.
  Step RunAll();

  std::byte* At(
      Warp&, Space space, uint64_t address, int64_t bytes, AccessKind kind, int lane) override;
  // As At, lane by lane; all are asked for when they are found.
  bool FindLanes(Warp&,
                 Space space,
                 uint32_t lanes,
                 int64_t bytes,
                 AccessKind kind,
                 LaneWords& addresses) override;
  void Tell(Warp&, uint32_t, const LaneWords&, int64_t, AccessKind) override {}
  bool IsTold() const override { return false; }
  bool Gather(Warp&, uint32_t members, Step& step) override;
  Step Poll(const Instr&, Space, uint64_t) override { return Step::kNext; }

  std::vector<std::byte> shared;
  std::vector<Access> accesses;    // All that were asked for.
  std::vector<uint32_t> gathered;  // Members of each Gather.
  uint32_t arriving = 0;           // Lanes that come when they are waited for.

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };

  Slot SlotOf(std::string_view name, size_t bytes);

  std::string error_;
  std::set<std::string> names_;  // That the decoder has been asked for, and points to.
  Module module_;
  Code code_;
  std::unique_ptr<FunctionDecoder> decoder_;
  std::vector<Line> frame_;
  std::vector<Line> constants_;
  AsyncWork own_async_;
  HostWarp* owner_ = this;  // Of the shared memory.
};

}  // namespace coppice::ptx
