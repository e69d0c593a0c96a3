// Buffers of a program: their roles, layouts and aliases.

#include <algorithm>
#include <array>
#include <utility>

#include "coppice/base/units.h"

#include "base/json_fields.h"
#include "runtime/package/manifest_reader.h"

namespace coppice::package {
namespace {

constexpr int64_t kSeedWordsMax = int64_t{1} << 32;
constexpr const char* kRoles[] = {"input", "output", "temporary", "constant", "seed"};

// Fills that a word says; a value is an object.
constexpr auto kFills = [] {
  std::array<FillKind, kFillKindCount - 1> fills{};
  size_t count = 0;
  for (int kind = 0; kind < kFillKindCount; ++kind)
    if (const auto fill = static_cast<FillKind>(kind); fill != FillKind::kValue)
      fills[count++] = fill;
  return fills;
}();
constexpr auto kFillWords = [] {
  std::array<const char*, kFills.size()> words{};
  for (size_t i = 0; i < words.size(); ++i)
    words[i] = NameOf(kFills[i]);
  return words;
}();

absl::Status ReadFill(Json value, Buffer& buffer) {
  if (!value.present()) return absl::OkStatus();
  if (value.is(JsonKind::kObject)) {
    COPPICE_RETURN_IF_ERROR(CheckFields(value, {"value"}));
    COPPICE_ASSIGN_OR_RETURN(const double of, FractionOf(value["value"]));
    buffer.fill = Fill::Value(of);
    return absl::OkStatus();
  }
  COPPICE_ASSIGN_OR_RETURN(const int fill, WordOf(value, kFillWords));
  buffer.fill.kind = kFills[static_cast<size_t>(fill)];
  return absl::OkStatus();
}

absl::Status TakeLayout(Json value, const Scope& scope, Buffer& buffer) {
  COPPICE_ASSIGN_OR_RETURN(Layout layout, LayoutOf(value, scope));
  buffer.dtype = layout.dtype;
  buffer.shape = std::move(layout.shape);
  buffer.strides = std::move(layout.strides);
  return absl::OkStatus();
}

// That nothing in `amounts` depends on a call.
absl::Status CheckFixed(Json list, const std::vector<Amount>& amounts) {
  if (!list.present()) return absl::OkStatus();
  size_t index = 0;
  for (const Json value : list) {
    const Amount& amount = amounts[index++];
    if (amount.expression && !amount.expression->Reads().empty())
      return value.Error("{} varies between calls, but the input is static; write an integer",
                         value.Show());
  }
  return absl::OkStatus();
}

absl::Status ReadInput(Json value, const Scope& scope, Buffer& buffer) {
  COPPICE_RETURN_IF_ERROR(CheckFields(
      value, {"align?", "dtype", "fill?", "mutated?", "role", "shape", "static?", "strides?"}));
  COPPICE_RETURN_IF_ERROR(TakeLayout(value, scope, buffer));
  COPPICE_ASSIGN_OR_RETURN(buffer.align, PowerOfTwoOr(value["align"], 16, kBufferAlignment));
  COPPICE_ASSIGN_OR_RETURN(buffer.mutated, BoolOr(value["mutated"], false));
  COPPICE_ASSIGN_OR_RETURN(buffer.is_static, BoolOr(value["static"], false));
  COPPICE_RETURN_IF_ERROR(ReadFill(value["fill"], buffer));
  if (!buffer.is_static) return absl::OkStatus();
  COPPICE_RETURN_IF_ERROR(CheckFixed(value["shape"], buffer.shape));
  return CheckFixed(value["strides"], buffer.strides);
}

// Its alias waits for the other buffers.
absl::Status ReadOutput(Json value, const Scope& scope, Buffer& buffer) {
  COPPICE_RETURN_IF_ERROR(CheckFields(value, {"alias?", "dtype", "role", "shape", "strides?"}));
  return TakeLayout(value, scope, buffer);
}

absl::Status ReadTemporary(Json value, const Scope& scope, Buffer& buffer) {
  if (!value["bytes"].present()) {
    COPPICE_RETURN_IF_ERROR(CheckFields(value, {"dtype", "role", "shape"}));
    return TakeLayout(value, scope, buffer);
  }
  COPPICE_RETURN_IF_ERROR(CheckFields(value, {"bytes", "role"}));
  COPPICE_ASSIGN_OR_RETURN(Amount bytes, scope.AmountOf(value["bytes"], 0));
  buffer.shape.push_back(std::move(bytes));
  return absl::OkStatus();
}

absl::Status ReadConstant(Json value, const Manifest& manifest, Buffer& buffer) {
  COPPICE_RETURN_IF_ERROR(CheckFields(value, {"constant", "role"}));
  COPPICE_ASSIGN_OR_RETURN(buffer.constant,
                           ReferenceOf(value["constant"], manifest.constants, "constants"));
  const Constant& constant = manifest.constants[static_cast<size_t>(buffer.constant)];
  buffer.dtype = constant.dtype;
  for (const int64_t size : constant.shape)
    buffer.shape.push_back({.value = size});
  for (const int64_t stride : constant.strides)
    buffer.strides.push_back({.value = stride});
  return absl::OkStatus();
}

absl::Status ReadSeed(Json value, Buffer& buffer) {
  COPPICE_RETURN_IF_ERROR(CheckFields(value, {"role", "words"}));
  buffer.dtype = DType::kUInt64;
  COPPICE_ASSIGN_OR_RETURN(const int64_t words, IntegerOf(value["words"], 1, kSeedWordsMax));
  buffer.shape.push_back({.value = words});
  return absl::OkStatus();
}

absl::StatusOr<Buffer> ReadBuffer(Json value, const Manifest& manifest, const Scope& scope) {
  COPPICE_RETURN_IF_ERROR(CheckName(value));
  COPPICE_RETURN_IF_ERROR(CheckKind(value, JsonKind::kObject));
  if (!value["role"].present()) return value.Error("has no field \"role\"; add it");
  COPPICE_ASSIGN_OR_RETURN(const int role, WordOf(value["role"], kRoles));
  Buffer buffer{.name = std::string(value.key()), .role = static_cast<Role>(role)};
  switch (buffer.role) {
    case Role::kInput:
      COPPICE_RETURN_IF_ERROR(ReadInput(value, scope, buffer));
      break;
    case Role::kOutput:
      COPPICE_RETURN_IF_ERROR(ReadOutput(value, scope, buffer));
      break;
    case Role::kTemporary:
      COPPICE_RETURN_IF_ERROR(ReadTemporary(value, scope, buffer));
      break;
    case Role::kConstant:
      COPPICE_RETURN_IF_ERROR(ReadConstant(value, manifest, buffer));
      break;
    case Role::kSeed:
      COPPICE_RETURN_IF_ERROR(ReadSeed(value, buffer));
      break;
  }
  return buffer;
}

// What an output has its bytes of, whose own alias is perhaps not read yet.
absl::Status ReadAlias(Json value, Json buffers, const Scope& scope, Program& program, int output) {
  if (!value.present()) return absl::OkStatus();
  COPPICE_RETURN_IF_ERROR(CheckFields(value, {"buffer", "offset?"}));
  COPPICE_ASSIGN_OR_RETURN(Operand operand, ReadOperand(value, scope));
  const Buffer& base = program.buffers[static_cast<size_t>(operand.buffer)];
  const bool memory_of_its_own = base.role == Role::kOutput && operand.buffer != output &&
                                 !buffers[base.name]["alias"].present();
  if (base.role != Role::kInput && base.role != Role::kConstant && !memory_of_its_own)
    return value["buffer"].Error(
        "an output cannot be an alias of {}; name an input, a constant, or another output that is "
        "not an alias",
        value["buffer"].Show());
  program.buffers[static_cast<size_t>(output)].alias = {.buffer = operand.buffer,
                                                        .offset = std::move(operand.offset)};
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadBuffers(Json object,
                         const Manifest& manifest,
                         ExpressionBudget& budget,
                         Program& program) {
  const Scope scope(program, budget, {});
  program.buffers.reserve(object.size());
  for (const Json value : object) {
    COPPICE_ASSIGN_OR_RETURN(Buffer buffer, ReadBuffer(value, manifest, scope));
    program.buffers.push_back(std::move(buffer));
  }
  int index = 0;
  for (const Json value : object) {
    if (program.buffers[static_cast<size_t>(index)].role == Role::kOutput)
      COPPICE_RETURN_IF_ERROR(ReadAlias(value["alias"], object, scope, program, index));
    ++index;
  }
  return absl::OkStatus();
}

absl::StatusOr<Operand> ReadOperand(Json object, const Scope& scope) {
  Operand operand;
  COPPICE_ASSIGN_OR_RETURN(operand.buffer,
                           ReferenceOf(object["buffer"], scope.program().buffers, "buffers"));
  COPPICE_ASSIGN_OR_RETURN(operand.offset, scope.AmountOr(object["offset"], 0, 0));
  return operand;
}

absl::Status CheckAccess(Json operand, const Program& program, int buffer, Access access) {
  if (access == Access::kRead) return absl::OkStatus();
  const Buffer& named = program.buffers[static_cast<size_t>(buffer)];
  const Buffer& written =
      named.alias ? program.buffers[static_cast<size_t>(named.alias->buffer)] : named;
  const char* what = nullptr;
  if (written.role == Role::kConstant) what = "a constant (read-only)";
  if (written.role == Role::kSeed) what = "a seed (read-only)";
  if (written.role == Role::kInput && !written.mutated)
    what = "an input (read-only, as it is not \"mutated\")";
  if (what == nullptr) return absl::OkStatus();
  return operand.Error(
      "writes {}, which is {}{}; read it with \"access\": \"r\", or write another "
      "buffer",
      QuoteText(named.name, kNameMax), named.alias ? "an alias of " : "", what);
}

}  // namespace coppice::package
