// The manifest of a kernel package, read: what runtime/package/FORMAT.md describes, as plain data.
//
// Names are resolved: a step names its kernel and its buffers by index. Lists are in the order of
// their names, as in the file, but for inputs, outputs and steps, whose order is the manifest's.
// Whatever a reader can check without a device and without an image holds: names that exist,
// arguments that have the bytes of their parameters, expressions that parse over the names that
// they may use, operands of roles that may stand there.
//
// Units: bytes; sizes and strides in elements; grids in blocks, blocks in threads. Threads: plain
// values.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "coppice/base/expression.h"
#include "coppice/base/fill.h"
#include "coppice/base/padding_claim.h"
#include "coppice/base/tensor.h"

namespace coppice::package {

// A number that is known, or computed from the sizes of a call.
struct Amount {
  int64_t value = 0;                     // Without an expression.
  std::optional<Expression> expression;  // Over Program::names(), of a kernel step with the
                                         // kernel's value_names behind them.

  // Requires: as many values as there are names (checked). Cost: does not allocate.
  Computed At(std::span<const int64_t> values) const {
    return expression ? expression->Evaluate(values)
                      : Computed{.value = value, .fault = ArithmeticFault::kNone};
  }
};

struct File {
  std::string name;
  int64_t bytes = 0;
  std::string sha256;  // 64 hexadecimal digits, lower case.
};

enum class ImageFormat : uint8_t { kCubin, kFatbin, kPtx };

struct Module {
  std::string name;
  int file = 0;  // Of Manifest::files.
  ImageFormat format = ImageFormat::kCubin;
  std::string arch;  // "sm_90a".
};

// Memory of one launch.
struct Scratch {
  int64_t bytes_per_block = 0;
  int64_t align = 1;  // A power of two, at most kBufferAlignment.
};

struct Target {
  int module = 0;
  std::string symbol;
  std::array<uint32_t, 3> block = {1, 1, 1};
  uint32_t shared_bytes = 0;  // Dynamic.
  std::array<uint32_t, 3> cluster = {1, 1, 1};
  bool cooperative = false;
  bool programmatic = false;
  std::vector<Scratch> scratch;
  std::vector<int64_t> values;  // Of Kernel::value_names.
  std::string variant;
};

// Where a kernel comes from, for messages.
struct Source {
  std::string front_end;
  std::string name;
  std::string file;
  int64_t line = 0;  // 0: unknown.
};

struct Kernel {
  std::string name;
  std::vector<int32_t> parameter_bytes;
  std::vector<std::string> value_names;
  std::vector<Target> targets;  // At least one.
  Source source;
};

struct Constant {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // Never empty but for rank 0.
  int file = -1;                 // Of Manifest::files, a safetensors file; -1: the caller gives it.
  std::string tensor;            // Its name there.
};

struct Symbol {
  std::string name;
  int64_t min = 0;
  int64_t max = INT64_MAX;
  int64_t multiple_of = 1;
  bool exclude_01 = false;
  int scalar = -1;  // Whose value it is; -1: axes say it.
  int64_t hint = -1;
  std::optional<PaddingClaim> claim;
  bool buckets_pow2 = false;
  std::vector<int64_t> buckets;  // Ascending; empty: the producer names none.
};

struct Scalar {
  std::string name;
  bool parameter = false;  // Read from the parameter block, and not part of the key.
};

enum class Role : uint8_t { kInput, kOutput, kTemporary, kConstant, kSeed };

// What an output shares its bytes with.
struct Alias {
  int buffer = 0;  // An input, a constant, or another output that is no alias.
  Amount offset;   // Bytes.
};

struct Buffer {
  std::string name;
  Role role = Role::kTemporary;
  DType dtype = DType::kUInt8;
  std::vector<Amount> shape;    // Of a temporary given in bytes: those, of u8; of a seed: its
                                // words, of i64.
  std::vector<Amount> strides;  // Empty: row-major without gaps.
  int64_t align = 16;           // Of an input's address.
  bool mutated = false;
  bool is_static = false;
  Fill fill;          // Of an input.
  int constant = -1;  // Of Manifest::constants.
  std::optional<Alias> alias;
};

enum class Access : uint8_t { kRead, kWrite, kReadWrite };

struct Operand {
  int buffer = 0;
  Amount offset;  // Bytes.
};

struct View {
  Operand operand;
  DType dtype = DType::kFloat32;
  std::vector<Amount> shape;
  std::vector<Amount> strides;  // Empty: row-major without gaps.
};

struct BufferArgument {
  Operand operand;
  Access access = Access::kReadWrite;
  int64_t divisible_by = 1;  // What the compiler took the address for a multiple of.
};
struct IntegerArgument {
  int32_t bytes = 4;
  bool is_signed = true;
  Amount value;
  int64_t divisible_by = 1;  // What the compiler took the value for a multiple of.
};
struct BytesArgument {  // Fractions, null and bytes.
  std::vector<std::byte> bytes;
  int32_t align = 1;  // In a struct: of a fraction its size, of null 8.
};
struct ScratchArgument {
  int index = 0;
};
struct RealArgument {
  int symbol = -1;  // One of the two.
  int scalar = -1;
};
// The words are those of CUtensorMapDataType and its neighbours in CUDA's header.
struct TensorMapArgument {
  Operand operand;
  Access access = Access::kReadWrite;
  DType dtype = DType::kFloat32;
  std::vector<Amount> dims;     // Innermost first, as everything here.
  std::vector<Amount> strides;  // Bytes, without the innermost.
  std::vector<uint32_t> box;
  std::vector<uint32_t> element_strides;
  uint8_t interleave = 0;
  uint8_t swizzle = 0;
  uint8_t l2_promotion = 0;
  uint8_t oob_fill = 0;
};
struct StructArgument;
using Argument = std::variant<BufferArgument,
                              IntegerArgument,
                              BytesArgument,
                              ScratchArgument,
                              RealArgument,
                              TensorMapArgument,
                              StructArgument>;
struct StructArgument {
  std::vector<Argument> members;
  int32_t align = 8;  // At least that of each member.
};

// How much of a parameter buffer an argument takes. A member of a struct begins at the next
// multiple of its alignment, and the struct ends at a multiple of its own, as in C.
struct ArgumentLayout {
  int64_t bytes = 0;
  int64_t align = 1;
};
ArgumentLayout LayoutOf(const Argument& argument);

struct KernelStep {
  int kernel = 0;
  std::array<Amount, 3> grid;
  std::vector<Argument> args;
  std::vector<Expression> assumes;  // Conditions that the kernel was compiled for, as its grid.
};
struct MemsetStep {
  Operand to;
  uint32_t value = 0;
  int32_t width = 1;
  Amount count;
};
struct MemcpyStep {
  Operand to;
  Operand from;
  Amount bytes;
};
struct CallStep {
  std::string function;
  std::vector<View> inputs;
  std::vector<View> outputs;
  std::map<std::string, std::variant<int64_t, std::string>> options;
};
struct ChildStep {
  int program = 0;
  std::vector<Amount> symbols;   // Per symbol of the child.
  std::vector<Operand> inputs;   // Per input of the child, in its order.
  std::vector<Operand> outputs;  // The same.
};

struct Step {
  std::optional<Expression> condition;
  std::variant<KernelStep, MemsetStep, MemcpyStep, CallStep, ChildStep> action;
};

struct Program {
  std::string name;
  std::vector<Symbol> symbols;
  std::vector<Scalar> scalars;
  std::vector<std::string> guards;  // Over names().
  std::vector<int> inputs;          // Buffers.
  std::vector<int> outputs;
  std::vector<Buffer> buffers;
  std::vector<Step> steps;

  // What expressions read: symbols, then scalars, whose value is 0 for those that are no part of
  // the key. Cost: allocates.
  std::vector<std::string> names() const;
};

struct Manifest {
  std::string producer_name;
  std::string producer_version;
  std::string sha256;  // Of itself: what a profile or a cache names the package by.
  int entry = 0;       // Of programs.
  std::vector<File> files;
  std::vector<Module> modules;
  std::vector<Kernel> kernels;
  std::vector<Constant> constants;
  std::vector<Program> programs;
};

}  // namespace coppice::package
