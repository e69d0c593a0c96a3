// The promises of manifest.h, one by one.

#include "tests/package/model_walk.h"

#include <type_traits>
#include <variant>

#include "tests/support/test.h"

namespace coppice::package {
namespace {

template <typename List>
bool Has(const List& list, int index) {
  return index >= 0 && static_cast<size_t>(index) < list.size();
}

template <typename Entry>
void ExpectSorted(const std::vector<Entry>& entries) {
  for (size_t i = 1; i < entries.size(); ++i)
    EXPECT_LT(entries[i - 1].name, entries[i].name);
}

class ProgramWalk {
 public:
  ProgramWalk(const Manifest& manifest, const Program& program)
      : manifest_(manifest), program_(program), values_(program.names().size(), 7) {}

  void Run() {
    ExpectSorted(program_.symbols);
    ExpectSorted(program_.scalars);
    ExpectSorted(program_.buffers);
    for (const Symbol& symbol : program_.symbols) {
      EXPECT_LE(symbol.min, symbol.max);
      EXPECT_GE(symbol.multiple_of, 1);
      EXPECT_TRUE(symbol.scalar == -1 || Has(program_.scalars, symbol.scalar));
      EXPECT_TRUE(std::is_sorted(symbol.buckets.begin(), symbol.buckets.end()));
    }
    for (const std::string& guard : program_.guards)
      EXPECT_TRUE(Expression::Parse(guard, program_.names()).ok()) << guard;
    for (const Buffer& buffer : program_.buffers)
      Walk(buffer);
    ExpectRole(program_.inputs, Role::kInput);
    ExpectRole(program_.outputs, Role::kOutput);
    for (const Step& step : program_.steps) {
      if (step.condition) step.condition->Evaluate(values_);
      std::visit([&](const auto& action) { Walk(action); }, step.action);
    }
  }

 private:
  void ExpectRole(const std::vector<int>& order, Role role) {
    for (const int buffer : order) {
      ASSERT_TRUE(Has(program_.buffers, buffer));
      EXPECT_EQ(program_.buffers[static_cast<size_t>(buffer)].role, role);
    }
    EXPECT_EQ(static_cast<int64_t>(order.size()),
              std::count_if(program_.buffers.begin(), program_.buffers.end(),
                            [&](const Buffer& buffer) { return buffer.role == role; }));
  }

  void Walk(const Amount& amount) const { amount.At(values_); }
  void Walk(const std::vector<Amount>& amounts) const {
    for (const Amount& amount : amounts)
      Walk(amount);
  }

  void Walk(const Buffer& buffer) const {
    EXPECT_GT(SizeOf(buffer.dtype), 0);
    EXPECT_LE(buffer.shape.size(), static_cast<size_t>(kRankMax));
    EXPECT_TRUE(buffer.strides.empty() || buffer.strides.size() == buffer.shape.size());
    Walk(buffer.shape);
    Walk(buffer.strides);
    EXPECT_EQ(buffer.role == Role::kConstant, Has(manifest_.constants, buffer.constant));
    if (!buffer.alias) return;
    EXPECT_EQ(buffer.role, Role::kOutput);
    ASSERT_TRUE(Has(program_.buffers, buffer.alias->buffer));
    EXPECT_FALSE(program_.buffers[static_cast<size_t>(buffer.alias->buffer)].alias);
    Walk(buffer.alias->offset);
  }

  void Walk(const Operand& operand, bool written) const {
    ASSERT_TRUE(Has(program_.buffers, operand.buffer));
    const Buffer* buffer = &program_.buffers[static_cast<size_t>(operand.buffer)];
    if (buffer->alias) buffer = &program_.buffers[static_cast<size_t>(buffer->alias->buffer)];
    if (written) {
      EXPECT_NE(buffer->role, Role::kConstant);
      EXPECT_NE(buffer->role, Role::kSeed);
      EXPECT_TRUE(buffer->role != Role::kInput || buffer->mutated);
    }
    Walk(operand.offset);
  }

  void Walk(const Argument& argument, const Kernel& kernel) const {
    std::visit(
        [&](const auto& kind) {
          using Kind = std::decay_t<decltype(kind)>;
          if constexpr (std::is_same_v<Kind, BufferArgument>) {
            Walk(kind.operand, kind.access != Access::kRead);
          } else if constexpr (std::is_same_v<Kind, IntegerArgument>) {
            Walk(kind.value);
          } else if constexpr (std::is_same_v<Kind, ScratchArgument>) {
            for (const Target& target : kernel.targets)
              EXPECT_TRUE(Has(target.scratch, kind.index));
          } else if constexpr (std::is_same_v<Kind, RealArgument>) {
            EXPECT_NE(Has(program_.symbols, kind.symbol), Has(program_.scalars, kind.scalar));
          } else if constexpr (std::is_same_v<Kind, TensorMapArgument>) {
            Walk(kind.operand, kind.access != Access::kRead);
            Walk(kind.dims);
            Walk(kind.strides);
            EXPECT_EQ(kind.box.size(), kind.dims.size());
            EXPECT_EQ(kind.element_strides.size(), kind.dims.size());
          } else if constexpr (std::is_same_v<Kind, StructArgument>) {
            for (const Argument& member : kind.members)
              Walk(member, kernel);
          }
        },
        argument);
  }

  void Walk(const KernelStep& step) {
    ASSERT_TRUE(Has(manifest_.kernels, step.kernel));
    const Kernel& kernel = manifest_.kernels[static_cast<size_t>(step.kernel)];
    ASSERT_EQ(step.args.size(), kernel.parameter_bytes.size());
    values_.resize(program_.names().size() + kernel.value_names.size(), 3);
    for (const Amount& extent : step.grid)
      Walk(extent);
    for (size_t i = 0; i < step.args.size(); ++i) {
      EXPECT_EQ(LayoutOf(step.args[i]).bytes, kernel.parameter_bytes[i]);
      Walk(step.args[i], kernel);
    }
    values_.resize(program_.names().size());
  }
  void Walk(const MemsetStep& step) const {
    Walk(step.to, true);
    EXPECT_TRUE(step.width == 1 || step.width == 2 || step.width == 4);
    Walk(step.count);
  }
  void Walk(const MemcpyStep& step) const {
    Walk(step.to, true);
    Walk(step.from, false);
    Walk(step.bytes);
  }
  void Walk(const CallStep& step) const {
    for (const View& view : step.inputs)
      Walk(view.operand, false);
    for (const View& view : step.outputs)
      Walk(view.operand, true);
  }
  void Walk(const ChildStep& step) const {
    ASSERT_TRUE(Has(manifest_.programs, step.program));
    const Program& child = manifest_.programs[static_cast<size_t>(step.program)];
    EXPECT_EQ(step.symbols.size(), child.symbols.size());
    EXPECT_EQ(step.inputs.size(), child.inputs.size());
    EXPECT_EQ(step.outputs.size(), child.outputs.size());
    Walk(step.symbols);
    for (const Operand& operand : step.inputs)
      Walk(operand, false);
    for (const Operand& operand : step.outputs)
      Walk(operand, true);
  }

  const Manifest& manifest_;
  const Program& program_;
  std::vector<int64_t> values_;
};

}  // namespace

void WalkModel(const Manifest& manifest) {
  ExpectSorted(manifest.files);
  ExpectSorted(manifest.modules);
  ExpectSorted(manifest.kernels);
  ExpectSorted(manifest.constants);
  ExpectSorted(manifest.programs);
  ASSERT_TRUE(Has(manifest.programs, manifest.entry));
  for (const Module& module : manifest.modules)
    EXPECT_TRUE(Has(manifest.files, module.file));
  for (const Kernel& kernel : manifest.kernels) {
    EXPECT_FALSE(kernel.targets.empty());
    for (const Target& target : kernel.targets) {
      EXPECT_TRUE(Has(manifest.modules, target.module));
      EXPECT_EQ(target.values.size(), kernel.value_names.size());
    }
  }
  for (const Constant& constant : manifest.constants) {
    EXPECT_EQ(constant.strides.size(), constant.shape.size());
    EXPECT_TRUE(constant.file == -1 || Has(manifest.files, constant.file));
  }
  for (const Program& program : manifest.programs)
    ProgramWalk(manifest, program).Run();
}

}  // namespace coppice::package
