// Declarations to variables: types, dimensions, initial values.

#include "runtime/emulator/ptx/declarations.h"

#include <bit>
#include <string>
#include <utility>

#include "fmt/format.h"

namespace coppice::ptx {
namespace {

constexpr std::pair<std::string_view, Space> kDeclaredSpaces[] = {
    {".reg", Space::kReg},     {".const", Space::kConst}, {".global", Space::kGlobal},
    {".local", Space::kLocal}, {".param", Space::kParam}, {".shared", Space::kShared},
};

// Opaque types are handles of 64 bits.
constexpr std::pair<std::string_view, Type> kTypes[] = {
    {".pred", Type::kPred},   {".b8", Type::kB8},          {".b16", Type::kB16},
    {".b32", Type::kB32},     {".b64", Type::kB64},        {".b128", Type::kB128},
    {".u8", Type::kU8},       {".u16", Type::kU16},        {".u32", Type::kU32},
    {".u64", Type::kU64},     {".s8", Type::kS8},          {".s16", Type::kS16},
    {".s32", Type::kS32},     {".s64", Type::kS64},        {".f16", Type::kF16},
    {".f16x2", Type::kF16x2}, {".bf16", Type::kBF16},      {".bf16x2", Type::kBF16x2},
    {".tf32", Type::kTF32},   {".f32", Type::kF32},        {".f64", Type::kF64},
    {".texref", Type::kB64},  {".samplerref", Type::kB64}, {".surfref", Type::kB64},
};

constexpr int64_t kAlignmentMax = 1 << 16;
constexpr int64_t kRegistersMax = 1 << 24;
constexpr int64_t kArrayElementsMax = int64_t{1} << 32;
constexpr size_t kDimensionsMax = 16;

template <typename Value, size_t kRows>
std::optional<Value> Find(const std::pair<std::string_view, Value> (&table)[kRows],
                          const Cursor& cursor) {
  if (!cursor.At(Token::Kind::kDirective)) return std::nullopt;
  for (const auto& [name, value] : table)
    if (name == cursor.token().text) return value;
  return std::nullopt;
}

bool IsFloat(Type type) {
  return type == Type::kF32 || type == Type::kF64;
}

// Whether a number is an initial value of a type. Types of bits take each.
bool Holds(Type type, Number::Kind kind) {
  switch (type) {
    case Type::kB8:
    case Type::kB16:
    case Type::kB32:
    case Type::kB64:
    case Type::kB128:
      return true;
    case Type::kF32:
    case Type::kF64:
      return kind != Number::Kind::kInteger;
    case Type::kU8:
    case Type::kU16:
    case Type::kU32:
    case Type::kU64:
    case Type::kS8:
    case Type::kS16:
    case Type::kS32:
    case Type::kS64:
      return kind == Number::Kind::kInteger;
    default:
      return false;
  }
}

// The bits of a number as an element of `type` has them.
uint64_t BitsAs(Type type, const Number& number) {
  const int64_t bytes = SizeOf(type);
  uint64_t bits = number.bits;
  if (IsFloat(type) && number.kind != Number::Kind::kInteger) {
    const double value = number.kind == Number::Kind::kFloat64
                             ? std::bit_cast<double>(bits)
                             : std::bit_cast<float>(static_cast<uint32_t>(bits));
    bits = type == Type::kF64 ? std::bit_cast<uint64_t>(value)
                              : std::bit_cast<uint32_t>(static_cast<float>(value));
  }
  return bytes >= 8 ? bits : bits & ((uint64_t{1} << (bytes * 8)) - 1);
}

bool ParseAlignment(Cursor& cursor, int64_t* alignment) {
  if (!cursor.ExpectInteger(1, kAlignmentMax, alignment)) return false;
  if (std::has_single_bit(static_cast<uint64_t>(*alignment))) return true;
  return cursor.Refuse(fmt::format("alignment {} is not a power of two", *alignment));
}

// ".ptr .global .align 16": what a parameter points at.
bool SkipPointee(Cursor& cursor) {
  if (SpaceHere(cursor).has_value()) cursor.Take();
  int64_t alignment = 0;
  return !cursor.Accept(".align") || ParseAlignment(cursor, &alignment);
}

// What a declaration says ahead of its names.
bool ParseSpecifiers(Cursor& cursor, Variable* variable) {
  const auto space = SpaceHere(cursor);
  if (!space.has_value()) return cursor.Fail("a state space");
  variable->space = *space;
  cursor.Take();
  bool typed = false;
  while (cursor.At(Token::Kind::kDirective)) {
    if (const auto type = Find(kTypes, cursor); type.has_value()) {
      if (typed) return cursor.Fail("a name");
      variable->type = *type;
      typed = true;
      cursor.Take();
    } else if (cursor.Accept(".align")) {
      if (!ParseAlignment(cursor, &variable->alignment)) return false;
    } else if (cursor.At(".v2") || cursor.At(".v4") || cursor.At(".v8")) {
      variable->vector = cursor.Take().back() - '0';
    } else if (cursor.Accept(".ptr")) {
      if (!SkipPointee(cursor)) return false;
    } else if (cursor.Accept(".attribute")) {
      if (!cursor.SkipEnclosed('(', ')')) return false;
    } else {
      return cursor.Fail("a type");
    }
  }
  return typed || cursor.Fail("a type");
}

// The initial value of one element.
bool ParseInitializer(Cursor& cursor, const Variable& variable, Initializer* value) {
  if (!cursor.At(Token::Kind::kWord)) {
    Number number;
    if (!cursor.ExpectNumber(&number)) return false;
    if (!Holds(variable.type, number.kind))
      return cursor.Refuse(fmt::format("'{}' cannot hold this number", variable.name));
    value->bits = BitsAs(variable.type, number);
    return !cursor.At('(') || cursor.Refuse("a masked address is not supported");
  }
  const int line = cursor.line();
  std::string_view name = cursor.Take();
  value->generic = name == "generic" && cursor.Accept('(');
  if (value->generic && (!cursor.ExpectName(&name) || !cursor.Expect(')'))) return false;
  value->symbol = name;
  if (cursor.At('+') || cursor.At('-')) {
    Number offset;
    if (!cursor.ExpectNumber(&offset)) return false;
    value->bits = offset.bits;
  }
  return variable.type == Type::kU64 ||
         cursor.Refuse(
             line,
             fmt::format("the address of '{}' can only initialize a variable of type .u64", name));
}

// "{{1, 2}, {3, 4}}": a brace for each dimension, and for a vector. Rows may be short.
class InitializerParser {
 public:
  InitializerParser(Cursor& cursor, Variable* variable)
      : cursor_(cursor), variable_(*variable), rows_(variable->dims) {
    if (variable_.vector > 1) rows_.push_back(variable_.vector);
    if (!rows_.empty() && rows_.front() == 0) rows_.front() = kArrayElementsMax;
  }

  bool Parse() { return rows_.empty() ? ParseElement(0) : ParseRow(0, 0); }

 private:
  bool ParseElement(int64_t element) {
    Initializer value{.element = element};
    if (!ParseInitializer(cursor_, variable_, &value)) return false;
    variable_.values.push_back(value);
    return true;
  }

  // Of elements from `first` on.
  bool ParseRow(size_t depth, int64_t first) {
    if (!cursor_.Expect('{')) return false;
    if (cursor_.Accept('}')) return true;
    int64_t stride = 1;
    for (size_t i = depth + 1; i < rows_.size(); ++i)
      stride *= rows_[i];
    int64_t count = 0;
    do {
      if (count == rows_[depth])
        return cursor_.Refuse(
            fmt::format("too many initial values: the limit is {} in this dimension of '{}'",
                        rows_[depth], variable_.name));
      const int64_t element = first + stride * count++;
      if (element >= kArrayElementsMax)
        return cursor_.Refuse(fmt::format("'{}' has more than 2^32 elements", variable_.name));
      if (!(depth + 1 == rows_.size() ? ParseElement(element) : ParseRow(depth + 1, element)))
        return false;
    } while (cursor_.Accept(','));
    return cursor_.Expect('}');
  }

  Cursor& cursor_;
  Variable& variable_;
  std::vector<int64_t> rows_;  // Elements of each depth, outermost first.
};

// The first dimension of an array without one is as its initial values need it.
void CloseArray(Variable* variable) {
  if (variable->dims.empty() || variable->dims.front() != 0 || variable->values.empty()) return;
  variable->dims.front() = 1;
  variable->dims.front() = variable->values.back().element / variable->elements() + 1;
}

bool ParseDimensions(Cursor& cursor, Variable* variable) {
  int64_t elements = variable->vector;
  while (cursor.Accept('[')) {
    int64_t dim = 0;
    const bool open = variable->dims.empty() && cursor.At(']');
    const int64_t least = variable->dims.empty() ? 0 : 1;
    if (!open && !cursor.ExpectInteger(least, kArrayElementsMax, &dim)) return false;
    // Sizes are computed without overflow everywhere behind this.
    if (dim > 0 && elements > kArrayElementsMax / dim)
      return cursor.Refuse(fmt::format("'{}' has more than 2^32 elements", variable->name));
    elements *= std::max<int64_t>(dim, 1);
    if (variable->dims.size() == kDimensionsMax) return cursor.Fail("no more dimensions");
    variable->dims.push_back(dim);
    if (!cursor.Expect(']')) return false;
  }
  return true;
}

// A name with its dimensions or its number of registers.
bool ParseDeclarator(Cursor& cursor, Variable* variable) {
  variable->line = cursor.line();
  if (!cursor.ExpectName(&variable->name)) return false;
  if (variable->space == Space::kReg && cursor.Accept('<')) {
    int64_t count = 0;
    if (!cursor.ExpectInteger(1, kRegistersMax, &count) || !cursor.Expect('>')) return false;
    variable->registers = static_cast<int>(count);
    return true;
  }
  return ParseDimensions(cursor, variable);
}

}  // namespace

std::optional<Space> SpaceHere(const Cursor& cursor) {
  return Find(kDeclaredSpaces, cursor);
}

bool ParseVariables(Cursor& cursor, Linkage linkage, std::vector<Variable>* variables) {
  Variable common;
  common.linkage = linkage;
  if (!ParseSpecifiers(cursor, &common)) return false;
  do {
    Variable variable = common;
    if (!ParseDeclarator(cursor, &variable)) return false;
    if (cursor.Accept('=')) {
      if (variable.space != Space::kGlobal && variable.space != Space::kConst)
        return cursor.Refuse(
            fmt::format("'{}' cannot have an initial value; only .global and .const variables can",
                        variable.name));
      if (!InitializerParser(cursor, &variable).Parse()) return false;
      CloseArray(&variable);
    }
    variables->push_back(std::move(variable));
  } while (cursor.Accept(','));
  return cursor.Expect(';');
}

bool ParseParameters(Cursor& cursor, std::vector<Variable>* parameters) {
  if (!cursor.Expect('(')) return false;
  if (cursor.Accept(')')) return true;
  do {
    Variable parameter;
    if (!ParseSpecifiers(cursor, &parameter) || !ParseDeclarator(cursor, &parameter)) return false;
    parameters->push_back(std::move(parameter));
  } while (cursor.Accept(','));
  return cursor.Expect(')');
}

bool ParsePrototype(Cursor& cursor, Prototype* prototype, std::string_view* name) {
  if (cursor.At('(') && !ParseParameters(cursor, &prototype->returns)) return false;
  if (!cursor.ExpectName(name)) return false;
  return !cursor.At('(') || ParseParameters(cursor, &prototype->parameters);
}

bool SkipAttribute(Cursor& cursor) {
  cursor.Take();
  if (cursor.At('(') && !cursor.SkipEnclosed('(', ')')) return false;
  while (cursor.At(Token::Kind::kNumber) || cursor.At(Token::Kind::kString) || cursor.At(','))
    cursor.Take();
  return true;
}

bool SkipAttributes(Cursor& cursor) {
  while (cursor.At(Token::Kind::kDirective))
    if (!SkipAttribute(cursor)) return false;
  return true;
}

}  // namespace coppice::ptx
