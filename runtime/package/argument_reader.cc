// Arguments of launches: what each is, and its bytes where it is known.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "base/json_fields.h"
#include "runtime/package/manifest_reader.h"

namespace coppice::package {
namespace {

constexpr const char* kAccesses[] = {"r", "w", "rw"};
constexpr int64_t kStructAlignMax = 128;
constexpr int64_t kMembersMax = 1024;
constexpr int64_t kTensorRankMax = 5;
constexpr int64_t kDivisorMax = 256;
constexpr const char* kInterleaves[] = {"none", "16B", "32B"};
constexpr const char* kSwizzles[] = {"none", "32B", "64B", "128B"};
constexpr const char* kPromotions[] = {"none", "64B", "128B", "256B"};
constexpr const char* kOutOfBounds[] = {"none", "nan_request_zero_fma"};

struct IntegerKind {
  std::string_view name;
  int32_t bytes;
  bool is_signed;
  int64_t min;
  int64_t max;
};
constexpr IntegerKind kIntegers[] = {
    {"i8", 1, true, INT8_MIN, INT8_MAX},
    {"i16", 2, true, INT16_MIN, INT16_MAX},
    {"i32", 4, true, INT32_MIN, INT32_MAX},
    {"i64", 8, true, INT64_MIN, INT64_MAX},
    {"u8", 1, false, 0, UINT8_MAX},
    {"u16", 2, false, 0, UINT16_MAX},
    {"u32", 4, false, 0, UINT32_MAX},
    {"u64", 8, false, 0, INT64_MAX},
    {"bool", 1, false, 0, 1},
};

struct FractionKind {
  std::string_view name;
  int32_t bytes;
  int exponent_bits;
  int mantissa_bits;
};
constexpr FractionKind kFractions[] = {
    {"f16", 2, 5, 10}, {"bf16", 2, 8, 7}, {"f32", 4, 8, 23}, {"f64", 8, 11, 52}};

// The bits of the nearest number of a kind, ties to even; none if it is finite and too great.
std::optional<uint64_t> BitsOf(double number, const FractionKind& kind) {
  const int bias = (1 << (kind.exponent_bits - 1)) - 1;
  const uint64_t infinity = ((uint64_t{1} << kind.exponent_bits) - 1) << kind.mantissa_bits;
  const uint64_t sign = std::signbit(number) ? uint64_t{1} << (8 * kind.bytes - 1) : 0;
  if (std::isnan(number)) return infinity | uint64_t{1} << (kind.mantissa_bits - 1);
  if (std::isinf(number)) return sign | infinity;
  if (number == 0) return sign;
  const int exponent = std::max(std::ilogb(number), 1 - bias);
  const double units = std::nearbyint(std::ldexp(std::fabs(number), kind.mantissa_bits - exponent));
  // A normal number's leading bit carries into the exponent.
  const uint64_t bits = (static_cast<uint64_t>(exponent + bias - 1) << kind.mantissa_bits) +
                        static_cast<uint64_t>(units);
  if (bits >= infinity) return std::nullopt;
  return sign | bits;
}

absl::StatusOr<Access> ReadAccess(Json value) {
  COPPICE_ASSIGN_OR_RETURN(const int access,
                           WordOr(value, static_cast<int>(Access::kReadWrite), kAccesses));
  return static_cast<Access>(access);
}

absl::StatusOr<Argument> ReadBufferArgument(Json object, const Scope& scope) {
  COPPICE_RETURN_IF_ERROR(CheckFields(object, {"access?", "buffer", "divisible_by?", "offset?"}));
  BufferArgument argument;
  COPPICE_ASSIGN_OR_RETURN(argument.operand, ReadOperand(object, scope));
  COPPICE_ASSIGN_OR_RETURN(argument.access, ReadAccess(object["access"]));
  COPPICE_RETURN_IF_ERROR(
      CheckAccess(object, scope.program(), argument.operand.buffer, argument.access));
  COPPICE_ASSIGN_OR_RETURN(argument.divisible_by,
                           PowerOfTwoOr(object["divisible_by"], 1, kDivisorMax));
  return argument;
}

absl::StatusOr<Argument> ReadInteger(Json object, const IntegerKind& kind, const Scope& scope) {
  COPPICE_RETURN_IF_ERROR(CheckFields(object, {kind.name, "divisible_by?"}));
  const Json value = object[kind.name];
  IntegerArgument argument{.bytes = kind.bytes, .is_signed = kind.is_signed};
  COPPICE_ASSIGN_OR_RETURN(argument.divisible_by,
                           IntegerOr(object["divisible_by"], 1, 1, kDivisorMax));
  COPPICE_ASSIGN_OR_RETURN(argument.value, scope.AmountOf(value, INT64_MIN));
  if (!argument.value.expression)
    COPPICE_RETURN_IF_ERROR(IntegerOf(value, kind.min, kind.max).status());
  return argument;
}

absl::StatusOr<Argument> ReadFraction(Json value, const FractionKind& kind) {
  COPPICE_ASSIGN_OR_RETURN(const double number, FractionOf(value));
  const std::optional<uint64_t> bits = BitsOf(number, kind);
  if (!bits)
    return value.Error("{} is too large for {}; write a smaller number, or \"inf\"", value.Show(),
                       kind.name);
  BytesArgument argument{.align = kind.bytes};
  for (int byte = 0; byte < kind.bytes; ++byte)
    argument.bytes.push_back(static_cast<std::byte>(*bits >> (8 * byte)));
  return argument;
}

absl::StatusOr<Argument> ReadNull(Json value) {
  COPPICE_ASSIGN_OR_RETURN(const bool null, BoolOr(value, true));
  if (!null) return value.Error("false; write true, or another kind of argument");
  return BytesArgument{.bytes = std::vector<std::byte>(8), .align = 8};
}

absl::StatusOr<Argument> ReadScratchArgument(Json value, const Kernel& kernel) {
  ScratchArgument argument;
  COPPICE_ASSIGN_OR_RETURN(const int64_t index, IntegerOf(value, 0, INT32_MAX));
  for (size_t target = 0; target < kernel.targets.size(); ++target) {
    if (index >= static_cast<int64_t>(kernel.targets[target].scratch.size()))
      return value.Error(
          "{}; in target {} of the kernel {} the length of \"scratch\" is {}; give a smaller index",
          index, target, QuoteText(kernel.name, kNameMax), kernel.targets[target].scratch.size());
  }
  argument.index = static_cast<int>(index);
  return argument;
}

absl::StatusOr<Argument> ReadReal(Json value, const Program& program) {
  COPPICE_RETURN_IF_ERROR(CheckKind(value, JsonKind::kText));
  RealArgument argument{.symbol = IndexOf(program.symbols, value.text()),
                        .scalar = IndexOf(program.scalars, value.text())};
  if (argument.symbol < 0 && argument.scalar < 0)
    return value.Error("{} is neither a symbol nor a scalar of the program; name one",
                       value.Show());
  if (argument.scalar >= 0 && !program.scalars[static_cast<size_t>(argument.scalar)].parameter)
    return value.Error(
        "{} is a scalar that is bound to \"key\"; pass it as an integer, or bind it to "
        "\"parameter\"",
        value.Show());
  return argument;
}

absl::StatusOr<Argument> ReadBytes(Json value) {
  COPPICE_RETURN_IF_ERROR(CheckKind(value, JsonKind::kText));
  const std::string_view text = value.text();
  constexpr std::string_view kDigits = "0123456789abcdef";
  if (text.empty() || text.size() % 2 != 0 ||
      text.find_first_not_of(kDigits) != std::string_view::npos)
    return value.Error("{}; write two hexadecimal digits for each byte, in lower case",
                       value.Show());
  BytesArgument argument;
  argument.bytes.reserve(text.size() / 2);
  for (size_t at = 0; at < text.size(); at += 2)
    argument.bytes.push_back(
        static_cast<std::byte>(kDigits.find(text[at]) * 16 + kDigits.find(text[at + 1])));
  return argument;
}

absl::StatusOr<Argument> ReadStruct(Json object, const Scope& scope, const Kernel& kernel) {
  COPPICE_RETURN_IF_ERROR(CheckFields(object, {"align?", "struct"}));
  StructArgument argument;
  COPPICE_ASSIGN_OR_RETURN(const int64_t align, PowerOfTwoOr(object["align"], 8, kStructAlignMax));
  argument.align = static_cast<int32_t>(align);
  const Json members = object["struct"];
  COPPICE_RETURN_IF_ERROR(CheckList(members, 1, kMembersMax));
  argument.members.reserve(members.size());
  for (const Json value : members) {
    COPPICE_ASSIGN_OR_RETURN(Argument member, ReadArgument(value, scope, kernel));
    if (LayoutOf(member).align > align)
      return value.Error(
          "has alignment {}, but its struct has alignment {}; raise \"align\" of the struct",
          LayoutOf(member).align, align);
    argument.members.push_back(std::move(member));
  }
  return argument;
}

// `rank` small counts; absent: ones.
absl::StatusOr<std::vector<uint32_t>> ReadCounts(Json list, size_t rank, int64_t max) {
  std::vector<uint32_t> counts;
  if (!list.present()) return std::vector<uint32_t>(rank, 1);
  COPPICE_RETURN_IF_ERROR(CheckList(list, static_cast<int64_t>(rank), static_cast<int64_t>(rank)));
  for (const Json value : list) {
    COPPICE_ASSIGN_OR_RETURN(const int64_t count, IntegerOf(value, 1, max));
    counts.push_back(static_cast<uint32_t>(count));
  }
  return counts;
}

absl::StatusOr<uint8_t> ReadMode(Json value, std::span<const char* const> words) {
  COPPICE_ASSIGN_OR_RETURN(const int word, WordOr(value, 0, words));
  return static_cast<uint8_t>(word);
}

absl::Status ReadTensorMapModes(Json object, TensorMapArgument& map) {
  COPPICE_ASSIGN_OR_RETURN(map.interleave, ReadMode(object["interleave"], kInterleaves));
  COPPICE_ASSIGN_OR_RETURN(map.swizzle, ReadMode(object["swizzle"], kSwizzles));
  COPPICE_ASSIGN_OR_RETURN(map.l2_promotion, ReadMode(object["l2_promotion"], kPromotions));
  COPPICE_ASSIGN_OR_RETURN(map.oob_fill, ReadMode(object["oob_fill"], kOutOfBounds));
  return absl::OkStatus();
}

absl::StatusOr<Argument> ReadTensorMap(Json object, const Scope& scope) {
  COPPICE_RETURN_IF_ERROR(CheckFields(
      object, {"access?", "box", "buffer", "dims", "dtype", "element_strides?", "interleave?",
               "l2_promotion?", "offset?", "oob_fill?", "strides", "swizzle?"}));
  TensorMapArgument map;
  COPPICE_ASSIGN_OR_RETURN(map.operand, ReadOperand(object, scope));
  COPPICE_ASSIGN_OR_RETURN(map.access, ReadAccess(object["access"]));
  COPPICE_RETURN_IF_ERROR(CheckAccess(object, scope.program(), map.operand.buffer, map.access));
  COPPICE_ASSIGN_OR_RETURN(map.dtype, DTypeOf(object["dtype"]));
  if (map.dtype == DType::kComplex64)
    return object["dtype"].Error(
        "\"c64\", which no tensor map supports; write \"f32\" and double the innermost size");
  COPPICE_RETURN_IF_ERROR(CheckList(object["dims"], 1, kTensorRankMax));
  COPPICE_ASSIGN_OR_RETURN(map.dims, scope.AmountsOf(object["dims"], kTensorRankMax));
  const size_t rank = map.dims.size();
  COPPICE_RETURN_IF_ERROR(
      CheckList(object["strides"], static_cast<int64_t>(rank) - 1, static_cast<int64_t>(rank) - 1));
  COPPICE_ASSIGN_OR_RETURN(map.strides, scope.AmountsOf(object["strides"], kTensorRankMax));
  COPPICE_ASSIGN_OR_RETURN(map.box, ReadCounts(object["box"], rank, 256));
  COPPICE_ASSIGN_OR_RETURN(map.element_strides, ReadCounts(object["element_strides"], rank, 8));
  COPPICE_RETURN_IF_ERROR(ReadTensorMapModes(object, map));
  return map;
}

// An argument that is one field, of the name `kind`.
absl::StatusOr<Argument> ReadLoneField(Json object,
                                       std::string_view kind,
                                       const Scope& scope,
                                       const Kernel& kernel) {
  for (const IntegerKind& integer : kIntegers) {
    if (integer.name == kind) return ReadInteger(object, integer, scope);
  }
  COPPICE_RETURN_IF_ERROR(CheckFields(object, {kind}));
  const Json value = object[kind];
  for (const FractionKind& fraction : kFractions) {
    if (fraction.name == kind) return ReadFraction(value, fraction);
  }
  if (kind == "null") return ReadNull(value);
  if (kind == "scratch") return ReadScratchArgument(value, kernel);
  if (kind == "real") return ReadReal(value, scope.program());
  if (kind == "bytes") return ReadBytes(value);
  return ReadTensorMap(value, scope);
}

}  // namespace

absl::StatusOr<Argument> ReadArgument(Json object, const Scope& scope, const Kernel& kernel) {
  static constexpr std::string_view kKinds[] = {
      "buffer", "struct", "i8",  "i16",  "i32", "i64",  "u8",      "u16",  "u32",   "u64",
      "bool",   "f16",    "f32", "bf16", "f64", "null", "scratch", "real", "bytes", "tensormap"};
  COPPICE_RETURN_IF_ERROR(CheckKind(object, JsonKind::kObject));
  for (const Json value : object) {
    const auto* const kind = std::find(std::begin(kKinds), std::end(kKinds), value.key());
    if (kind == std::end(kKinds)) continue;
    if (*kind == "buffer") return ReadBufferArgument(object, scope);
    if (*kind == "struct") return ReadStruct(object, scope, kernel);
    return ReadLoneField(object, *kind, scope, kernel);
  }
  return object.Error("this is not an argument; write an object with one of {}",
                      fmt::join(kKinds, ", "));
}

}  // namespace coppice::package
