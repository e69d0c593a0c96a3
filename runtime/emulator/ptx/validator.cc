// What ptxas refuses, declaration by declaration and operand by operand.

#include "runtime/emulator/ptx/validator.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fmt/format.h"

#include "coppice/base/status.h"

#include "runtime/emulator/ptx/declared_names.h"
#include "runtime/emulator/ptx/validator_async.h"

namespace coppice::ptx {
namespace {

constexpr int64_t kVectorBytesMax = 16;
constexpr int64_t kPassedBytesMin = 4;  // Of an integer.

enum class TypeClass : uint8_t { kPredicate, kBits, kInteger, kFloat, kHalf };

TypeClass ClassOf(Type type) {
  switch (type) {
    case Type::kPred:
      return TypeClass::kPredicate;
    case Type::kU8:
    case Type::kU16:
    case Type::kU32:
    case Type::kU64:
    case Type::kS8:
    case Type::kS16:
    case Type::kS32:
    case Type::kS64:
      return TypeClass::kInteger;
    case Type::kF32:
    case Type::kF64:
      return TypeClass::kFloat;
    case Type::kF16:
    case Type::kF16x2:
      return TypeClass::kHalf;
    default:
      return TypeClass::kBits;
  }
}

// Types without a class of their own hold any but predicates.
bool Agree(Type a, Type b) {
  const TypeClass one = ClassOf(a);
  const TypeClass other = ClassOf(b);
  if (one == TypeClass::kPredicate || other == TypeClass::kPredicate) return one == other;
  return one == other || one == TypeClass::kBits || other == TypeClass::kBits;
}

// As the argument of a call.
bool CanPass(const Variable& actual, const Variable& formal) {
  const bool bits =
      ClassOf(actual.type) == TypeClass::kBits || ClassOf(formal.type) == TypeClass::kBits;
  const bool types =
      formal.dims.empty() ? Agree(actual.type, formal.type) : bits || actual.type == formal.type;
  return types && actual.bytes() == formal.bytes() && actual.dims.empty() == formal.dims.empty() &&
         actual.aligned_to() == formal.aligned_to();
}

// "ld", "global", "v4", "f32".
struct Opcode {
  std::string_view name;
  std::vector<std::string_view> modifiers;
  std::vector<Type> types;  // Those among the modifiers that registers can have.
  std::vector<Space> spaces;

  explicit Opcode(std::string_view text);
  Type type() const { return types.back(); }
  bool Has(std::string_view modifier) const {
    return std::ranges::find(modifiers, modifier) != modifiers.end();
  }
};

std::optional<Type> TypeNamed(std::string_view name) {
  static constexpr std::pair<std::string_view, Type> kTypes[] = {
      {"pred", Type::kPred}, {"b8", Type::kB8},   {"b16", Type::kB16}, {"b32", Type::kB32},
      {"b64", Type::kB64},   {"u8", Type::kU8},   {"u16", Type::kU16}, {"u32", Type::kU32},
      {"u64", Type::kU64},   {"s8", Type::kS8},   {"s16", Type::kS16}, {"s32", Type::kS32},
      {"s64", Type::kS64},   {"f16", Type::kF16}, {"f32", Type::kF32}, {"f64", Type::kF64},
  };
  for (const auto& [known, type] : kTypes)
    if (known == name) return type;
  return std::nullopt;
}

std::optional<Space> SpaceNamed(std::string_view name) {
  static constexpr std::pair<std::string_view, Space> kSpaces[] = {
      {"const", Space::kConst}, {"global", Space::kGlobal}, {"local", Space::kLocal},
      {"param", Space::kParam}, {"shared", Space::kShared},
  };
  for (const auto& [known, space] : kSpaces)
    if (known == name.substr(0, name.find(':'))) return space;
  return std::nullopt;
}

Opcode::Opcode(std::string_view text) {
  for (bool first = true; !text.empty(); first = false) {
    const size_t end = std::min(text.find('.'), text.size());
    const std::string_view part = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (first) {
      name = part;
      continue;
    }
    modifiers.push_back(part);
    if (const auto type = TypeNamed(part); type.has_value()) {
      types.push_back(*type);
    } else if (const auto space = SpaceNamed(part); space.has_value()) {
      spaces.push_back(*space);
    }
  }
}

template <size_t kCount>
bool IsOneOf(std::string_view name, const std::array<std::string_view, kCount>& names) {
  return std::ranges::find(names, name) != names.end();
}

// All of whose operands have its type, as far as there is only one.
constexpr std::array<std::string_view, 26> kUniform = {
    "abs", "add", "and",   "cnot", "copysign", "cos", "div",  "ex2", "fma",
    "lg2", "mad", "max",   "min",  "mov",      "mul", "neg",  "not", "or",
    "rcp", "rem", "rsqrt", "sin",  "sqrt",     "sub", "tanh", "xor"};
constexpr std::array<std::string_view, 2> kShifts = {"shl", "shr"};
constexpr std::array<std::string_view, 11> kAccesses = {"atom", "cp",       "ld",        "ldmatrix",
                                                        "ldu",  "prefetch", "prefetchu", "red",
                                                        "st",   "stmatrix", "wmma"};

// Bytes that a load or store has of each lane.
int64_t BytesOf(const Opcode& opcode) {
  int64_t elements = 1;
  for (const std::string_view modifier : opcode.modifiers)
    if (modifier.size() == 2 && modifier[0] == 'v') elements = modifier[1] - '0';
  return elements * SizeOf(opcode.type());
}

bool IsSigned(Type type) {
  return type == Type::kS8 || type == Type::kS16 || type == Type::kS32 || type == Type::kS64;
}

// Of a conversion between integers: whether some value is too large or too small.
bool CanSaturate(Type to, Type from) {
  if (IsSigned(to) == IsSigned(from)) return SizeOf(to) < SizeOf(from);
  return IsSigned(from) || SizeOf(to) <= SizeOf(from);
}

// Modifiers that do not go together.
bool AreModifiersRight(const Opcode& opcode) {
  if (opcode.name == "ldu")
    return !opcode.Has("v8") && (opcode.spaces.empty() || opcode.spaces[0] == Space::kGlobal);
  if (opcode.name != "cvt" || !opcode.Has("sat") || opcode.types.size() != 2) return true;
  const auto [to, from] = std::pair(opcode.types[0], opcode.types[1]);
  return ClassOf(to) != TypeClass::kInteger || ClassOf(from) != TypeClass::kInteger ||
         CanSaturate(to, from);
}

// The least compute capability that has an instruction, of those that the executor knows.
int LeastCapability(const Opcode& opcode) {
  static constexpr std::array<std::string_view, 9> kOfBF16 = {"add", "atom", "ex2", "mul", "red",
                                                              "set", "setp", "sub", "tanh"};
  static constexpr std::array<std::string_view, 8> kWhole = {
      "elect",      "getctarank", "mapa",      "griddepcontrol",
      "setmaxnreg", "stmatrix",   "tensormap", "wgmma"};
  const bool converts = opcode.name == "cvt";
  const bool bf16 = opcode.Has("bf16") || opcode.Has("bf16x2");
  if (IsOneOf(opcode.name, kWhole) || opcode.Has("cluster") || opcode.Has("shared::cluster") ||
      opcode.Has("try_wait") || opcode.Has("bulk"))
    return 90;
  if (opcode.name == "fence" && (opcode.Has("async") || opcode.Has("tensormap::generic")))
    return 90;
  const bool accesses = opcode.name == "ld" || opcode.name == "ldu" || opcode.name == "st";
  if (accesses && !opcode.types.empty() && BytesOf(opcode) > kVectorBytesMax) return 100;
  if (opcode.Has("u16x2") || opcode.Has("s16x2") || (opcode.Has("relu") && opcode.Has("s32")))
    return 90;
  if (bf16 && (IsOneOf(opcode.name, kOfBF16) || (converts && !opcode.Has("f32")))) return 90;
  if (converts && opcode.Has("tf32") && !opcode.Has("rna")) return 90;
  for (const std::string_view modifier : opcode.modifiers)
    if (modifier.starts_with("e4m3") || modifier.starts_with("e5m2")) return 89;
  return opcode.Has("xorsign") ? 86 : 0;
}

// What holds in a function and outside.
absl::Status ValidateVariable(const Variable& variable) {
  const auto refuse = [&](std::string_view what) {
    return InvalidArgument("line {}: '{}' {}", variable.line, variable.name, what);
  };
  if (variable.type == Type::kPred && variable.space != Space::kReg)
    return refuse("is a predicate, but is not in .reg");
  if (variable.type == Type::kPred && variable.vector > 1)
    return refuse("must not be a vector of predicates");
  if (SizeOf(variable.type) * variable.vector > kVectorBytesMax)
    return refuse("must not be a vector of more than 128 bits");
  const bool open = !variable.dims.empty() && variable.dims.front() == 0;
  if (open && !(variable.external() && variable.space == Space::kShared))
    return refuse("has no size");
  return absl::OkStatus();
}

class FunctionValidator {
 public:
  FunctionValidator(const std::unordered_map<std::string_view, const Variable*>& variables,
                    const std::unordered_map<std::string_view, const Function*>& functions,
                    const Function& function,
                    int capability,
                    bool specific)
      : variables_(variables),
        functions_(functions),
        function_(function),
        capability_(capability),
        specific_(specific) {}

  absl::Status Validate() {
    COPPICE_RETURN_IF_ERROR(Declare(function_.type.returns, true));
    COPPICE_RETURN_IF_ERROR(Declare(function_.type.parameters, true));
    COPPICE_RETURN_IF_ERROR(Declare(function_.variables, false));
    for (const auto& [label, at] : function_.labels)
      if (names_.Find(label).value != nullptr)
        return Refuse((*names_.Find(label).value)->line, "'{}' is also a label", label);
    for (const Instruction& instruction : function_.body)
      COPPICE_RETURN_IF_ERROR(Check(instruction));
    return absl::OkStatus();
  }

 private:
  template <typename... Args>
  static absl::Status Refuse(int line, fmt::format_string<Args...> format, Args&&... args) {
    return InvalidArgument("line {}: {}", line, fmt::format(format, std::forward<Args>(args)...));
  }

  absl::Status Declare(const std::vector<Variable>& variables, bool parameters) {
    for (const Variable& variable : variables) {
      const bool in_param = variable.space == Space::kParam;
      COPPICE_RETURN_IF_ERROR(ValidateVariable(variable));
      if (variable.space == Space::kReg && !variable.dims.empty())
        return Refuse(variable.line, "'{}' must not be an array of registers", variable.name);
      if (parameters && function_.entry && !in_param)
        return Refuse(variable.line, "parameter '{}' of a kernel must be in .param", variable.name);
      if (in_param && variable.vector > 1 && variable.dims.empty())
        return Refuse(variable.line, "'{}' must not be a vector in .param", variable.name);
      if (!names_.Add(variable.name, variable.registers, &variable))
        return Refuse(variable.line, "'{}' is declared twice", variable.name);
    }
    return absl::OkStatus();
  }

  // Null: none of this name, as a special register or a function.
  const Variable* Find(std::string_view name) const {
    if (name.empty()) return nullptr;
    if (const auto own = names_.Find(name); own.value != nullptr) return *own.value;
    const auto found = variables_.find(name);
    return found == variables_.end() ? nullptr : found->second;
  }

  absl::Status Check(const Instruction& instruction) {
    const Opcode& opcode =
        opcodes_.try_emplace(instruction.opcode, instruction.opcode).first->second;
    if (const int least = LeastCapability(opcode); least > capability_)
      return Refuse(instruction.line, "{} needs .target sm_{} or later", instruction.opcode, least);
    if (capability_ < 90 && IsArrivalOfSm90(instruction))
      return Refuse(instruction.line,
                    "{} with a count needs .target sm_90 or later, or .noComplete",
                    instruction.opcode);
    if (!specific_ && NeedsSpecificTarget(instruction.opcode))
      return Refuse(instruction.line,
                    "{} needs an architecture with the suffix a, such as .target sm_90a",
                    instruction.opcode);
    if (const std::string wrong = WhatIsWrong(instruction); !wrong.empty())
      return Refuse(instruction.line, "{} {}", instruction.opcode, wrong);
    if (!AreModifiersRight(opcode))
      return Refuse(instruction.line, "{} has modifiers that cannot be combined",
                    instruction.opcode);
    if (opcode.name == "call") return CheckCall(instruction);
    // st.async and red.async have the address of an mbarrier, too.
    const bool has_barrier = opcode.Has("async") && opcode.name != "cp";
    if (IsOneOf(opcode.name, kAccesses) && !has_barrier) {
      COPPICE_RETURN_IF_ERROR(CheckAddresses(instruction, opcode));
      COPPICE_RETURN_IF_ERROR(CheckDirection(instruction, opcode));
    }
    const auto& operands = instruction.operands;
    for (size_t i = 0; i < operands.size(); ++i) {
      const auto type = TypeOf(opcode, i);
      if (type.has_value()) COPPICE_RETURN_IF_ERROR(CheckType(instruction, operands[i], *type));
    }
    return absl::OkStatus();
  }

  // Of an operand; nothing: it is not looked at.
  static std::optional<Type> TypeOf(const Opcode& opcode, size_t operand) {
    if (opcode.types.empty()) return std::nullopt;
    const bool one = opcode.types.size() == 1;
    const bool last = operand == 3;
    if (opcode.name == "cvt" && opcode.types.size() == 2 && operand < 2)
      return opcode.types[operand];
    // Accumulators.
    if (opcode.name == "wgmma") return operand == 0 ? std::optional(opcode.types[0]) : std::nullopt;
    if (!one) return std::nullopt;
    if (opcode.name == "ld" && operand == 0) return opcode.type();
    if (opcode.name == "st" && operand == 1) return opcode.type();
    if (opcode.name == "selp") return last ? Type::kPred : opcode.type();
    if (opcode.name == "setp" && (operand == 1 || operand == 2)) return opcode.type();
    if (IsOneOf(opcode.name, kShifts)) return operand < 2 ? opcode.type() : Type::kU32;
    return IsOneOf(opcode.name, kUniform) ? std::optional(opcode.type()) : std::nullopt;
  }

  absl::Status CheckType(const Instruction& instruction, const Operand& operand, Type type) const {
    const TypeClass wanted = ClassOf(type);
    switch (operand.kind) {
      case Operand::Kind::kInteger:
        if (wanted == TypeClass::kFloat || wanted == TypeClass::kHalf)
          return Refuse(instruction.line,
                        "{} does not take an integer; write a floating-point number such as 1.0 or "
                        "0f3F800000",
                        instruction.opcode);
        return absl::OkStatus();
      case Operand::Kind::kFloat32:
      case Operand::Kind::kFloat64: {
        const int64_t bytes = operand.kind == Operand::Kind::kFloat32 ? 4 : 8;
        if (wanted == TypeClass::kFloat || (wanted == TypeClass::kBits && SizeOf(type) == bytes))
          return absl::OkStatus();
        return Refuse(instruction.line, "the type of a floating-point number does not match {}",
                      instruction.opcode);
      }
      case Operand::Kind::kVector:
        // mov makes them of other types.
        if (instruction.opcode.starts_with("mov")) return absl::OkStatus();
        for (const Operand& element : operand.elements)
          COPPICE_RETURN_IF_ERROR(CheckType(instruction, element, type));
        return absl::OkStatus();
      case Operand::Kind::kName:
        break;
      default:
        return absl::OkStatus();
    }
    const Variable* const found = Find(operand.name);
    if (found == nullptr || found->space != Space::kReg || Agree(found->type, type))
      return absl::OkStatus();
    return Refuse(instruction.line, "the type of '{}' does not match {}", operand.name,
                  instruction.opcode);
  }

  absl::Status CheckAddresses(const Instruction& instruction, const Opcode& opcode) const {
    size_t addresses = 0;
    for (const Operand& operand : instruction.operands)
      addresses += operand.kind == Operand::Kind::kAddress;
    if (opcode.spaces.size() > addresses) return absl::OkStatus();
    size_t next = 0;
    for (const Operand& operand : instruction.operands) {
      if (operand.kind != Operand::Kind::kAddress) continue;
      const size_t i = next++;
      const Variable* const at = Find(operand.name);
      if (at == nullptr || i > opcode.spaces.size()) continue;
      const Space space = i < opcode.spaces.size() ? opcode.spaces[i] : Space::kGeneric;
      // Of cp.async ptxas takes any width.
      const Space narrow = opcode.name == "cp" ? Space::kShared : space;
      if (at->space == Space::kReg ? !IsAddress(*at, narrow) : !Reaches(space, at->space))
        return Refuse(instruction.line, "'{}' is not an address for {}", operand.name,
                      instruction.opcode);
    }
    return absl::OkStatus();
  }

  static bool IsAddress(const Variable& variable, Space space) {
    const bool wide = SizeOf(variable.type) == 8;
    const TypeClass type = ClassOf(variable.type);
    return (type == TypeClass::kBits || type == TypeClass::kInteger) &&
           (wide || (space != Space::kGeneric && space != Space::kGlobal));
  }

  static bool Reaches(Space instruction, Space variable) {
    if (instruction != Space::kGeneric) return instruction == variable;
    return variable != Space::kConst && variable != Space::kParam;
  }

  // What comes into a function is not written, and what goes out is not read.
  absl::Status CheckDirection(const Instruction& instruction, const Opcode& opcode) const {
    const auto is_among = [&](const std::vector<Variable>& variables) {
      return std::ranges::any_of(variables, [&](const Variable& variable) {
        return std::ranges::any_of(instruction.operands, [&](const Operand& operand) {
          return operand.kind == Operand::Kind::kAddress && operand.name == variable.name;
        });
      });
    };
    if (opcode.spaces.empty()) return absl::OkStatus();
    if (opcode.name == "st" && opcode.spaces.front() == Space::kConst)
      return Refuse(instruction.line, "{} cannot write constants", instruction.opcode);
    if (opcode.spaces.front() != Space::kParam) return absl::OkStatus();
    if (opcode.name == "st" && is_among(function_.type.parameters))
      return Refuse(instruction.line, "{} cannot write a parameter of its function",
                    instruction.opcode);
    if (opcode.name == "ld" && is_among(function_.type.returns))
      return Refuse(instruction.line, "{} cannot read a return value of its function",
                    instruction.opcode);
    return absl::OkStatus();
  }

  // "call (r), f, (x, y)"; calls through pointers have another operand behind.
  absl::Status CheckCall(const Instruction& instruction) const {
    const std::vector<Operand>* lists[] = {nullptr, nullptr};
    const Function* callee = nullptr;
    for (const Operand& operand : instruction.operands) {
      if (operand.kind == Operand::Kind::kList) {
        lists[callee == nullptr ? 0 : 1] = &operand.elements;
      } else if (const auto found = functions_.find(operand.name);
                 callee == nullptr && found != functions_.end()) {
        callee = found->second;
      }
    }
    if (callee == nullptr) return absl::OkStatus();
    const std::vector<Variable>* formals[] = {&callee->type.returns, &callee->type.parameters};
    for (const size_t i : {size_t{0}, size_t{1}}) {
      if (lists[i] == nullptr) continue;
      const size_t count = std::min(lists[i]->size(), formals[i]->size());
      for (size_t k = 0; k < count; ++k) {
        const Variable& formal = (*formals[i])[k];
        const Variable* const actual = Find((*lists[i])[k].name);
        if (formal.space == Space::kParam && formal.dims.empty() &&
            ClassOf(formal.type) == TypeClass::kInteger && formal.bytes() < kPassedBytesMin)
          return Refuse(instruction.line,
                        "'{}' of {} is too narrow for a parameter or result; use at least 32 bits",
                        formal.name, callee->name);
        if (actual == nullptr || actual->space != formal.space) continue;
        if (!CanPass(*actual, formal))
          return Refuse(instruction.line, "'{}' does not match '{}' of {}", (*lists[i])[k].name,
                        formal.name, callee->name);
      }
    }
    return absl::OkStatus();
  }

  const std::unordered_map<std::string_view, const Variable*>& variables_;
  const std::unordered_map<std::string_view, const Function*>& functions_;
  const Function& function_;
  const int capability_;
  const bool specific_;
  DeclaredNames<const Variable*> names_;
  std::unordered_map<std::string_view, Opcode> opcodes_;  // A function has few, again and again.
};

absl::Status ValidateModuleVariable(const Variable& variable) {
  if (variable.space == Space::kReg || variable.space == Space::kLocal ||
      variable.space == Space::kParam)
    return InvalidArgument("line {}: '{}' must be declared inside a function", variable.line,
                           variable.name);
  return ValidateVariable(variable);
}

}  // namespace

bool AreSame(const Prototype& a, const Prototype& b) {
  const auto same = [](const std::vector<Variable>& one, const std::vector<Variable>& other) {
    return std::ranges::equal(one, other, [](const Variable& x, const Variable& y) {
      return x.space == y.space && x.type == y.type && x.dims == y.dims &&
             x.aligned_to() == y.aligned_to();
    });
  };
  return same(a.returns, b.returns) && same(a.parameters, b.parameters);
}

absl::Status Validate(const Module& module, int capability) {
  const bool specific = module.target.ends_with('a') || module.target.ends_with('f');
  std::unordered_map<std::string_view, const Variable*> variables;
  std::unordered_map<std::string_view, const Function*> functions;
  for (const Variable& variable : module.variables) {
    COPPICE_RETURN_IF_ERROR(ValidateModuleVariable(variable));
    variables.emplace(variable.name, &variable);
  }
  for (const Function& function : module.functions) {
    if (variables.contains(function.name))
      return InvalidArgument("line {}: '{}' is also a variable", function.line, function.name);
    if (!function.external && function.linkage == Linkage::kExtern)
      return InvalidArgument("line {}: '{}' is .extern, but has a body", function.line,
                             function.name);
    if (function.external && function.linkage != Linkage::kExtern)
      return InvalidArgument("line {}: '{}' is declared, but not defined", function.line,
                             function.name);
    functions.emplace(function.name, &function);
  }
  for (const Function& function : module.functions)
    COPPICE_RETURN_IF_ERROR(
        FunctionValidator(variables, functions, function, capability, specific).Validate());
  return absl::OkStatus();
}

}  // namespace coppice::ptx
