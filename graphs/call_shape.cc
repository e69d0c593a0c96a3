// Checks of a call against its program, and its extents.

#include "graphs/call_shape.h"

#include <optional>
#include <string>

#include "coppice/base/status.h"

namespace coppice::internal {
namespace {

absl::Status WrongInput(const Program& program, size_t copy, const Tensor& tensor) {
  const InputSpec& spec = program.spec.inputs[static_cast<size_t>(program.copies[copy])];
  std::string wants;
  for (const Dim& dim : spec.dims) {
    wants += dim.symbol >= 0
                 ? fmt::format(" {}", program.spec.symbols[static_cast<size_t>(dim.symbol)].name)
                 : fmt::format(" {}", dim.size);
  }
  std::string got;
  for (int axis = 0; axis < tensor.rank; ++axis) {
    got += fmt::format(" {}", tensor.sizes[static_cast<size_t>(axis)]);
  }
  return InvalidArgument(
      "Session::Run: input '{}' of program '{}' is {} [{} ]{}, but the spec says {} [{} ] with one "
      "size per symbol",
      spec.name, program.spec.name, NameOf(tensor.dtype), got,
      tensor.data == 0 ? " at address 0" : "", NameOf(spec.dtype), wants);
}

}  // namespace

absl::Status ReadExtents(const Call& call, CallShape& shape) {
  const Program& program = *call.program;
  shape.real.fill(-1);
  for (size_t copy = 0; copy < call.inputs.size(); ++copy) {
    const Tensor& tensor = call.inputs[copy];
    const CopyShape& wanted = program.copy_shapes[copy];
    bool fits = tensor.dtype == wanted.dtype && tensor.rank == wanted.rank;
    bool empty = false;
    for (size_t axis = 0; fits && axis < static_cast<size_t>(tensor.rank); ++axis) {
      const Dim& dim = wanted.dims[axis];
      const int64_t size = tensor.sizes[axis];
      int64_t expected = dim.size;
      if (dim.symbol >= 0) {
        int64_t& extent = shape.real[static_cast<size_t>(dim.symbol)];
        if (extent < 0) extent = size;
        expected = extent;
      }
      fits = size == expected && size >= 0;
      empty |= size == 0;
    }
    if (!fits || (tensor.data == 0 && !empty)) [[unlikely]]
      return WrongInput(program, copy, tensor);
  }
  return absl::OkStatus();
}

absl::Status CheckCall(const Call& call, const void* session, int lanes) {
  if (call.program == nullptr || call.program->session != session) {
    return InvalidArgument(
        "Session::Run: the program is null or was registered with another session");
  }
  const Program& program = *call.program;
  const char* name = program.spec.name.c_str();
  if (call.lane < 0 || call.lane >= lanes) {
    return InvalidArgument("Session::Run: lane {} of {}, program '{}'", call.lane, lanes, name);
  }
  if (call.binding == nullptr ? !program.statics.empty() : call.binding->program != &program) {
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
  return absl::OkStatus();
}

absl::Status Pad(const Program& program, CallShape& shape) {
  for (size_t i = 0; i < program.spec.symbols.size(); ++i) {
    const SymbolSpec& symbol = program.spec.symbols[i];
    const std::optional<int64_t> bucket = symbol.policy.Find(shape.real[i]);
    // A program that is never padded takes an empty extent as it is.
    const bool as_it_is = !bucket.has_value() || program.spec.claim == Claim::kExact;
    shape.padded[i] = as_it_is ? shape.real[i] : *bucket;
    if (bucket.has_value()) continue;
    shape.over_maximum = true;
    if (symbol.over_maximum == OverMaximum::kError) {
      return MakeError(absl::StatusCode::kOutOfRange,
                       "Session::Run: {} = {} of program '{}' is over the largest bucket, {}",
                       symbol.name, shape.real[i], program.spec.name, symbol.policy.maximum());
    }
  }
  return absl::OkStatus();
}

NodeKey KeyOf(const Call& call, const CallShape& shape) {
  NodeKey key;
  key.binding = call.binding;
  const size_t symbols = call.program->spec.symbols.size();
  size_t count = 0;
  for (; count < symbols; ++count)
    key.words[count] = shape.padded[count];
  for (const int scalar : call.program->key_scalars) {
    key.words[count++] = call.scalars[static_cast<size_t>(scalar)];
  }
  key.word_count = static_cast<int>(count);
  return key;
}

}  // namespace coppice::internal
