// cp.async: copies from global to shared memory that land when they are waited for; and cache
// policies, which are nothing here.

#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "fmt/format.h"

#include "runtime/emulator/ptx/async_work.h"
#include "runtime/emulator/ptx/form.h"
#include "runtime/emulator/ptx/forms/async_tables.h"
#include "runtime/emulator/ptx/forms/operands.h"
#include "runtime/emulator/ptx/forms/warpgroup.h"
#include "runtime/emulator/ptx/resident_warp.h"
#include "runtime/emulator/ptx/windows.h"

namespace coppice::ptx {
namespace {

uint32_t IgnoringLanes(const Warp& warp, const Instr& instr) {
  if ((instr.flags & AsyncCopyFlags::kIgnoreSource) == 0) return 0;
  const uint32_t bits = warp.Predicate(instr.c);
  return (instr.flags & Instr::kNegated) != 0 ? ~bits : bits;
}

// d: the target's address, a: the source's.
Step CopyAsync(Warp& warp, const Instr& instr) {
  const AsyncCopies::Copy copy = AsyncCopyOf(warp, instr);
  for (uint32_t lanes = warp.mask(); lanes != 0; lanes &= lanes - 1) {
    const int lane = std::countr_zero(lanes);
    if (copy.to[lane] >> kRankShift == 0) continue;
    static_cast<ResidentWarp&>(warp).Fault(
        Finding::Kind::kIllegalAddress, lane,
        fmt::format("writes {} bytes at {:#x}, outside the block's own shared memory", copy.bytes,
                    copy.to[lane]),
        copy.to[lane]);
    return Step::kStop;
  }
  return warp.async().copies.Start(warp, copy) ? Step::kNext : Step::kStop;
}

// [to], [from], bytes{, source bytes or ignore}{, policy}
template <bool only16>
bool DecodeCopyAsync(FunctionDecoder& decoder, const Instruction& from, Instr& to) {
  const size_t policies = from.opcode.find("cache_hint") != std::string_view::npos ? 1 : 0;
  OperandReader operands(decoder, from, 3 + policies, 4 + policies);
  const FunctionDecoder::Address target = operands.Address();
  const FunctionDecoder::Address source = operands.Address();
  const uint64_t bytes = operands.Integer();
  if (!operands.ok()) return false;
  if (!FitsOffset(target.offset) || !FitsOffset(source.offset))
    return decoder.Fail("cp.async: an offset does not fit in a signed 32-bit integer");
  to.d = target.base;
  to.a = source.base;
  to.immediate = target.offset << 32 | (source.offset & 0xffffffff);
  to.flags = (target.narrow ? AsyncCopyFlags::kNarrowTarget : 0) |
             (source.narrow ? AsyncCopyFlags::kNarrowSource : 0);
  if (from.operands.size() == 4 + policies) {
    if (decoder.IsPredicate(operands.next())) {
      bool negated = false;
      to.c = operands.ReadPredicate(negated);
      to.flags |= AsyncCopyFlags::kIgnoreSource | (negated ? Instr::kNegated : 0);
    } else {
      to.c = operands.Read(4);
      to.flags |= AsyncCopyFlags::kSourceBytes;
    }
  }
  to.handler = CopyAsync;
  to.target = static_cast<uint32_t>(bytes);
  if (bytes != 16 && (only16 || (bytes != 8 && bytes != 4)))
    operands.Fail(only16 ? "must copy 16 bytes" : "must copy 4, 8 or 16 bytes");
  return operands.ok();
}

Step CommitGroup(Warp& warp, const Instr&) {
  warp.async().copies.Commit(warp);
  return Step::kNext;
}

Step WaitGroup(Warp& warp, const Instr& instr) {
  const auto pending = static_cast<uint32_t>(instr.immediate);
  return warp.async().copies.Wait(warp, pending) ? Step::kNext : Step::kStop;
}

Step WaitAll(Warp& warp, const Instr&) {
  warp.async().copies.Commit(warp);
  return warp.async().copies.Wait(warp, 0) ? Step::kNext : Step::kStop;
}

Step CreatePolicy(Warp& warp, const Instr& instr) {
  uint64_t* const d = warp.To<uint64_t>(instr.d);
  for (uint32_t lanes = warp.mask(); lanes != 0; lanes &= lanes - 1)
    d[std::countr_zero(lanes)] = 0;
  return Step::kNext;
}

// What else it has says which lines of a cache to keep.
bool DecodeCreatePolicy(FunctionDecoder& decoder, const Instruction& from, Instr& to) {
  OperandReader operands(decoder, from, 1, 4);
  to.d = operands.Write(8);
  return operands.ok();
}

}  // namespace

AsyncCopies::Copy AsyncCopyOf(const Warp& warp, const Instr& instr) {
  const auto from_offset = static_cast<int32_t>(instr.immediate);
  const auto to_offset = static_cast<int32_t>(instr.immediate >> 32);
  const LaneAddresses from(warp, instr.a, (instr.flags & AsyncCopyFlags::kNarrowSource) != 0,
                           from_offset);
  const LaneAddresses to(warp, instr.d, (instr.flags & AsyncCopyFlags::kNarrowTarget) != 0,
                         to_offset);
  const uint32_t* const sizes =
      (instr.flags & AsyncCopyFlags::kSourceBytes) != 0 ? warp.From<uint32_t>(instr.c) : nullptr;
  const uint32_t ignoring = IgnoringLanes(warp, instr);
  AsyncCopies::Copy copy;
  copy.bytes = static_cast<uint8_t>(instr.target);
  for (int lane = 0; lane < kLanes; ++lane) {
    copy.to[lane] = to[lane];
    copy.from[lane] = from[lane];
    const uint32_t size = sizes == nullptr ? instr.target : std::min(sizes[lane], instr.target);
    copy.read[lane] = (ignoring >> lane & 1) != 0 ? 0 : static_cast<uint8_t>(size);
  }
  return copy;
}

std::span<const Form> AsyncForms() {
  static const FormTable rows = [] {
    FormTable made;
    made.Decoded("cp.async.ca.shared.global", DecodeCopyAsync<false>);
    made.Decoded("cp.async.cg.shared.global", DecodeCopyAsync<true>);
    made.Decoded("cp.async.commit_group", DecodeNothing, CommitGroup);
    made.Add("cp.async.wait_group", "i", WaitGroup);
    made.Decoded("cp.async.wait_all", DecodeNothing, WaitAll);
    for (const char* policy : {"fractional", "range", "range.global", "cvt.L2"}) {
      made.Decoded(std::string("createpolicy.") + policy + ".b64", DecodeCreatePolicy,
                   CreatePolicy);
    }
    AddBulkCopyForms(made);
    AddMbarrierForms(made);
    AddTensorMapForms(made);
    AddWarpgroupForms(made);
    return made;
  }();
  return rows.rows();
}

}  // namespace coppice::ptx
