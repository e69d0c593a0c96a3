// Checks of a call against its program, and its extents.

#include "graphs/call/call_shape.h"

#include <algorithm>
#include <optional>
#include <string>

#include "coppice/base/status.h"

#include "graphs/call/holder.h"
#include "graphs/lane/stream_order.h"

namespace coppice::internal {
namespace {

// `seen` are the extents that this input and those before it have.
absl::Status WrongInput(const Program& program,
                        size_t copy,
                        const Tensor& tensor,
                        const ExtentArray& extents,
                        uint32_t seen) {
  const InputSpec& spec = program.copied_input(copy);
  std::string wants;
  for (const Dim& dim : program.CallersDims(copy)) {
    wants += fmt::format(" {}", NameOf(program.spec, dim));
    if (const int extent = ExtentOf(dim); extent >= 0 && (seen >> extent & 1) != 0)
      wants += fmt::format(" ({})", extents[static_cast<size_t>(extent)]);
  }
  std::string got;
  for (int axis = 0; axis < std::min<int>(tensor.rank, kRankMax); ++axis) {
    got += fmt::format(" {}", tensor.sizes[static_cast<size_t>(axis)]);
  }
  if (tensor.rank < 0 || tensor.rank > kRankMax)
    got = fmt::format(" rank {} (at most {})", tensor.rank, kRankMax);
  return InvalidArgument(
      "Session::Run: input '{}' of program '{}' is {} [{} ]{}, but the spec says {} [{} ]; all "
      "axes of one symbol or expression must have the same size",
      spec.name, program.spec.name, NameOf(tensor.dtype), got,
      tensor.data == 0 ? " at address 0" : "", NameOf(spec.dtype), wants);
}

// Whether an input of these sizes lies where one can: at a multiple of its element, with strides
// that stay within the addresses there are, and wholly inside the session's windows, which sets
// `in_pool`, or outside.
[[gnu::noinline]] absl::Status CheckSpan(const Program& program,
                                         size_t copy,
                                         const Tensor& tensor,
                                         const WindowMap& windows,
                                         bool& in_pool) {
  const char* wrong = "";
  const std::optional<ByteSpan> span = SpanOf(tensor);
  if ((tensor.data & program.layout.copy_shapes[copy].misalignment) != 0) {
    wrong = "is not aligned to its element size";
  } else if (!span.has_value()) {
    wrong = "has strides that reach beyond the address space";
  } else if (!windows.Meets(span->low, span->bytes())) {
    return absl::OkStatus();
  } else if (windows.Contains(span->low) && windows.Contains(span->high - 1)) {
    in_pool = true;
    return absl::OkStatus();
  } else {
    wrong = "lies partly in the session's memory";
  }
  return InvalidArgument(
      "Session::Run: input '{}' of program '{}', {} at {:#x}, {}; pass an aligned tensor that lies "
      "in one allocation",
      program.copied_input(copy).name, program.spec.name, NameOf(tensor.dtype), tensor.data, wrong);
}

// Reads the extents that axes have; every axis that names one must agree with the first.
// NOLINTNEXTLINE(readability-function-size): one loop of the replay path, which makes no call of
// it.
absl::Status ReadExtents(const Call& call, const WindowMap& windows, CallShape& shape) {
  const Program& program = *call.program;
  static_assert(kSymbolsMax + kExtentsMax <= 32);
  uint32_t seen = 0;  // Those that an axis had.
  // Once: the compiler cannot know that no extent is a part of these.
  const std::span<const Tensor> inputs = call.inputs;
  const CopyShape* const shapes = program.layout.copy_shapes.data();
  const AddressSpan in_lanes = windows.lanes();
  for (size_t copy = 0; copy < inputs.size(); ++copy) {
    const Tensor& tensor = inputs[copy];
    const CopyShape& wanted = shapes[copy];
    if (tensor.dtype != wanted.dtype || tensor.rank != wanted.rank) [[unlikely]]
      return WrongInput(program, copy, tensor, shape.real, seen);
    uint64_t strides = 0;  // Any bit that one of them has.
    int64_t wrong = 0;     // Not 0 if a size is not what it must be.
    bool empty = false;
    for (size_t axis = 0; axis < static_cast<size_t>(wanted.rank); ++axis) {
      const CopyShape::Axis& wanted_axis = wanted.axes[axis];
      const int64_t size = tensor.sizes[axis];
      strides |= static_cast<uint64_t>(tensor.strides[axis]);
      int64_t expected = wanted_axis.size;
      if (wanted_axis.extent >= 0) {
        int64_t& extent = shape.real[static_cast<size_t>(wanted_axis.extent)];
        const uint32_t bit = uint32_t{1} << wanted_axis.extent;
        if ((seen & bit) == 0) {
          extent = size;
          wrong |= size >> 63;
        }
        seen |= bit;
        expected = extent;
      }
      wrong |= size ^ expected;
      empty |= size == 0;
    }
    if (wrong != 0 || (tensor.data == 0 && !empty)) [[unlikely]]
      return WrongInput(program, copy, tensor, shape.real, seen);
    // What begins elsewhere and takes short steps forwards is in memory of its own, or in none;
    // CheckAddresses looks closer.
    constexpr int kFar = 28;
    if ((strides >> kFar | (tensor.data & wanted.misalignment)) != 0 ||
        in_lanes.Meets(tensor.data, 1)) [[unlikely]]
      COPPICE_RETURN_IF_ERROR(CheckSpan(program, copy, tensor, windows, shape.in_pool));
  }
  return absl::OkStatus();
}

absl::Status CheckTargets(const Call& call) {
  if (call.output_mode == OutputMode::kBorrow) [[likely]]
    return absl::OkStatus();
  if (static_cast<int>(call.output_mode) >= kOutputModeCount) {
    return InvalidArgument(
        "Session::Run: program '{}' is called with output mode {}, which does not exist",
        call.program->spec.name, static_cast<int>(call.output_mode));
  }
  if (call.output_mode != OutputMode::kWriteInto) return absl::OkStatus();
  if (call.targets.size() == call.program->spec.outputs.size()) return absl::OkStatus();
  return InvalidArgument(
      "Session::Run: the number of targets for program '{}' must be {} (one per output), not {}",
      call.program->spec.name, call.program->spec.outputs.size(), call.targets.size());
}

[[gnu::noinline]] absl::Status NotRegistered(const Program* program, const Catalogue& catalogue) {
  if (program != nullptr && program->place.owner == &catalogue)
    return Unregistered("Session::Run", *program);
  return InvalidArgument(
      "Session::Run: the program is null or was registered with another session");
}

// Checks what the counts of a call are, not where they lie.
[[gnu::noinline]] absl::Status CheckCounts(const Call& call) {
  const Program& program = *call.program;
  const size_t counted = program.layout.counted.size();
  if (call.counts.size() != counted)
    return InvalidArgument(
        "Session::Run: the number of counts for program '{}' must be 0{}, not {}",
        program.spec.name, counted == 0 ? "" : fmt::format(" or {}", counted), call.counts.size());
  for (size_t i = 0; i < call.counts.size(); ++i) {
    const Tensor& count = call.counts[i];
    if (count.data == 0) continue;
    const auto first = count.sizes.begin();
    const bool right =
        Count::Takes(count.dtype) && count.rank >= 0 && count.rank <= kRankMax &&
        std::all_of(first, first + count.rank, [](int64_t size) { return size == 1; }) &&
        (count.data & static_cast<DeviceAddress>(SizeOf(count.dtype) - 1)) == 0;
    if (right) continue;
    return InvalidArgument(
        "Session::Run: {} of program '{}', {} at {:#x}, must be a single i32 or i64, aligned to "
        "its size",
        NameOfCount(program, i), program.spec.name, NameOf(count.dtype), count.data);
  }
  return absl::OkStatus();
}

// Checks everything about a call but its inputs.
absl::Status CheckCall(const Call& call, const Catalogue& catalogue, int lanes) {
  if (call.program == nullptr || call.program->registered_with() != &catalogue)
    return NotRegistered(call.program, catalogue);
  const Program& program = *call.program;
  const char* name = program.spec.name.c_str();
  if (call.lane < 0 || call.lane >= lanes) {
    return InvalidArgument(
        "Session::Run: lane {} does not exist: the number of lanes is {}, and the first is lane 0 "
        "(program '{}')",
        call.lane, lanes, name);
  }
  if (call.binding == nullptr ? program.binds() : call.binding->program != &program) {
    return InvalidArgument("Session::Run: program '{}' needs a binding that Bind created for it",
                           name);
  }
  if (call.inputs.size() != program.layout.copies.size()) {
    return InvalidArgument(
        "Session::Run: the number of copied inputs of program '{}' must be {}, not {}", name,
        program.layout.copies.size(), call.inputs.size());
  }
  if (call.scalars.size() != program.spec.scalars.size() ||
      call.extents.size() != static_cast<size_t>(program.layout.given_count)) {
    return InvalidArgument(
        "Session::Run: the numbers of scalars and given extents of program '{}' must be {} and {}, "
        "not {} and {}",
        name, program.spec.scalars.size(), program.layout.given_count, call.scalars.size(),
        call.extents.size());
  }
  if (!call.counts.empty()) [[unlikely]]
    COPPICE_RETURN_IF_ERROR(CheckCounts(call));
  if (!NamesAStream(call.stream)) {
    return InvalidArgument(
        "Session::Run: program '{}' is called on stream {}; pass a stream of your own, or 1 for "
        "the legacy stream",
        name, reinterpret_cast<uintptr_t>(call.stream));
  }
  return CheckTargets(call);
}

// Sets the padded extents of the two symbols of a joint policy.
absl::Status PadJointly(const Program& program, const JointSpec& joint, CallShape& shape) {
  const JointSize size = joint.SizeIn(shape.real);
  const std::optional<JointSize> bucket = joint.policy.Find(size.a, size.b);
  shape.padded[static_cast<size_t>(joint.a)] = bucket.value_or(size).a;
  shape.padded[static_cast<size_t>(joint.b)] = bucket.value_or(size).b;
  if (bucket.has_value()) [[likely]]
    return absl::OkStatus();
  shape.unbucketed = true;
  const SymbolSpec& a = program.spec.symbols[static_cast<size_t>(joint.a)];
  const SymbolSpec& b = program.spec.symbols[static_cast<size_t>(joint.b)];
  const bool refuses =
      a.over_maximum == OverMaximum::kError || b.over_maximum == OverMaximum::kError;
  if (!refuses || joint.policy.WhyNone(size.a, size.b) != NoBucket::kBeyondMaximum)
    return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kOutOfRange,
      "Session::Run: {} (program '{}'); split the call or give the policy larger buckets",
      DescribeNoBucket(program.spec, joint, size), program.spec.name);
}

}  // namespace

absl::Status ReadCall(const Call& call,
                      const Catalogue& catalogue,
                      int lanes,
                      const WindowMap& windows,
                      CallShape& shape) {
  COPPICE_RETURN_IF_ERROR(CheckCall(call, catalogue, lanes));
  COPPICE_RETURN_IF_ERROR(ReadExtents(call, windows, shape));
  shape.in_pool |= !call.donated.empty();
  if (!call.program->layout.axes_say_all) [[unlikely]]
    return ReadOtherExtents(call, shape);
  return absl::OkStatus();
}

absl::Status PadCall(const Call& call, Observe observe, CallShape& shape) {
  const Program& program = *call.program;
  for (size_t i = 0; i < program.spec.symbols.size(); ++i) {
    if (program.IsJoint(i)) continue;
    const SymbolSpec& symbol = program.spec.symbols[i];
    const PaddingPolicy& policy = program.policy(i);
    const int64_t extent = shape.real[i];
    const std::optional<int64_t> bucket = policy.Find(extent);
    shape.padded[i] = bucket.has_value() && program.Pads(i, extent, observe) ? *bucket : extent;
    if (bucket.has_value()) continue;
    const bool beyond = extent > policy.maximum();
    // Only what pads is guarded against too much of it.
    if (!beyond && !program.Pads(i, extent, observe)) continue;
    shape.unbucketed = true;
    if (beyond && symbol.over_maximum == OverMaximum::kError) {
      return MakeError(absl::StatusCode::kOutOfRange,
                       "Session::Run: {} = {} in a call of program '{}' is over the largest "
                       "bucket, {}; split the call or give the policy larger buckets",
                       symbol.name, extent, program.spec.name, policy.maximum());
    }
  }
  for (const JointSpec& joint : program.spec.joint)
    COPPICE_RETURN_IF_ERROR(PadJointly(program, joint, shape));
  if (shape.unbucketed || !program.extents.empty())
    COPPICE_RETURN_IF_ERROR(PadExpressions(call, shape));
  return program.layout.symbolic_strides ? CheckStrides(program, shape, "Session::Run")
                                         : absl::OkStatus();
}

void SetBucketKey(const Call& call, const CallShape& shape, BucketKey& key) {
  const size_t symbols = call.program->spec.symbols.size();
  size_t count = 0;
  for (; count < symbols; ++count)
    key.words[count] = shape.padded[count];
  if (call.program->layout.scalars_in_key) [[likely]] {
    std::copy(call.scalars.begin(), call.scalars.end(), &key.words[count]);
    count += call.scalars.size();
  } else {
    for (const int scalar : call.program->layout.key_scalars)
      key.words[count++] = call.scalars[static_cast<size_t>(scalar)];
  }
  key.word_count = static_cast<int>(count);
}

}  // namespace coppice::internal
