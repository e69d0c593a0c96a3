// Tables of programs, and the two ways to run them.

#include "tests/sim/traffic_programs.h"

#include "coppice/base/check.h"

#include "tests/sim/traffic_kernels.h"
#include "tests/support/test_device.h"

namespace coppice {
namespace {

using enum TrafficBuffer;
using Step = TrafficStep;
using enum TrafficStep::Kind;

constexpr size_t kBuffers = static_cast<size_t>(kTemp2) + 1;

constexpr Step kPlain[] = {{kMix, kOut0, kIn0}};
constexpr Step kTemps[] = {{kMix, kTemp0, kIn0, kStatic}, {kMix, kTemp1, kTemp0, kIn0},
                           {.kind = kFree, .x = kIn0},    {.kind = kFree, .x = kTemp0},
                           {kMix, kTemp2, kTemp1},        {.kind = kFree, .x = kTemp1},
                           {kMix, kOut0, kTemp2, kStatic}};
constexpr Step kTwoOutputs[] = {{kMix, kOut0, kIn0}, {kAlias, kOut1, kIn0}};
constexpr Step kInPlace[] = {{kMix, kIn0, kIn0}, {kMix, kOut0, kIn0}};
constexpr Step kState[] = {{kMix, kOut0, kIn0, kStatic}, {kMix, kStatic, kStatic}};
constexpr Step kForked[] = {{kMix, kTemp0, kIn0},         {.kind = kFork},
                            {kSide, kTemp1, kTemp0},      {kMix, kTemp2, kIn0, kTemp0},
                            {.kind = kFree, .x = kIn0},   {.kind = kJoin},
                            {.kind = kFree, .x = kTemp0}, {kMix, kOut0, kTemp1, kTemp2},
                            {.kind = kFree, .x = kTemp1}};
constexpr Step kBroken[] = {{kMix, kTemp0, kIn0},
                            {kHost, kTemp1, kTemp0},
                            {.kind = kFree, .x = kIn0},
                            {kMix, kOut0, kTemp1, kTemp0},
                            {.kind = kFree, .x = kTemp0}};
constexpr Step kJoined[] = {{kMix, kOut0, kIn0, kIn1}};
constexpr Step kBound[] = {{kMix, kOut1, kStatic}, {kMix, kOut0, kIn0, kOut1}};
constexpr Step kShared[] = {{kMix, kTemp0, kIn0, kStatic},
                            {kMix, kOut0, kTemp0, kIn0},
                            {kAlias, kOut1, kOut0},
                            {.kind = kFree, .x = kIn0},
                            {.kind = kFree, .x = kTemp0}};

// Of an input and an output whose lengths are computed.
constexpr Step kComputed[] = {{kMix, kTemp0, kIn0, kIn1},
                              {kMix, kOut0, kTemp0, kIn0},
                              {.kind = kFree, .x = kTemp0},
                              {kMix, kOut1, kIn1}};
constexpr Step kPart[] = {{kMix, kOut0, kIn0}, {kMix, kOut1, kOut0}};

// Each element of what is mixed depends on all of the row.
constexpr Step kSums[] = {{kSum, kTemp0, kIn0}, {kMix, kOut0, kIn0, kTemp0}};
constexpr Step kMaxima[] = {{kMaximum, kTemp0, kIn0}, {kMix, kOut0, kIn0, kTemp0}};
constexpr Step kTurns[] = {{kChanges, kTemp0, kIn0}, {kMix, kOut0, kIn0, kTemp0}};
constexpr Step kFilter[] = {{kMix, kOut0, kIn0}, {.kind = kCount, .z = kOut1, .x = kIn0}};
constexpr Step kShares[] = {{kSoftmax, kTemp0, kIn0},
                            {kMix, kTemp1, kTemp0, kIn0},
                            {.kind = kFree, .x = kTemp0},
                            {kMix, kOut0, kTemp1, kIn0}};

using Scalar = TrafficProgram::Scalar;
using Static = TrafficProgram::Static;
using Second = TrafficProgram::Second;
using Length = TrafficProgram::Length;

const TrafficProgram kTrafficPrograms[] = {
    {.name = "rows", .steps = kPlain, .scalar = Scalar::kKey},
    {.name = "masked",
     .claim = PaddingContents::kAny,
     .policy = "linear:16",
     .steps = kPlain,
     .scalar = Scalar::kResident},
    {.name = "temps", .policy = "ramp:4:16", .steps = kTemps, .statics = Static::kRead},
    {.name = "two_outputs", .steps = kTwoOutputs, .outputs = 2, .rank = 5},
    {.name = "in_place", .steps = kInPlace, .scalar = Scalar::kKey, .mutates_input = true},
    {.name = "state", .steps = kState, .scalar = Scalar::kKey, .statics = Static::kMutated},
    {.name = "random", .policy = "linear:16", .steps = kPlain, .random = true},
    {.name = "forked", .steps = kForked, .one_stream = false},
    {.name = "broken", .steps = kBroken, .scalar = Scalar::kKey},
    {.name = "joined", .policy = "4,16,64", .max_ratio = 2, .steps = kJoined, .inputs = 2},
    {.name = "bound",
     .steps = kBound,
     .outputs = 2,
     .scalar = Scalar::kKey,
     .statics = Static::kOutput},
    {.name = "columns",
     .steps = kPlain,
     .rows = 2,
     .rank = 3,
     .scalar = Scalar::kResident,
     .over_maximum = OverMaximum::kError},
    {.name = "gaps",
     .steps = kPlain,
     .rows = 2,
     .rank = 8,
     .row_stride = 2 * kLargestExtent,
     .scalar = Scalar::kKey},
    {.name = "exact",
     .claim = std::nullopt,
     .policy = "exact",
     .steps = kShared,
     .outputs = 2,
     .statics = Static::kRead},
    {.name = "sum", .steps = kSums, .needs_fill = true, .scalar = Scalar::kResident},
    {.name = "maximum",
     .policy = "linear:16",
     .steps = kMaxima,
     .rows = 2,
     .fill = Fill::Value(-std::numeric_limits<double>::infinity()),
     .needs_fill = true},
    {.name = "softmax",
     .policy = "4,16,64",
     .steps = kShares,
     .fill = Fill::Value(-std::numeric_limits<double>::infinity()),
     .needs_fill = true,
     .scalar = Scalar::kKey},
    {.name = "twice",
     .steps = kComputed,
     .inputs = 2,
     .outputs = 2,
     .other = Length::kTwice,
     .output_1 = Length::kTwice},
    {.name = "given",
     .policy = "linear:16",
     .steps = kComputed,
     .inputs = 2,
     .outputs = 2,
     .scalar = Scalar::kKey,
     .second = Second::kGiven,
     .other = Length::kSum,
     .output_1 = Length::kSum},
    {.name = "counted",
     .policy = "ramp:4:16",
     .steps = kComputed,
     .inputs = 2,
     .outputs = 2,
     .scalar = Scalar::kResident,
     .second = Second::kScalar,
     .other = Length::kSum,
     .output_1 = Length::kSum},
    {.name = "rest",
     .steps = kPart,
     .outputs = 2,
     .second = Second::kScalar,
     .output_1 = Length::kRest},
    {.name = "half",
     .policy = "linear:16",
     .steps = kPart,
     .outputs = 2,
     .output_1 = Length::kHalf},
    {.name = "sentinel", .steps = kShares, .fill = Fill::Sentinel(), .needs_fill = true},
    {.name = "repeat",
     .policy = "linear:16",
     .steps = kTurns,
     .rows = 2,
     .fill = Fill::RepeatLast(),
     .needs_fill = true},
    {.name = "undefined", .policy = "4,16,64", .steps = kPlain, .fill = Fill::Undefined()},
    {.name = "filter",
     .claim = PaddingContents::kAny,
     .steps = kFilter,
     .outputs = 2,
     .counts = true},
    {.name = "filter_narrow",
     .policy = "linear:16",
     .steps = kFilter,
     .outputs = 2,
     .scalar = Scalar::kKey,
     .counts = true,
     .count_dtype = DType::kInt32},
    {.name = "sized", .steps = kSums, .needs_fill = true, .counted = true},
    {.name = "sized_rows",
     .policy = "linear:16",
     .steps = kSums,
     .rows = 2,
     .rank = 4,
     .needs_fill = true,
     .scalar = Scalar::kResident,
     .counted = true},
    {.name = "sized_masked", .claim = PaddingContents::kAny, .steps = kPlain, .counted = true},
    {.name = "sized_undefined",
     .steps = kPlain,
     .fill = Fill::Undefined(),
     .scalar = Scalar::kKey,
     .counted = true},
    {.name = "sized_in_place", .steps = kInPlace, .mutates_input = true, .counted = true},
};

std::optional<TrafficReduction> ReductionOf(Step::Kind kind) {
  switch (kind) {
    case kSum:
      return TrafficReduction::kSum;
    case kMaximum:
      return TrafficReduction::kMaximum;
    case kSoftmax:
      return TrafficReduction::kSoftmax;
    case kChanges:
      return TrafficReduction::kChanges;
    default:
      return std::nullopt;
  }
}

// What -inf is, by dtype: a NaN if there are no infinities, the least of integers, true.
constexpr uint64_t kLeast[] = {
    0xFF800000, 0xFC00, 0xFF80,     0xFFF0'0000'0000'0000, 0xFF, 0xFC, 0xFF800000, 1,
    0x80,       0x8000, 0x80000000, 0x8000'0000'0000'0000, 0,    0,    0,          0};

int64_t ElementsOf(const TrafficProgram& program,
                   TrafficBuffer buffer,
                   const TrafficExtents& extents) {
  if (buffer == kOut1 && program.is_count(1)) return 1;
  const bool fixed = buffer == kStatic || (buffer == kOut1 && program.static_output(1));
  const Length length = buffer == kIn1    ? program.other
                        : buffer == kOut1 ? program.output_1
                                          : Length::kN;
  // What lies between rows is computed too, and nobody looks at it.
  return fixed ? kStaticElements : program.Span(LengthOf(length, extents));
}

// The size of a row, as a spec has it.
Dim DimOf(Length length, ProgramSpec& spec) {
  switch (length) {
    case Length::kN:
      break;
    case Length::kTwice:
      return spec.AddExtent("2*n");
    case Length::kSum:
      return spec.AddExtent("n + m");
    case Length::kRest:
      return spec.AddExtent("max(n - m, 0)");
    case Length::kHalf:
      return spec.AddExtent("ceildiv(n, 2)");
  }
  return Dim::Symbol(0);
}

// One run of a callable: where its buffers are so far.
class DeviceRun {
 public:
  DeviceRun(const TrafficProgram& program,
            const ProgramSpec& spec,
            TrafficDevice& device,
            CallContext& context)
      : program_(program), spec_(spec), device_(device), context_(context), n_(context.extent(0)) {
    extents_ = {.n = n_, .m = program.second == Second::kNone ? 0 : context.extent(1)};
    addresses_[Index(kIn0)] = context.input(0).data;
    if (program.inputs > 1) addresses_[Index(kIn1)] = context.input(1).data;
    if (program.binds()) addresses_[Index(kStatic)] = context.input(program.inputs).data;
  }

  absl::Status Run() {
    for (const Step& step : program_.steps) {
      absl::Status status = Do(step);
      // In a capture nothing runs; elsewhere nothing of the fork may outlive the run.
      if (!status.ok() && context_.phase() != Phase::kRecord) (void)device_.side.Synchronize().ok();
      COPPICE_RETURN_IF_ERROR(status);
    }
    return absl::OkStatus();
  }

 private:
  static size_t Index(TrafficBuffer buffer) { return static_cast<size_t>(buffer); }

  absl::Status Do(const Step& step) {
    if (device_.fails_in > 0 && --device_.fails_in == 0) {
      device_.failed = device_.broke = true;
      return absl::InternalError("the program broke down");
    }
    const Driver& driver = context_.driver();
    switch (step.kind) {
      case kMix:
      case kSide: {
        COPPICE_RETURN_IF_ERROR(Provide(step.z));
        return Launch(driver, device_.mix,
                      step.kind == kSide ? device_.side.handle() : context_.stream(),
                      ParamsOf(step), Grid(step.z));
      }
      case kSum:
      case kMaximum:
      case kSoftmax:
      case kChanges: {
        COPPICE_RETURN_IF_ERROR(Provide(step.z));
        return Launch(driver, device_.reduce, context_.stream(), ReduceParamsOf(step),
                      Grid(step.z));
      }
      case kCount: {
        COPPICE_RETURN_IF_ERROR(Provide(step.z));
        return Launch(driver, device_.count, context_.stream(),
                      TrafficCountParams{.x = At(step.x),
                                         .z = At(step.z),
                                         .words = PointerAt<const int64_t>(context_.parameters()),
                                         .live_word = ExtentWord(spec_, 0)},
                      1U);
      }
      case kHost: {
        COPPICE_RETURN_IF_ERROR(Provide(step.z));
        return context_.Break([&driver, mix = device_.mix, params = ParamsOf(step),
                               grid = Grid(step.z)](CuStream stream) {
          return Launch(driver, mix, stream, params, grid);
        });
      }
      case kFork:
        return Order(device_.fork, context_.stream(), device_.side.handle());
      case kJoin:
        return Order(device_.join, device_.side.handle(), context_.stream());
      case kFree:
        return context_.Free(addresses_[Index(step.x)]);
      case kAlias:
        addresses_[Index(step.z)] = addresses_[Index(step.x)];
        return context_.AliasOutput(step.z == kOut0 ? 0 : 1, addresses_[Index(step.x)]);
    }
    return absl::OkStatus();
  }

  // Asks for the memory of what a step is the first to write to.
  absl::Status Provide(TrafficBuffer buffer) {
    DeviceAddress& address = addresses_[Index(buffer)];
    if (address != 0) return absl::OkStatus();
    if (buffer == kOut0 || buffer == kOut1) {
      COPPICE_ASSIGN_OR_RETURN(const Tensor output,
                               context_.AllocateOutput(buffer == kOut0 ? 0 : 1));
      address = output.data;
      return absl::OkStatus();
    }
    const int64_t elements = std::max<int64_t>(ElementsOf(program_, buffer, extents_), 1);
    COPPICE_ASSIGN_OR_RETURN(address,
                             context_.Allocate(elements * SizeOf(program_.DTypeOf(buffer))));
    return absl::OkStatus();
  }

  absl::Status Order(const Event& event, CuStream before, CuStream after) {
    const Driver& driver = context_.driver();
    COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::EventRecord>(event.handle(), before));
    return driver.Call<&DriverTable::StreamWaitEvent>(after, event.handle(), 0U);
  }

  unsigned Grid(TrafficBuffer z) const {
    const int64_t count = ElementsOf(program_, z, extents_);
    return static_cast<unsigned>(
        std::max<int64_t>(1, (count + kTrafficThreads - 1) / kTrafficThreads));
  }

  TrafficMixParams ParamsOf(const Step& step) const {
    TrafficMixParams params{.x = At(step.x),
                            .y = At(step.y),
                            .z = At(step.z),
                            .words = PointerAt<const int64_t>(context_.parameters()),
                            .count = ElementsOf(program_, step.z, extents_)};
    if (step.y != kNone)
      params.y_count = std::max<int64_t>(1, ElementsOf(program_, step.y, extents_));
    if (program_.claim == PaddingContents::kAny) params.live_word = ExtentWord(spec_, 0);
    if (program_.scalar == Scalar::kKey) params.salt = FoldSalt(0, context_.scalar(0));
    if (program_.scalar == Scalar::kResident) {
      params.salt_word = ScalarWord(spec_, 0);
      params.salt_count = 1;
    }
    if (program_.random) {
      params.salt_word = RandomWord(spec_);
      params.salt_count = 2;
    }
    return params;
  }

  TrafficReduceParams ReduceParamsOf(const Step& step) const {
    return {.x = At(step.x),
            .z = At(step.z),
            .count = ElementsOf(program_, step.z, extents_),
            .n = std::max<int64_t>(n_, 1),
            .none = FilledWith(program_.fill, program_.dtype),
            .reduction = *ReductionOf(step.kind)};
  }

  TrafficElements At(TrafficBuffer buffer) const {
    return {PointerAt<uint8_t>(addresses_[Index(buffer)]), SizeOf(program_.DTypeOf(buffer))};
  }

  const TrafficProgram& program_;
  const ProgramSpec& spec_;
  TrafficDevice& device_;
  CallContext& context_;
  const int64_t n_;
  TrafficExtents extents_;
  std::array<DeviceAddress, kBuffers> addresses_{};
};

}  // namespace

std::span<const TrafficProgram> TrafficPrograms() {
  return kTrafficPrograms;
}

uint64_t FilledWith(const Fill& fill, DType dtype) {
  const uint64_t ones = ~uint64_t{0} >> (64 - 8 * SizeOf(dtype));
  if (fill.kind == FillKind::kSentinel) return dtype == DType::kBool ? 1 : ones;
  return fill.kind == FillKind::kValue ? kLeast[static_cast<size_t>(dtype)] : 0;
}

DType TrafficProgram::DTypeOf(TrafficBuffer buffer) const {
  if (counts && buffer == kOut1) return count_dtype;
  if (buffer != kIn1 && buffer != kStatic && buffer != kOut1) return dtype;
  const bool alias = std::ranges::any_of(
      steps, [&](const Step& step) { return step.kind == kAlias && step.z == buffer; });
  return alias ? dtype : other_dtype;
}

int64_t LengthOf(TrafficProgram::Length length, const TrafficExtents& extents) {
  switch (length) {
    case Length::kN:
      break;
    case Length::kTwice:
      return 2 * extents.n;
    case Length::kSum:
      return extents.n + extents.m;
    case Length::kRest:
      return std::max<int64_t>(extents.n - extents.m, 0);
    case Length::kHalf:
      return (extents.n + 1) / 2;
  }
  return extents.n;
}

PaddingPolicy PolicyOf(const TrafficProgram& program) {
  const PaddingPolicy ladder = *PaddingPolicy::Parse(program.policy, kLargestExtent);
  return ladder.is_exact() ? ladder : *ladder.WithGuard({.max_ratio = program.max_ratio});
}

ProgramSpec SpecOf(const TrafficProgram& program, const TrafficSymbol& symbol) {
  ProgramSpec spec{.name = program.name,
                   .claim = program.claim,
                   .one_stream = program.one_stream,
                   // A fork needs events of its own in each run.
                   .thread_safe = program.one_stream,
                   .random_numbers_per_call = program.random ? kRandomNumbersPerCall : 0};
  spec.AddSymbol("n", PolicyOf(program),
                 program.claim == std::nullopt ? SymbolKind::kStatic : symbol.kind);
  spec.symbols[0].over_maximum = program.over_maximum;
  spec.symbols[0].observe_half_life = 100;
  spec.symbols[0].exclude_01 = symbol.exclude_01 && !program.counted;
  spec.symbols[0].counted = program.counted;
  if (program.counted && symbol.kind == SymbolKind::kStatic)
    spec.symbols[0].kind = SymbolKind::kDynamic;
  if (program.scalar != Scalar::kNone)
    spec.scalars = {{.name = "salt", .device_resident = program.scalar == Scalar::kResident}};
  if (program.second != Second::kNone) {
    spec.symbols.push_back(spec.symbols[0]);
    spec.symbols[1].name = "m";
    spec.symbols[1].given = program.second == Second::kGiven;
  }
  if (program.second == Second::kScalar) {
    spec.symbols[1].scalar = static_cast<int>(spec.scalars.size());
    spec.scalars.push_back({.name = "count"});
  }
  const auto dims = [&](Length length) {
    const int own = program.rows > 1 ? 2 : 1;
    Dims made(static_cast<size_t>(std::max(program.rank - own, 0)), Dim::Fixed(1));
    if (program.rows > 1) made.push_back(Dim::Fixed(program.rows));
    made.push_back(DimOf(length, spec));
    return made;
  };
  Dims strides;
  if (program.row_stride > 0) {
    strides.assign(dims(Length::kN).size(), Dim::Fixed(program.row_stride));
    strides.back() = Dim::Fixed(1);
  }
  const Dims fixed = {Dim::Fixed(kStaticElements)};
  for (int i = 0; i < program.inputs; ++i) {
    spec.inputs.push_back({.name = i == 0 ? "x" : "w",
                           .dtype = program.DTypeOfInput(i),
                           .dims = dims(i == 0 ? Length::kN : program.other),
                           .strides = strides,
                           .fill = program.fill,
                           .mutated = program.mutates_input});
  }
  if (program.binds()) {
    spec.inputs.push_back({.name = "bound",
                           .dtype = program.DTypeOf(kStatic),
                           .dims = fixed,
                           .role = InputRole::kStatic,
                           .mutated = program.statics == Static::kMutated});
  }
  for (int i = 0; i < program.outputs; ++i) {
    const bool bound = program.static_output(i);
    const bool own = !program.fixed_output(i);
    spec.outputs.push_back({.name = i == 0 ? "y" : "z",
                            .dtype = program.DTypeOfOutput(i),
                            .dims = own     ? dims(i == 0 ? Length::kN : program.output_1)
                                    : bound ? fixed
                                            : Dims(program.count_rank(), Dim::Fixed(1)),
                            .strides = own ? strides : Dims(),
                            .role = bound ? OutputRole::kStatic : OutputRole::kPool});
  }
  if (program.counts)
    spec.outputs[0].count = {.output = 1,
                             .axis = static_cast<int>(spec.outputs[0].dims.size()) - 1};
  return spec;
}

TrafficDevice::TrafficDevice(const Driver& driver)
    : library(*KernelLibrary::Load(driver, traffic_kernels_image)),
      mix(*library.Get("TrafficMix")),
      reduce(*library.Get("TrafficReduce")),
      count(*library.Get("TrafficCount")),
      side(*Stream::Create(driver)),
      fork(*Event::Create(driver)),
      join(*Event::Create(driver)) {}

Callable CallableOf(const TrafficProgram& program, TrafficDevice& device) {
  return [program, &device, spec = SpecOf(program, {})](CallContext& context) {
    return DeviceRun(program, spec, device, context).Run();
  };
}

std::vector<Bytes> RunModel(const TrafficProgram& program, const ModelCall& call) {
  uint64_t salt = 0;
  if (program.scalar != Scalar::kNone) salt = FoldSalt(salt, call.scalar);
  if (program.random) salt = FoldSalt(FoldSalt(salt, static_cast<int64_t>(call.seed)), call.offset);
  std::array<Bytes, kBuffers> own;
  const auto at = [&](TrafficBuffer buffer) -> Bytes& {
    if (buffer == kIn0) return *call.inputs[0];
    if (buffer == kIn1) return *call.inputs[1];
    if (buffer == kStatic) return *call.bound;
    return own[static_cast<size_t>(buffer)];
  };
  const auto bytes = [&](TrafficBuffer buffer) { return SizeOf(program.DTypeOf(buffer)); };
  const auto count = [&](TrafficBuffer buffer) {
    return static_cast<int64_t>(at(buffer).size()) / bytes(buffer);
  };
  const TrafficExtents extents = {.n = count(kIn0) / program.rows, .m = call.m};
  for (const Step& step : program.steps) {
    if (step.kind == kAlias) at(step.z) = at(step.x);
    if (step.z == kNone || step.kind == kAlias) continue;
    // As long as x, but for an output that is shorter.
    const bool shorter = step.z == kOut1 && !program.static_output(1);
    if (step.kind == kCount) {
      at(step.z).resize(static_cast<size_t>(bytes(step.z)));
      const uint64_t first =
          extents.n == 0 ? 0 : TrafficElements{at(step.x).data(), bytes(step.x)}.At(0);
      TrafficElements{at(step.z).data(), bytes(step.z)}.Set(
          0, static_cast<uint64_t>(CountOf(first, extents.n)));
      continue;
    }
    const int64_t length = shorter ? ElementsOf(program, kOut1, extents) : count(step.x);
    const int64_t n = std::max<int64_t>(count(step.x) / program.rows, 1);
    Bytes result(static_cast<size_t>(length * bytes(step.z)));
    const TrafficElements x{at(step.x).data(), bytes(step.x)};
    const TrafficElements y{step.y == kNone ? nullptr : at(step.y).data(), bytes(step.y)};
    const TrafficElements z{result.data(), bytes(step.z)};
    const int64_t y_count = step.y == kNone ? 0 : count(step.y);
    const std::optional<TrafficReduction> reduction = ReductionOf(step.kind);
    for (int64_t i = 0; i < length; ++i) {
      z.Set(i, reduction ? ReduceRow(*reduction, x.From(i / n * n), n, i % n,
                                     FilledWith(program.fill, program.dtype))
                         : MixWord(x.At(i), y_count == 0 ? 0 : y.At(i % y_count), salt));
    }
    at(step.z) = std::move(result);
  }
  std::vector<Bytes> outputs = {at(kOut0)};
  if (program.outputs > 1) outputs.push_back(at(kOut1));
  return outputs;
}

}  // namespace coppice
