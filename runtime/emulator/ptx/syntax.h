// A PTX module as it is written: what the parser makes of text.
//
// Names are those of the PTX ISA (NVIDIA, "Parallel Thread Execution ISA"). Nothing is resolved
// here: an operand names a register or a variable, an opcode is its text.
//
// Units: sizes in bytes, lines from 1. Threads: plain values. Texts point into the module's source.

#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace coppice::ptx {

// Fundamental types, and those that only instructions have (packed, and formats of fewer bits).
enum class Type : uint8_t {
  kPred,
  kB8,
  kB16,
  kB32,
  kB64,
  kB128,
  kU8,
  kU16,
  kU32,
  kU64,
  kS8,
  kS16,
  kS32,
  kS64,
  kF16,
  kF16x2,
  kBF16,
  kBF16x2,
  kTF32,
  kF32,
  kF64,
};

// Bytes of a value; 0 for a predicate.
int64_t SizeOf(Type type);

enum class Space : uint8_t { kReg, kConst, kGlobal, kLocal, kParam, kShared, kGeneric };

// Who sees a name of module scope. kExtern: it is defined elsewhere.
enum class Linkage : uint8_t { kStatic, kVisible, kExtern };

// Where a text came from: `file` as .file numbers it; 0: the PTX names no source.
struct Location {
  int file = 0;
  int line = 0;
};

// One element of an initialiser: bits, or the address of `symbol` and an offset to it. Elements
// without one are 0.
struct Initializer {
  int64_t element = 0;
  std::string_view symbol;  // Empty: `bits` alone.
  uint64_t bits = 0;        // Of the variable's element type, or the offset.
  bool generic = false;     // generic(symbol): its generic address.
};

// A variable or parameter, or a range of registers: %r<7> is the registers %r0 to %r6.
struct Variable {
  std::string_view name;
  Space space = Space::kReg;
  Type type = Type::kB32;
  int vector = 1;             // Elements of .v2, .v4.
  int64_t alignment = 0;      // 0: that of the type.
  std::vector<int64_t> dims;  // Of an array; the first may be 0: extern, or as initialised.
  std::vector<Initializer> values;
  int registers = 0;  // Of a range; 0: the variable has just this name.
  Linkage linkage = Linkage::kStatic;
  int line = 0;

  bool external() const { return linkage == Linkage::kExtern; }
  int64_t elements() const;    // Product of dims and of the vector.
  int64_t aligned_to() const;  // What is declared, or that of the type, if it is more.
  int64_t bytes() const { return elements() * SizeOf(type); }
};

struct Operand {
  enum class Kind : uint8_t {
    kName,     // A register, a label, a variable, a function; `bits` is added to a variable.
    kInteger,  // `bits` is a 64-bit two's complement number.
    kFloat32,  // 0f3F800000: `bits` is the pattern.
    kFloat64,  // 0d..., and decimals.
    kAddress,  // [name + bits], [bits]: name may be empty. Coordinates behind it are `elements`.
    kVector,   // {a, b, c, d}
    kPair,     // p|q
    kList,     // (a, b, c) of a call
    kSink,     // _
  };
  Kind kind = Kind::kName;
  bool negated = false;  // !p of a predicate, -r of a register.
  char component = 0;    // Of a special register or vector: x, y, z or w.
  std::string_view name;
  uint64_t bits = 0;
  std::vector<Operand> elements;
};

struct Instruction {
  std::string_view opcode;  // With its modifiers: "ld.global.v4.f32".
  std::string_view guard;   // The predicate of @p; empty: none.
  bool guard_negated = false;
  std::vector<Operand> operands;
  int line = 0;
  Location source;
};

// The type of a function as a call through a pointer has it.
struct Prototype {
  std::vector<Variable> returns;
  std::vector<Variable> parameters;
};

struct Function {
  std::string_view name;
  bool entry = false;  // A kernel.
  Linkage linkage = Linkage::kStatic;
  bool external = false;      // Declared, not defined, here.
  std::string_view alias_of;  // .alias: another name of that function, and nothing else.
  Prototype type;
  std::vector<Variable> variables;  // Registers, .local, .param and .shared of all scopes.
  std::vector<Instruction> body;
  std::map<std::string_view, int> labels;  // To the index of the instruction that follows.
  std::map<std::string_view, Prototype> prototypes;                        // .callprototype
  std::map<std::string_view, std::vector<std::string_view>> target_lists;  // .branchtargets
  std::vector<int> max_threads;       // .maxntid: up to 3 dimensions.
  std::vector<int> required_threads;  // .reqntid
  std::vector<int> required_cluster;  // .reqnctapercluster: blocks.
  int line = 0;
};

struct Module {
  std::unique_ptr<const std::string> text;  // What everything else points into ...
  std::deque<std::string> names;            // ... or here: names of inner scopes, made distinct.
  int version_major = 0;
  int version_minor = 0;
  std::string_view target;  // "sm_80"
  int address_bits = 64;
  std::vector<Variable> variables;  // Of module scope.
  std::vector<Function> functions;  // A declaration that is defined elsewhere is not in it twice.
  std::map<int, std::string_view> files;  // .file
};

}  // namespace coppice::ptx
