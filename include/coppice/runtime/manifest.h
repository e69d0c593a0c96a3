// The parsed manifest of a kernel package, as plain data. runtime/package/FORMAT.md describes the
// format.
//
// Names are resolved: a step refers to its kernel and its buffers by index. Lists are in the order
// of their names, as in the file, except for inputs, outputs and steps, which are in the manifest's
// order. Everything that can be checked without a device and without an image was checked: names
// exist, arguments have the bytes of their parameters, expressions parse and use only allowed
// names, and operands have allowed roles.
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
#include <type_traits>
#include <variant>
#include <vector>

#include "coppice/base/expression.h"
#include "coppice/base/fill.h"
#include "coppice/base/padding_claim.h"
#include "coppice/base/tensor.h"

namespace coppice::package {

// A number that is constant, or computed from the sizes of a call.
struct Amount {
  int64_t value = 0;                     // The number, if there is no expression.
  std::optional<Expression> expression;  // Over Program::names(); in a kernel step, the names are
                                         // followed by the kernel's value_names.

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
  int file = 0;  // Index into Manifest::files.
  ImageFormat format = ImageFormat::kCubin;
  std::string arch;  // "sm_90a".
};

// Scratch memory of one launch.
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
  std::vector<int64_t> values;  // One per Kernel::value_names.
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
  std::vector<int64_t> strides;  // Empty only for rank 0.
  int file = -1;                 // Index into Manifest::files, of a safetensors file; -1: the
                                 // caller provides the constant.
  std::string tensor;            // Its name in that file.
};

struct Symbol {
  std::string name;
  int64_t min = 0;
  int64_t max = INT64_MAX;
  int64_t multiple_of = 1;
  bool exclude_01 = false;
  int scalar = -1;  // Index of the scalar that gives its value; -1: axes give it.
  int64_t hint = -1;
  std::optional<PaddingClaim> claim;
  bool buckets_pow2 = false;
  std::vector<int64_t> buckets;  // Ascending; empty: the package gives none.
};

struct Scalar {
  std::string name;
  bool parameter = false;  // Read from the parameter block, and not part of the key.
};

enum class Role : uint8_t { kInput, kOutput, kTemporary, kConstant, kSeed };

// The buffer that an output shares its bytes with.
struct Alias {
  int buffer = 0;  // An input, a constant, or another output that is not an alias.
  Amount offset;   // Bytes.
};

struct Buffer {
  std::string name;
  Role role = Role::kTemporary;
  DType dtype = DType::kUInt8;
  std::vector<Amount> shape;    // For a temporary given in bytes: their number, as u8. For a seed:
                                // its words, as i64.
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
  int64_t divisible_by = 1;  // The compiler assumed that the address is a multiple of this.
};
struct IntegerArgument {
  int32_t bytes = 4;
  bool is_signed = true;
  Amount value;
  int64_t divisible_by = 1;  // The compiler assumed that the value is a multiple of this.
};
struct BytesArgument {  // Fractions, null and bytes.
  std::vector<std::byte> bytes;
  int32_t align = 1;  // In a struct: the size of a fraction, or 8 for null.
};
struct ScratchArgument {
  int index = 0;
};
struct RealArgument {
  int symbol = -1;  // One of the two is set.
  int scalar = -1;
};
// The numbers are those of the CUtensorMap enums in CUDA's header.
struct TensorMapArgument {
  Operand operand;
  Access access = Access::kReadWrite;
  DType dtype = DType::kFloat32;
  std::vector<Amount> dims;     // Innermost first, like all lists here.
  std::vector<Amount> strides;  // In bytes; the innermost dimension has none.
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
  int32_t align = 8;  // At least the alignment of each member.
};

// Size and alignment of an argument in the parameter buffer. As in C, a member of a struct begins
// at the next multiple of its alignment, and the struct ends at a multiple of its own alignment.
struct ArgumentLayout {
  int64_t bytes = 0;
  int64_t align = 1;
};
ArgumentLayout LayoutOf(const Argument& argument);

struct KernelStep {
  static constexpr const char* kOp = "kernel";
  int kernel = 0;
  std::array<Amount, 3> grid;
  std::vector<Argument> args;
  std::vector<Expression> assumes;  // Conditions that the kernel was compiled for; they may use the
                                    // same names as `grid`.
};
struct MemsetStep {
  static constexpr const char* kOp = "memset";
  Operand to;
  uint32_t value = 0;
  int32_t width = 1;
  Amount count;
};
struct MemcpyStep {
  static constexpr const char* kOp = "memcpy";
  Operand to;
  Operand from;
  Amount bytes;
};
struct CallStep {
  static constexpr const char* kOp = "call";
  std::string function;
  std::vector<View> inputs;
  std::vector<View> outputs;
  std::map<std::string, std::variant<int64_t, std::string>> options;
};
struct ChildStep {
  static constexpr const char* kOp = "child";
  int program = 0;
  std::vector<Amount> symbols;   // Per symbol of the child.
  std::vector<Operand> inputs;   // Per input of the child, in its order.
  std::vector<Operand> outputs;  // Per output of the child, likewise.
};

struct Step {
  std::optional<Expression> condition;
  std::variant<KernelStep, MemsetStep, MemcpyStep, CallStep, ChildStep> action;
};
// "op" of each kind of step, in the order of Step::action.
inline constexpr auto kStepOps =
    []<typename... Kind>(std::type_identity<std::variant<Kind...>> /*of*/) {
      return std::array{Kind::kOp...};
    }(std::type_identity<decltype(Step::action)>{});

struct Program {
  std::string name;
  std::vector<Symbol> symbols;
  std::vector<Scalar> scalars;
  std::vector<std::string> guards;  // Over names().
  std::vector<int> inputs;          // Buffers.
  std::vector<int> outputs;
  std::vector<Buffer> buffers;
  std::vector<Step> steps;

  // The names that expressions may use: symbols, then scalars. A scalar that is not part of the key
  // has the value 0. Cost: allocates.
  std::vector<std::string> names() const;
};

struct Manifest {
  std::string producer_name;
  std::string producer_version;
  std::string sha256;  // Digest of the manifest itself, by which profiles and caches identify the
                       // package.
  int entry = 0;       // Index into `programs`.
  std::vector<File> files;
  std::vector<Module> modules;
  std::vector<Kernel> kernels;
  std::vector<Constant> constants;
  std::vector<Program> programs;
};

}  // namespace coppice::package
