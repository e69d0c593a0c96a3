// A walk through the steps.

#include "graphs/package/package_source.h"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "coppice/base/status.h"
#include "coppice/base/units.h"
#include "coppice/runtime/access_bounds.h"
#include "coppice/runtime/package_uses.h"

#include "graphs/package/argument_packer.h"
#include "graphs/package/child_check.h"

namespace coppice::internal {

using package::Role;

// One run of the program, and of the programs inside it.
class PackageSource::Walk {
 public:
  Walk(const PackageSource& source,
       const VariantChoice& choice,
       CallContext& context,
       StepSink& sink)
      : source_(source), choice_(choice), context_(context), sink_(sink) {}

  // Runs all of the entry program.
  absl::Status RunEntry();

 private:
  // Runs the steps of a frame whose inputs and outputs have their places, or get them as outputs of
  // the call if `entry`.
  absl::Status RunSteps(Frame& frame, int program, bool entry);
  absl::Status Begin(Frame& frame, std::span<const int> buffers, bool entry);
  absl::Status End(Frame& frame, std::span<const int> buffers, bool entry);
  absl::Status PlaceOutput(Frame& frame, int buffer);
  absl::Status DrawSeeds(Frame& frame);
  absl::Status RunStep(Frame& frame, const package::Step& step);
  bool IsAliased(const package::Program& program, int buffer) const;

  absl::Status Run(Frame& frame, const package::KernelStep& step);
  absl::Status Run(Frame& frame, const package::MemsetStep& step);
  absl::Status Run(Frame& frame, const package::MemcpyStep& step);
  absl::Status Run(Frame& frame, const package::CallStep& step);
  absl::Status Multiply(std::span<const Tensor> inputs,
                        std::span<const Tensor> outputs,
                        const FunctionOptions& options,
                        std::vector<Touch>& touched);
  absl::Status Run(Frame& frame, const package::ChildStep& step);
  absl::Status LaunchOn(const Frame& frame,
                        const package::KernelStep& step,
                        const package::LoadedKernel& variant,
                        const Dim3& grid);

  const PackageSource& source_;
  const VariantChoice& choice_;
  CallContext& context_;
  StepSink& sink_;

  int step_ = -1;  // That is under way, of the innermost program.

  // Of the launch at hand; here so that hundreds of launches share their memory.
  std::vector<int64_t> values_;
  std::vector<Touch> scratch_;
  std::vector<Touch> touched_;
  std::vector<ArgumentBytes> bounds_;
  std::vector<std::byte> bytes_;  // Of all arguments.
  std::vector<size_t> offsets_;   // Of each of them.
  std::vector<void*> pointers_;
};

bool PackageSource::Walk::IsAliased(const package::Program& program, int buffer) const {
  return std::ranges::any_of(program.outputs, [&](int output) {
    const std::optional<package::Alias>& alias = program.buffers[static_cast<size_t>(output)].alias;
    return alias && alias->buffer == buffer;
  });
}

absl::Status PackageSource::Walk::RunEntry() {
  const package::Program& program =
      source_.manifest().programs[static_cast<size_t>(source_.program_)];
  std::vector<int64_t> values;
  for (int i = 0; i < static_cast<int>(program.symbols.size()); ++i)
    values.push_back(context_.extent(i));
  for (int i = 0; i < static_cast<int>(program.scalars.size()); ++i)
    values.push_back(context_.scalar(i));
  Frame frame(program, std::move(values));
  for (int i = 0; i < static_cast<int>(program.inputs.size()); ++i) {
    const Tensor& input = context_.input(i);
    frame.Put(program.inputs[static_cast<size_t>(i)],
              {.address = input.data, .bytes = input.span() * SizeOf(input.dtype)});
  }
  COPPICE_RETURN_IF_ERROR(RunSteps(frame, source_.program_, /*entry=*/true));
  for (int i = 0; i < static_cast<int>(program.outputs.size()); ++i) {
    const int buffer = program.outputs[static_cast<size_t>(i)];
    const std::optional<package::Alias>& alias = program.buffers[static_cast<size_t>(buffer)].alias;
    if (!alias) continue;
    const absl::StatusOr<DeviceAddress> address = frame.AddressOfAlias(buffer);
    const absl::Status put = address.ok() ? context_.AliasOutput(i, *address) : address.status();
    if (!put.ok())
      return WithFailureOf(
          put, MakeError(put.code(), "{}: /programs/{}/buffers/{}/alias: {}",
                         source_.package_.package().path(), program.name,
                         program.buffers[static_cast<size_t>(buffer)].name, MessageOf(put)));
  }
  return absl::OkStatus();
}

absl::Status PackageSource::Walk::RunSteps(Frame& frame, int program, bool entry) {
  const std::vector<package::Buffer>& buffers = frame.program().buffers;
  for (int i = 0; i < static_cast<int>(buffers.size()); ++i) {
    if (buffers[static_cast<size_t>(i)].role != Role::kConstant) continue;
    const Tensor& constant =
        source_.constants_[static_cast<size_t>(buffers[static_cast<size_t>(i)].constant)];
    frame.Put(i, {.address = constant.data,
                  .bytes = constant.span() * SizeOf(constant.dtype),
                  .shared = false});
  }
  const StepSchedule& schedule = source_.schedules_[static_cast<size_t>(program)];
  if (entry) {
    // Those that no step names are there all the same.
    for (const int output : frame.program().outputs) {
      if (!schedule.named[static_cast<size_t>(output)] &&
          !buffers[static_cast<size_t>(output)].alias)
        COPPICE_RETURN_IF_ERROR(PlaceOutput(frame, output));
    }
    COPPICE_RETURN_IF_ERROR(DrawSeeds(frame));
  }
  const std::vector<package::Step>& steps = frame.program().steps;
  for (size_t i = 0; i < steps.size(); ++i) {
    absl::Status ran = Begin(frame, schedule.begins[i], entry);
    step_ = static_cast<int>(i);
    if (ran.ok()) ran = RunStep(frame, steps[i]);
    if (!ran.ok()) {
      return WithFailureOf(ran, MakeError(ran.code(), "{}: /programs/{}/steps/{}: {}",
                                          source_.package_.package().path(), frame.program().name,
                                          i, MessageOf(ran)));
    }
    COPPICE_RETURN_IF_ERROR(End(frame, schedule.ends[i], entry));
  }
  return absl::OkStatus();
}

absl::Status PackageSource::Walk::PlaceOutput(Frame& frame, int buffer) {
  const std::vector<int>& outputs = frame.program().outputs;
  const auto index = static_cast<int>(std::ranges::find(outputs, buffer) - outputs.begin());
  COPPICE_ASSIGN_OR_RETURN(const Tensor tensor, context_.AllocateOutput(index));
  frame.Put(buffer, {.address = tensor.data, .bytes = tensor.span() * SizeOf(tensor.dtype)});
  return absl::OkStatus();
}

// What a step is the first to name gets its bytes.
absl::Status PackageSource::Walk::Begin(Frame& frame, std::span<const int> buffers, bool entry) {
  for (const int i : buffers) {
    const package::Buffer& buffer = frame.program().buffers[static_cast<size_t>(i)];
    if (buffer.role == Role::kOutput && entry && !buffer.alias) {
      COPPICE_RETURN_IF_ERROR(PlaceOutput(frame, i));
    } else if (buffer.role == Role::kTemporary) {
      COPPICE_ASSIGN_OR_RETURN(const int64_t bytes, frame.BytesOf(buffer));
      COPPICE_ASSIGN_OR_RETURN(const DeviceAddress address,
                               context_.Allocate(std::max<int64_t>(bytes, 1), buffer.name));
      frame.Put(i, {.address = address, .bytes = bytes});
    }
  }
  return absl::OkStatus();
}

// What it is the last to name gives them back. An input that is copied back or put out is read once
// more.
absl::Status PackageSource::Walk::End(Frame& frame, std::span<const int> buffers, bool entry) {
  for (const int i : buffers) {
    const package::Buffer& buffer = frame.program().buffers[static_cast<size_t>(i)];
    const bool read_no_more = buffer.role == Role::kInput && entry && !buffer.is_static &&
                              !buffer.mutated && !IsAliased(frame.program(), i);
    if (buffer.role == Role::kTemporary || read_no_more || buffer.role == Role::kSeed)
      COPPICE_RETURN_IF_ERROR(context_.Free(frame.place(i).address));
  }
  return absl::OkStatus();
}

absl::Status PackageSource::Walk::DrawSeeds(Frame& frame) {
  int64_t drawn = 0;
  for (int i = 0; i < static_cast<int>(frame.program().buffers.size()); ++i) {
    const package::Buffer& buffer = frame.program().buffers[static_cast<size_t>(i)];
    const StepSchedule& schedule = source_.schedules_[static_cast<size_t>(source_.program_)];
    if (buffer.role != Role::kSeed || !schedule.named[static_cast<size_t>(i)]) continue;
    const int64_t words = buffer.shape[0].value;
    const int64_t bytes = words * static_cast<int64_t>(sizeof(int64_t));
    COPPICE_ASSIGN_OR_RETURN(const DeviceAddress address, context_.Allocate(bytes, buffer.name));
    frame.Put(i, {.address = address, .bytes = bytes});
    const Touch touched[] = {{.begin = address, .bytes = bytes, .writes = true}};
    COPPICE_RETURN_IF_ERROR(source_.kernels_.DrawSeeds(
        sink_,
        {.words = reinterpret_cast<int64_t*>(address),  // NOLINT(performance-no-int-to-ptr)
         .state = reinterpret_cast<const int64_t*>(     // NOLINT(performance-no-int-to-ptr)
             context_.parameters() +
             static_cast<DeviceAddress>(source_.random_word_) * sizeof(int64_t)),
         .first = drawn,
         .count = words},
        touched));
    drawn += words;
  }
  return absl::OkStatus();
}

absl::Status PackageSource::Walk::RunStep(Frame& frame, const package::Step& step) {
  if (step.condition) {
    const Computed condition = step.condition->Evaluate(frame.values());
    if (!condition.ok())
      return InvalidArgument("if '{}' has no value: {}", step.condition->text(),
                             NameOf(condition.fault));
    if (condition.value == 0) return absl::OkStatus();
  }
  return std::visit([&](const auto& action) { return Run(frame, action); }, step.action);
}

absl::Status PackageSource::Walk::Run(Frame& frame, const package::KernelStep& step) {
  const int choosing = source_.variants_.choice_of_kernel[static_cast<size_t>(step.kernel)];
  const int chosen = choosing < 0 ? 0 : choice_[static_cast<size_t>(choosing)];
  const package::LoadedKernel& variant =
      source_.package_.kernel(step.kernel)[static_cast<size_t>(chosen)];
  const package::Kernel& kernel = source_.manifest().kernels[static_cast<size_t>(step.kernel)];
  const package::Target& target = kernel.targets[static_cast<size_t>(variant.fit.target)];
  values_.assign(frame.values().begin(), frame.values().end());
  values_.insert(values_.end(), target.values.begin(), target.values.end());
  std::array<unsigned, 3> grid{};
  int64_t blocks = 1;
  for (size_t axis = 0; axis < grid.size(); ++axis) {
    COPPICE_ASSIGN_OR_RETURN(const int64_t size, Frame::SizeAt(step.grid[axis], values_, "grid"));
    if (size > INT32_MAX || __builtin_mul_overflow(blocks, size, &blocks))
      return InvalidArgument("kernel '{}': its grid of {} blocks along axis {} is too large",
                             kernel.name, size, axis);
    grid[axis] = static_cast<unsigned>(size);
  }
  if (blocks == 0) return absl::OkStatus();
  scratch_.clear();
  for (const package::Scratch& each : target.scratch) {
    int64_t bytes = 0;
    if (__builtin_mul_overflow(blocks, each.bytes_per_block, &bytes))
      return InvalidArgument("kernel '{}': its scratch is larger than the memory of any device",
                             kernel.name);
    COPPICE_ASSIGN_OR_RETURN(const DeviceAddress address,
                             bytes == 0 ? absl::StatusOr<DeviceAddress>(0)
                                        : context_.Allocate(bytes, "scratch of " + kernel.name));
    scratch_.push_back({.begin = address, .bytes = bytes, .writes = true});
  }
  if (!sink_.drops())
    COPPICE_RETURN_IF_ERROR(LaunchOn(frame, step, variant, {grid[0], grid[1], grid[2]}));
  for (const Touch& each : scratch_)
    if (each.bytes > 0) COPPICE_RETURN_IF_ERROR(context_.Free(each.begin));
  return absl::OkStatus();
}

absl::Status PackageSource::Walk::LaunchOn(const Frame& frame,
                                           const package::KernelStep& step,
                                           const package::LoadedKernel& variant,
                                           const Dim3& grid) {
  constexpr int64_t kSlotAlignment = 16;
  const package::Kernel& kernel = source_.manifest().kernels[static_cast<size_t>(step.kernel)];
  const package::Target& target = kernel.targets[static_cast<size_t>(variant.fit.target)];
  touched_ = scratch_;
  bounds_.clear();
  const ArgumentPlaces places{.parameters = context_.parameters(),
                              .symbol_words = source_.symbol_words_,
                              .scalar_words = source_.scalar_words_,
                              .scratch = scratch_};
  const ArgumentPacker packer(context_.driver(), frame, values_, places, touched_, bounds_);
  bytes_.clear();
  offsets_.clear();
  for (size_t i = 0; i < step.args.size(); ++i) {
    bytes_.resize(
        static_cast<size_t>(AlignUp(static_cast<int64_t>(bytes_.size()), kSlotAlignment)));
    offsets_.push_back(bytes_.size());
    const absl::Status packed = packer.Pack(static_cast<int>(i), step.args[i], bytes_);
    if (!packed.ok())
      return WithFailureOf(packed, MakeError(packed.code(), "argument {} of kernel '{}': {}", i,
                                             kernel.name, MessageOf(packed)));
  }
  pointers_.clear();
  for (const size_t offset : offsets_)
    pointers_.push_back(bytes_.data() + offset);
  const auto dim = [](const std::array<uint32_t, 3>& size) {
    return Dim3{size[0], size[1], size[2]};
  };
  const AccessBounds held(bounds_, {.program = frame.program().name, .step = step_});
  return sink_.Launch(
      {.kernel = variant.kernel,
       .shape = {.grid = grid,
                 .block = dim(target.block),
                 .shared_bytes = target.shared_bytes,
                 .cooperative = target.cooperative,
                 .programmatic = target.programmatic,
                 .cluster = dim(target.cluster)},
       .arguments = pointers_,
       .bytes = bytes_,
       .choice = source_.variants_.choice_of_kernel[static_cast<size_t>(step.kernel)]},
      touched_);
}

absl::Status PackageSource::Walk::Run(Frame& frame, const package::MemsetStep& step) {
  MemoryFill fill{.value = step.value, .width = step.width};
  COPPICE_ASSIGN_OR_RETURN(fill.count, Frame::SizeAt(step.count, frame.values(), "count"));
  COPPICE_ASSIGN_OR_RETURN(fill.target, frame.AddressOf(step.to, frame.values()));
  int64_t bytes = 0;
  if (__builtin_mul_overflow(fill.count, int64_t{step.width}, &bytes) ||
      bytes > frame.BytesBehind(step.to, fill.target))
    return InvalidArgument("a memset of {} x {} bytes ends outside of the buffer", fill.count,
                           step.width);
  if (fill.count == 0) return absl::OkStatus();
  const Touch touched[] = {{.begin = fill.target, .bytes = bytes, .writes = true}};
  return source_.launches_moves_ && !sink_.drops() ? source_.kernels_.Fill(sink_, fill, touched)
                                                   : sink_.Fill(fill, touched);
}

absl::Status PackageSource::Walk::Run(Frame& frame, const package::MemcpyStep& step) {
  MemoryCopy copy;
  COPPICE_ASSIGN_OR_RETURN(copy.bytes, Frame::SizeAt(step.bytes, frame.values(), "bytes"));
  COPPICE_ASSIGN_OR_RETURN(copy.target, frame.AddressOf(step.to, frame.values()));
  COPPICE_ASSIGN_OR_RETURN(copy.source, frame.AddressOf(step.from, frame.values()));
  if (copy.bytes > frame.BytesBehind(step.to, copy.target) ||
      copy.bytes > frame.BytesBehind(step.from, copy.source))
    return InvalidArgument("a copy of {} bytes ends outside of a buffer", copy.bytes);
  if (copy.bytes == 0) return absl::OkStatus();
  return source_.Copy(copy, sink_);
}

absl::Status PackageSource::Walk::Run(Frame& frame, const package::CallStep& step) {
  std::vector<Touch> touched;
  const auto tensors_of = [&](const std::vector<package::View>& views,
                              bool writes) -> absl::StatusOr<std::vector<Tensor>> {
    std::vector<Tensor> tensors;
    for (const package::View& view : views) {
      COPPICE_ASSIGN_OR_RETURN(const Tensor tensor, frame.TensorOf(view));
      tensors.push_back(tensor);
      frame.AddTouch(view.operand, writes, touched);
    }
    return tensors;
  };
  COPPICE_ASSIGN_OR_RETURN(const std::vector<Tensor> inputs, tensors_of(step.inputs, false));
  COPPICE_ASSIGN_OR_RETURN(const std::vector<Tensor> outputs, tensors_of(step.outputs, true));
  const auto function = source_.functions_.find(step.function);
  if (function == source_.functions_.end()) return Multiply(inputs, outputs, step.options, touched);
  const auto work = [&](CuStream stream) -> absl::Status {
    return function->second({.driver = context_.driver(),
                             .stream = stream,
                             .inputs = inputs,
                             .outputs = outputs,
                             .options = step.options});
  };
  const auto is_empty = [](const Tensor& tensor) { return tensor.element_count() == 0; };
  return sink_.Work({.run = work,
                     .may_be_nothing = std::ranges::any_of(inputs, is_empty) ||
                                       std::ranges::any_of(outputs, is_empty)},
                    touched);
}

absl::Status PackageSource::Walk::Multiply(std::span<const Tensor> inputs,
                                           std::span<const Tensor> outputs,
                                           const FunctionOptions& options,
                                           std::vector<Touch>& touched) {
  COPPICE_ASSIGN_OR_RETURN(const MatrixProduct product,
                           StepKernels::ProductOf(inputs, outputs, options));
  const MatmulLibrary::Algorithm* const algorithm =
      source_.kernels_.Choose(context_.driver(), product);
  const int64_t bytes = algorithm == nullptr ? 0 : algorithm->workspace_bytes;
  DeviceAddress workspace = 0;
  if (bytes > 0) {
    COPPICE_ASSIGN_OR_RETURN(workspace, context_.Allocate(bytes, "gemm workspace"));
    touched.push_back({.begin = workspace, .bytes = bytes, .writes = true});
  }
  const auto work = [&](CuStream stream) {
    return source_.kernels_.Multiply(context_.driver(), product, algorithm, workspace, stream);
  };
  COPPICE_RETURN_IF_ERROR(sink_.Work(
      {.run = work, .may_be_nothing = product.batch * product.m * product.n == 0}, touched));
  return bytes > 0 ? context_.Free(workspace) : absl::OkStatus();
}

absl::Status PackageSource::Walk::Run(Frame& frame, const package::ChildStep& step) {
  const package::Program& program = source_.manifest().programs[static_cast<size_t>(step.program)];
  std::vector<int64_t> values;
  for (const package::Amount& symbol : step.symbols) {
    COPPICE_ASSIGN_OR_RETURN(const int64_t value, Frame::SizeAt(symbol, frame.values(), "symbol"));
    values.push_back(value);
  }
  COPPICE_RETURN_IF_ERROR(CheckChildSizes(program, values));
  Frame child(program, std::move(values));
  const auto place = [&](const std::vector<int>& buffers,
                         const std::vector<package::Operand>& operands) -> absl::Status {
    for (size_t i = 0; i < buffers.size(); ++i) {
      COPPICE_ASSIGN_OR_RETURN(const DeviceAddress address,
                               frame.AddressOf(operands[i], frame.values()));
      const package::Buffer& buffer = program.buffers[static_cast<size_t>(buffers[i])];
      COPPICE_ASSIGN_OR_RETURN(const int64_t bytes, child.BytesOf(buffer));
      if (bytes > frame.BytesBehind(operands[i], address))
        return InvalidArgument(
            "'{}' of program '{}' needs {} bytes, but the operand of the call has fewer after its "
            "offset",
            buffer.name, program.name, bytes);
      child.Put(
          buffers[i],
          {.address = address, .bytes = bytes, .shared = frame.place(operands[i].buffer).shared});
    }
    return absl::OkStatus();
  };
  COPPICE_RETURN_IF_ERROR(place(program.inputs, step.inputs));
  COPPICE_RETURN_IF_ERROR(place(program.outputs, step.outputs));
  return RunSteps(child, step.program, /*entry=*/false);
}

PackageSource::PackageSource(const package::LoadedPackage& package,
                             int program,
                             const StepKernels& kernels)
    : package_(package), program_(program), kernels_(kernels) {}

absl::StatusOr<std::unique_ptr<const PackageSource>> PackageSource::Create(
    const StepKernels& kernels,
    const package::LoadedPackage& package,
    int program,
    const ProgramSpec& spec,
    std::vector<Tensor> constants,
    std::map<std::string, StepFunction> functions) {
  std::unique_ptr<PackageSource> source(new PackageSource(package, program, kernels));
  source->constants_ = std::move(constants);
  source->functions_ = std::move(functions);
  for (int i = 0; i < static_cast<int>(spec.symbols.size()); ++i)
    source->symbol_words_.push_back(ExtentWord(spec, i));
  for (int i = 0; i < static_cast<int>(spec.scalars.size()); ++i)
    source->scalar_words_.push_back(
        spec.scalars[static_cast<size_t>(i)].device_resident ? ScalarWord(spec, i) : -1);
  if (spec.random_numbers_per_call > 0) source->random_word_ = RandomWord(spec);
  source->launches_moves_ = spec.exact != ExactReplay::kNever;
  source->variants_ = ListVariants(package, program, spec);
  for (const int within : package::ProgramsWithin(package.manifest(), program)) {
    if (within == program) continue;
    COPPICE_RETURN_IF_ERROR(CheckChild(package.package().path(), package.manifest(),
                                       package.manifest().programs[static_cast<size_t>(within)]));
  }
  for (const package::Program& each : package.manifest().programs) {
    source->schedules_.push_back(ScheduleOf(package.manifest(), each));
    for (const package::Step& step : each.steps) {
      const auto* const call = std::get_if<package::CallStep>(&step.action);
      if (call == nullptr || call->function == "gemm" ||
          source->functions_.contains(call->function))
        continue;
      return InvalidArgument(
          "{}: program '{}' calls '{}', which is not defined; give it in the program's functions",
          package.package().path(), each.name, call->function);
    }
  }
  return source;
}

absl::Status PackageSource::Run(CallContext& context, StepSink& sink) const {
  if (variants_.choices->none()) return RunWith({}, context, sink);
  const package::Program& program = manifest().programs[static_cast<size_t>(program_)];
  std::vector<int64_t> extents;
  for (int i = 0; i < static_cast<int>(program.symbols.size()); ++i)
    extents.push_back(context.extent(i));
  std::vector<int64_t> scalars;
  for (int i = 0; i < static_cast<int>(program.scalars.size()); ++i)
    scalars.push_back(context.scalar(i));
  return RunWith(variants_.choices->At(extents, scalars), context, sink);
}

absl::Status PackageSource::RunWith(const VariantChoice& choice,
                                    CallContext& context,
                                    StepSink& sink) const {
  return Walk(*this, choice, context, sink).RunEntry();
}

absl::Status PackageSource::Copy(const MemoryCopy& copy, StepSink& sink) const {
  const Touch touched[] = {{.begin = copy.source, .bytes = copy.bytes},
                           {.begin = copy.target, .bytes = copy.bytes, .writes = true}};
  return launches_moves_ && !sink.drops() ? kernels_.Copy(sink, copy, touched)
                                          : sink.Copy(copy, touched);
}

StepSource::Origin PackageSource::origin() const {
  return {.package = package_.package(),
          .program = manifest().programs[static_cast<size_t>(program_)].name};
}

std::string PackageSource::Identity() const {
  return manifest().sha256 + ":" + manifest().programs[static_cast<size_t>(program_)].name;
}

}  // namespace coppice::internal
