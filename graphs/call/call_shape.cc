// Checks of a call against its program, and its extents.

#include "graphs/call/call_shape.h"

#include <algorithm>
#include <optional>
#include <string>

#include "coppice/base/status.h"

#include "graphs/call/holder.h"

namespace coppice::internal {
namespace {

absl::Status WrongInput(const Program& program, size_t copy, const Tensor& tensor) {
  const InputSpec& spec = program.copied_input(copy);
  std::string wants;
  for (const Dim& dim : spec.dims) {
    wants += dim.symbol >= 0
                 ? fmt::format(" {}", program.spec.symbols[static_cast<size_t>(dim.symbol)].name)
                 : fmt::format(" {}", dim.size);
  }
  std::string got;
  for (int axis = 0; axis < std::min<int>(tensor.rank, kRankMax); ++axis) {
    got += fmt::format(" {}", tensor.sizes[static_cast<size_t>(axis)]);
  }
  if (tensor.rank < 0 || tensor.rank > kRankMax)
    got = fmt::format(" rank {}, of at most {}", tensor.rank, kRankMax);
  return InvalidArgument(
      "Session::Run: input '{}' of program '{}' is {} [{} ]{}, but the spec says {} [{} ] with one "
      "size per symbol",
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
  if (tensor.data % static_cast<DeviceAddress>(SizeOf(tensor.dtype)) != 0) {
    wrong = "is at no multiple of its element's bytes";
  } else if (!span.has_value()) {
    wrong = "has strides that leave the addresses there are";
  } else if (!windows.Meets(span->low, span->bytes())) {
    return absl::OkStatus();
  } else if (windows.Contains(span->low) && windows.Contains(span->high - 1)) {
    in_pool = true;
    return absl::OkStatus();
  } else {
    wrong = "lies in the session's memory in part";
  }
  return InvalidArgument(
      "Session::Run: input '{}' of program '{}', {} at {:#x}, {}; pass "
      "one that lies where its sizes and strides say",
      program.copied_input(copy).name, program.spec.name, NameOf(tensor.dtype), tensor.data, wrong);
}

// Reads the extent of every symbol; every axis that names one must agree with the first.
absl::Status ReadExtents(const Call& call, const WindowMap& windows, CallShape& shape) {
  const Program& program = *call.program;
  static_assert(kSymbolsMax <= 32);
  uint32_t seen = 0;  // Symbols that have their extent.
  for (size_t copy = 0; copy < call.inputs.size(); ++copy) {
    const Tensor& tensor = call.inputs[copy];
    const CopyShape& wanted = program.copy_shapes[copy];
    if (tensor.dtype != wanted.dtype || tensor.rank != wanted.rank) [[unlikely]]
      return WrongInput(program, copy, tensor);
    uint64_t strides = 0;  // Any bit that one of them has.
    int64_t wrong = 0;     // Not 0 if a size is not what it must be.
    bool empty = false;
    for (size_t axis = 0; axis < static_cast<size_t>(wanted.rank); ++axis) {
      const Dim& dim = wanted.dims[axis];
      const int64_t size = tensor.sizes[axis];
      strides |= static_cast<uint64_t>(tensor.strides[axis]);
      int64_t expected = dim.size;
      if (dim.symbol >= 0) {
        int64_t& extent = shape.real[static_cast<size_t>(dim.symbol)];
        const uint32_t bit = uint32_t{1} << dim.symbol;
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
      return WrongInput(program, copy, tensor);
    // What begins elsewhere and takes short steps forwards is in memory of its own, or in none;
    // CheckAddresses looks closer.
    constexpr int kFar = 28;
    if ((strides >> kFar | (tensor.data & wanted.misalignment)) != 0 ||
        windows.Contains(tensor.data)) [[unlikely]]
      COPPICE_RETURN_IF_ERROR(CheckSpan(program, copy, tensor, windows, shape.in_pool));
  }
  return absl::OkStatus();
}

absl::Status CheckTargets(const Call& call) {
  if (call.output_mode == OutputMode::kBorrow) [[likely]]
    return absl::OkStatus();
  if (call.output_mode > OutputMode::kWriteInto) {
    return InvalidArgument("Session::Run: program '{}' with output mode {}, which does not exist",
                           call.program->spec.name, static_cast<int>(call.output_mode));
  }
  if (call.output_mode != OutputMode::kWriteInto) return absl::OkStatus();
  if (call.targets.size() == call.program->spec.outputs.size()) return absl::OkStatus();
  return InvalidArgument("Session::Run: program '{}' has {} outputs, the call {} targets",
                         call.program->spec.name, call.program->spec.outputs.size(),
                         call.targets.size());
}

[[gnu::noinline]] absl::Status NotRegistered(const Program* program, const Catalogue& catalogue) {
  if (program != nullptr && program->place.owner == &catalogue)
    return Unregistered("Session::Run", *program);
  return InvalidArgument(
      "Session::Run: the program is null or was registered with another session");
}

// Checks everything about a call but its inputs.
absl::Status CheckCall(const Call& call, const Catalogue& catalogue, int lanes) {
  if (call.program == nullptr || call.program->registered_with() != &catalogue)
    return NotRegistered(call.program, catalogue);
  const Program& program = *call.program;
  const char* name = program.spec.name.c_str();
  if (call.lane < 0 || call.lane >= lanes) {
    return InvalidArgument("Session::Run: lane {} of {}, program '{}'", call.lane, lanes, name);
  }
  if (call.binding == nullptr ? program.binds() : call.binding->program != &program) {
    return InvalidArgument("Session::Run: program '{}' needs a binding that Bind made for it",
                           name);
  }
  if (call.inputs.size() != program.copies.size()) {
    return InvalidArgument("Session::Run: program '{}' takes {} copied inputs, the call has {}",
                           name, program.copies.size(), call.inputs.size());
  }
  if (call.scalars.size() != program.spec.scalars.size()) {
    return InvalidArgument("Session::Run: program '{}' takes {} scalars, the call has {}", name,
                           program.spec.scalars.size(), call.scalars.size());
  }
  if (reinterpret_cast<uintptr_t>(call.stream) <= 2) {
    return InvalidArgument(
        "Session::Run: program '{}' on the legacy stream; pass a stream of your own", name);
  }
  return CheckTargets(call);
}

absl::Status CheckGuards(const Call& call, const CallShape& shape) {
  const Program& program = *call.program;
  std::array<int64_t, kSymbolsMax + kScalarsMax> values;
  const size_t symbols = program.spec.symbols.size();
  std::copy_n(shape.real.begin(), symbols, values.begin());
  std::copy(call.scalars.begin(), call.scalars.end(),
            values.begin() + static_cast<ptrdiff_t>(symbols));
  const std::span<const int64_t> used(values.data(), symbols + call.scalars.size());
  const std::optional<int> failed = program.guards.FirstFailing(used);
  if (!failed) [[likely]]
    return absl::OkStatus();
  return InvalidArgument("Session::Run: guard '{}' of program '{}' failed: {}",
                         program.guards.source(*failed), program.spec.name,
                         program.guards.DescribeValues(*failed, used));
}

// Whether a tensor of these dims has more bytes at these extents than any device.
bool IsAstronomical(DType dtype, const Dims& dims, const CallShape& shape) {
  constexpr int64_t kBytesMax = int64_t{1} << 60;
  int64_t bytes = SizeOf(dtype);
  for (const Dim& dim : dims) {
    const int64_t size = dim.symbol < 0 ? dim.size : shape.real[static_cast<size_t>(dim.symbol)];
    if (__builtin_mul_overflow(bytes, size, &bytes) || bytes > kBytesMax) return true;
  }
  return false;
}

// Beyond the largest buckets, which the spec was checked at, sizes may be too large to count.
absl::Status CheckSizes(const Program& program, const CallShape& shape) {
  const auto check = [&](const auto& tensors) -> absl::Status {
    for (const auto& tensor : tensors) {
      if (!IsAstronomical(tensor.dtype, tensor.dims, shape)) continue;
      return MakeError(absl::StatusCode::kResourceExhausted,
                       "Session::Run: '{}' of program '{}' has more bytes at this call's extents "
                       "than any device; make the call smaller",
                       tensor.name, program.spec.name);
    }
    return absl::OkStatus();
  };
  COPPICE_RETURN_IF_ERROR(check(program.spec.inputs));
  return check(program.spec.outputs);
}

absl::Status Pad(const Program& program, Observe observe, CallShape& shape) {
  for (size_t i = 0; i < program.spec.symbols.size(); ++i) {
    const SymbolSpec& symbol = program.spec.symbols[i];
    const int64_t extent = shape.real[i];
    const std::optional<int64_t> bucket = symbol.policy.Find(extent);
    shape.padded[i] = bucket.has_value() && program.Pads(i, extent, observe) ? *bucket : extent;
    if (bucket.has_value()) continue;
    shape.over_maximum = true;
    if (symbol.over_maximum == OverMaximum::kError) {
      return MakeError(absl::StatusCode::kOutOfRange,
                       "Session::Run: {} = {} of program '{}' is over the largest bucket, {}",
                       symbol.name, extent, program.spec.name, symbol.policy.maximum());
    }
  }
  return shape.over_maximum ? CheckSizes(program, shape) : absl::OkStatus();
}

}  // namespace

absl::Status ReadCall(const Call& call,
                      const Catalogue& catalogue,
                      int lanes,
                      const WindowMap& windows,
                      Observe observe,
                      CallShape& shape) {
  COPPICE_RETURN_IF_ERROR(CheckCall(call, catalogue, lanes));
  COPPICE_RETURN_IF_ERROR(ReadExtents(call, windows, shape));
  shape.in_pool |= !call.donated.empty();
  if (call.program->guarded) [[unlikely]]
    COPPICE_RETURN_IF_ERROR(CheckGuards(call, shape));
  return Pad(*call.program, observe, shape);
}

void SetBucketKey(const Call& call, const CallShape& shape, BucketKey& key) {
  const size_t symbols = call.program->spec.symbols.size();
  size_t count = 0;
  for (; count < symbols; ++count)
    key.words[count] = shape.padded[count];
  if (call.program->device_scalars.empty()) [[likely]] {
    std::copy(call.scalars.begin(), call.scalars.end(), &key.words[count]);
    count += call.scalars.size();
  } else {
    for (const int scalar : call.program->key_scalars)
      key.words[count++] = call.scalars[static_cast<size_t>(scalar)];
  }
  key.word_count = static_cast<int>(count);
}

}  // namespace coppice::internal
