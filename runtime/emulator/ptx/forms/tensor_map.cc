// tensormap: maps that kernels make and change, a field at a time.

#include "runtime/emulator/ptx/tensor_map.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"

#include "runtime/emulator/ptx/form.h"
#include "runtime/emulator/ptx/forms/async_tables.h"
#include "runtime/emulator/ptx/forms/map_memory.h"
#include "runtime/emulator/ptx/forms/operands.h"
#include "runtime/emulator/ptx/resident_warp.h"

namespace coppice::ptx {
namespace {

// Sets a field of a map, of a dimension where it has one per dimension. False: no map has that.
using SetField = bool (*)(TensorMap& map, uint64_t dimension, uint64_t value);

bool SetAddress(TensorMap& map, uint64_t, uint64_t value) {
  map.address = value;
  return true;
}
bool SetRank(TensorMap& map, uint64_t, uint64_t value) {
  map.last_dimension = static_cast<uint8_t>(value);
  return value < TensorMap::kRankMax;
}
bool SetBoxSize(TensorMap& map, uint64_t dimension, uint64_t value) {
  if (dimension >= TensorMap::kRankMax || value == 0 || value > TensorMap::kBoxMax) return false;
  map.last_in_box[dimension] = static_cast<uint8_t>(value - 1);
  return true;
}
bool SetSize(TensorMap& map, uint64_t dimension, uint64_t value) {
  if (dimension >= TensorMap::kRankMax) return false;
  map.last[dimension] = static_cast<uint32_t>(value - 1);  // 0 stands for 2^32.
  return true;
}
bool SetStride(TensorMap& map, uint64_t dimension, uint64_t value) {
  if (dimension >= TensorMap::kRankMax - 1) return false;
  map.strides[dimension] = value;
  return true;
}
bool SetElementStride(TensorMap& map, uint64_t dimension, uint64_t value) {
  if (dimension >= TensorMap::kRankMax || value == 0 || value > TensorMap::kElementStrideMax)
    return false;
  map.element_strides[dimension] = static_cast<uint8_t>(value);
  return true;
}
bool SetType(TensorMap& map, uint64_t, uint64_t value) {
  using Type = TensorMap::Type;
  constexpr Type kOfNumbers[] = {Type::kUint8,          Type::kUint16,   Type::kUint32,
                                 Type::kInt32,          Type::kUint64,   Type::kInt64,
                                 Type::kFloat16,        Type::kFloat32,  Type::kFloat32Flushed,
                                 Type::kFloat64,        Type::kBFloat16, Type::kTFloat32,
                                 Type::kTFloat32Flushed};
  if (value >= std::size(kOfNumbers)) return false;
  map.type = kOfNumbers[value];
  return true;
}
bool SetInterleave(TensorMap& map, uint64_t, uint64_t value) {
  map.interleave = static_cast<uint8_t>(value);
  return value <= 2;
}
bool SetSwizzle(TensorMap& map, uint64_t, uint64_t value) {
  map.swizzle = static_cast<uint8_t>(value);
  return value <= 3;
}
bool SetFill(TensorMap& map, uint64_t, uint64_t value) {
  map.fill = static_cast<uint8_t>(value);
  return value <= 1;
}

// b: the value; its dimension is in the upper half of the immediate, whose lower is the offset of
// the address.
template <typename T, SetField set>
Step Replace(Warp& warp, const Instr& instr) {
  const LaneAddresses addresses(warp, instr.a, (instr.flags & kNarrowAddress) != 0,
                                static_cast<uint64_t>(static_cast<int32_t>(instr.immediate)));
  const T* const values = warp.From<T>(instr.b);
  for (uint32_t lanes = warp.mask(); lanes != 0; lanes &= lanes - 1) {
    const int lane = std::countr_zero(lanes);
    MapMemory memory;
    if (!memory.Find(warp, SpaceOf(instr), addresses[lane], AccessKind::kWrite, lane))
      return Step::kStop;
    TensorMap map = memory.Load();
    if (!set(map, instr.immediate >> 32, values[lane])) {
      static_cast<ResidentWarp&>(warp).Fault(
          Finding::Kind::kIllegalInstruction, lane,
          fmt::format(
              "sets a field of a tensor map to {}, which is not a valid value for this field",
              values[lane]));
      return Step::kStop;
    }
    memory.Store(map);
  }
  return Step::kNext;
}

// [address], {dimension,} value
template <int bytes, bool of_dimension>
bool DecodeReplace(FunctionDecoder& decoder, const Instruction& from, Instr& to) {
  constexpr size_t kCount = of_dimension ? 3 : 2;
  OperandReader operands(decoder, from, kCount, kCount);
  operands.Address(to);
  if (static_cast<int64_t>(to.immediate) != static_cast<int32_t>(to.immediate))
    operands.Fail("an offset does not fit in a signed 32-bit integer");
  to.immediate &= 0xffffffff;
  if (of_dimension) to.immediate |= operands.Integer() << 32;
  to.b = operands.Read(bytes);
  return operands.ok();
}

template <typename T, SetField set, bool of_dimension>
void AddField(FormTable& rows, std::string_view field) {
  struct {
    const char* name;
    Space space;
  } constexpr kSpaces[] = {
      {"shared", Space::kShared}, {"global", Space::kGlobal}, {"", Space::kGeneric}};
  for (const auto& in : kSpaces)
    rows.Decoded(fmt::format("tensormap.replace.tile.{}{}{}.b1024.b{}", field,
                             in.name[0] == '\0' ? "" : ".", in.name, 8 * sizeof(T)),
                 DecodeReplace<sizeof(T), of_dimension>, Replace<T, set>, SpaceFlags(in.space));
}

// [to], [from], 128: the first lane copies a map from shared to global memory.
Step CopyMap(Warp& warp, const Instr& instr) {
  Step step = Step::kNext;
  if (!warp.Gather(kAllLanes, step)) return step;
  const int lane = std::countr_zero(warp.mask());
  const LaneAddresses to(warp, instr.d, false, instr.immediate >> 32);
  const LaneAddresses from(warp, instr.a, (instr.flags & kNarrowAddress) != 0,
                           instr.immediate & 0xffffffff);
  MapMemory source;
  MapMemory target;
  if (!source.Find(warp, Space::kShared, from[lane], AccessKind::kRead, lane) ||
      !target.Find(warp, Space::kGlobal, to[lane], AccessKind::kWrite, lane))
    return Step::kStop;
  target.Store(source.Load());
  return Step::kNext;
}

bool DecodeCopyMap(FunctionDecoder& decoder, const Instruction& from, Instr& to) {
  OperandReader operands(decoder, from, 3, 3);
  const FunctionDecoder::Address target = operands.Address();
  const FunctionDecoder::Address source = operands.Address();
  if (operands.Integer() != TensorMap::kBytes)
    operands.Fail("the size of a tensor map must be 128");
  if (target.narrow || target.offset >> 32 != 0 || source.offset >> 32 != 0)
    operands.Fail("the emulator does not support this form of address");
  to.d = target.base;
  to.a = source.base;
  to.immediate = target.offset << 32 | source.offset;
  to.flags = source.narrow ? kNarrowAddress : 0;
  return operands.ok();
}

}  // namespace

void AddTensorMapForms(FormTable& rows) {
  AddField<uint64_t, SetAddress, false>(rows, "global_address");
  AddField<uint32_t, SetRank, false>(rows, "rank");
  AddField<uint32_t, SetBoxSize, true>(rows, "box_dim");
  AddField<uint32_t, SetSize, true>(rows, "global_dim");
  AddField<uint64_t, SetStride, true>(rows, "global_stride");
  AddField<uint32_t, SetElementStride, true>(rows, "element_stride");
  AddField<uint32_t, SetType, false>(rows, "elemtype");
  AddField<uint32_t, SetInterleave, false>(rows, "interleave_layout");
  AddField<uint32_t, SetSwizzle, false>(rows, "swizzle_mode");
  AddField<uint32_t, SetFill, false>(rows, "fill_mode");
  rows.Decoded("tensormap.cp_fenceproxy.global.shared.tensormap::generic.sync.aligned",
               DecodeCopyMap, CopyMap);
  for (const char* const name :
       {"prefetch.tensormap", "prefetch.param.tensormap", "prefetch.const.tensormap"})
    rows.Decoded(name, DecodeAnything, RunNothing);
}

}  // namespace coppice::ptx
