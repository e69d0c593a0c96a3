// What a run asks for, and eager ones: where their memory comes from, and what they note.

#include "graphs/record/run_context.h"

#include <algorithm>
#include <limits>

#include "absl/cleanup/cleanup.h"

#include "coppice/base/status.h"
#include "coppice/runtime/driver.h"

namespace coppice::internal {
namespace {

int64_t BytesOf(const Tensor& tensor) {
  return tensor.span() * SizeOf(tensor.dtype);
}

bool Holds(const Tensor& tensor, DeviceAddress address, int64_t bytes) {
  return tensor.data != 0 && address >= tensor.data &&
         address - tensor.data + static_cast<DeviceAddress>(bytes) <=
             static_cast<DeviceAddress>(RoundedBytes(tensor));
}

}  // namespace

RunContext::RunContext(const Driver& driver,
                       LaneMemory& memory,
                       const RunRequest& request,
                       Phase phase)
    : memory_(memory),
      program_(*request.program),
      spec_(request.program->spec),
      layout_(*request.layout),
      outputs_(spec_.outputs.size()),
      static_outputs_(request.layout->static_outputs),
      staging_(request.staging) {
  phase_ = phase;
  stream_ = request.stream;
  driver_ = &driver;
  extents_.assign(request.extents.begin(), request.extents.end());
  inputs_ = request.layout->inputs;
  parameters_ = request.layout->staging->header().parameter_block;
  offsets_ = request.layout->offsets;
  workspace_ = request.workspace;
  workspace_bytes_ = request.workspace_bytes;
  for (size_t i = 0; i < spec_.scalars.size(); ++i) {
    scalars_.push_back(request.program->IsKeyScalar(static_cast<int>(i)) ? request.scalars[i]
                                                                         : request.foreign_scalar);
  }
}

absl::StatusOr<std::optional<Tensor>*> RunContext::FindUnset(const char* where, int index) {
  if (index < 0 || index >= static_cast<int>(outputs_.size())) {
    return InvalidArgument(
        "{}: the number of outputs of program '{}' is {}, so there is no output {}", where,
        spec_.name, outputs_.size(), index);
  }
  std::optional<Tensor>* output = &outputs_[static_cast<size_t>(index)];
  if (output->has_value()) {
    return FailedPrecondition("{}: output {} of program '{}' was already requested", where, index,
                              spec_.name);
  }
  return output;
}

absl::StatusOr<Tensor> RunContext::AllocateOutput(int index) {
  COPPICE_ASSIGN_OR_RETURN(std::optional<Tensor> * output, FindUnset("AllocateOutput", index));
  const OutputSpec& spec = spec_.outputs[static_cast<size_t>(index)];
  if (spec.role == OutputRole::kStatic) {
    *output = static_outputs_[static_cast<size_t>(index)];
    return **output;
  }
  Tensor tensor = PlacedTensor(0, spec, extents_);
  if (const RaggedSpec* const sequences = program_.RectangleOfOutput(index)) {
    tensor = PlacedTensor(0, spec.dtype, RectangleOf(*sequences, spec.dims), {}, extents_);
    COPPICE_ASSIGN_OR_RETURN(tensor.data, AllocateBytes({.bytes = RoundedBytes(tensor),
                                                         .label = spec.name + ", rectangle"}));
  } else {
    COPPICE_ASSIGN_OR_RETURN(tensor.data, AllocateFor(index, tensor));
  }
  *output = tensor;
  return tensor;
}

absl::StatusOr<DeviceAddress> RunContext::AllocateFor(int output, const Tensor& tensor) {
  return AllocateBytes(
      {.kind = ScriptEvent::Kind::kOutput, .output = output, .bytes = RoundedBytes(tensor)});
}

// The rectangle is a temporary of the run, and this the last that reads it.
absl::Status RunContext::PackRectangle(int index, const RaggedSpec& sequences) {
  std::optional<Tensor>& output = outputs_[static_cast<size_t>(index)];
  if (!output.has_value()) return absl::OkStatus();
  const Tensor rectangle = *output;
  Tensor packed = PlacedTensor(0, spec_.outputs[static_cast<size_t>(index)], extents_);
  COPPICE_ASSIGN_OR_RETURN(packed.data, AllocateFor(index, packed));
  const auto place = static_cast<size_t>(&sequences - spec_.ragged.data());
  const auto word = static_cast<DeviceAddress>(ExtentWord(spec_, sequences.length));
  if (staging_ != nullptr)  // Else nothing runs.
    COPPICE_RETURN_IF_ERROR(staging_->Pack(stream_, rectangle, offsets_[place],
                                           parameters_ + word * sizeof(int64_t), packed));
  output = packed;
  return Free(rectangle.data);
}

absl::StatusOr<DeviceAddress> RunContext::Allocate(int64_t bytes, std::string_view label) {
  if (bytes < 1)
    return InvalidArgument("Allocate: {} bytes were requested; request at least 1", bytes);
  if (bytes > std::numeric_limits<int64_t>::max() - kBufferAlignment) {
    return MakeError(absl::StatusCode::kResourceExhausted,
                     "Allocate: {} bytes for program '{}' are too many", bytes, spec_.name);
  }
  return AllocateBytes({.bytes = AlignUp(bytes, kBufferAlignment), .label = std::string(label)});
}

absl::Status RunContext::AliasOutput(int index, DeviceAddress address) {
  COPPICE_ASSIGN_OR_RETURN(std::optional<Tensor> * output, FindUnset("AliasOutput", index));
  const OutputSpec& spec = spec_.outputs[static_cast<size_t>(index)];
  if (spec.role == OutputRole::kStatic) {
    return InvalidArgument(
        "AliasOutput: output '{}' of program '{}' is static, so Bind gives its address", spec.name,
        spec_.name);
  }
  if (program_.RectangleOfOutput(index) != nullptr) {
    return InvalidArgument(
        "AliasOutput: output '{}' of program '{}' is packed from a rectangle; allocate the "
        "rectangle",
        spec.name, spec_.name);
  }
  const Tensor tensor = PlacedTensor(address, spec, extents_);
  const int64_t bytes = BytesOf(tensor);
  if (bytes > 0 && (address == 0 || address + static_cast<DeviceAddress>(bytes) < address)) {
    return InvalidArgument(
        "AliasOutput: output '{}' of program '{}' would be {} bytes at {:#x}, which is not a valid "
        "address",
        spec.name, spec_.name, bytes, address);
  }
  bool of_output = false;
  for (size_t i = 0; i < outputs_.size(); ++i)
    of_output |= program_.RectangleOfOutput(static_cast<int>(i)) == nullptr &&
                 outputs_[i].has_value() && Holds(*outputs_[i], address, bytes);
  const auto input = std::find_if(inputs_.begin(), inputs_.end(), [&](const Tensor& other) {
    return Holds(other, address, bytes);
  });
  if (!of_output && input == inputs_.end() && memory_.windows().Contains(address)) {
    return InvalidArgument(
        "AliasOutput: output '{}' of program '{}' would be {} bytes of the session's memory that "
        "belong to no input and no output",
        spec.name, spec_.name, bytes);
  }
  if (input != inputs_.end()) {
    aliases_.push_back(
        {.output = index, .input = static_cast<int>(input - inputs_.begin()), .source = tensor});
  }
  *output = tensor;
  return absl::OkStatus();
}

// What is staged is copied, because the next call stages there again. Any other input keeps its
// bytes: it is bound, or the path's lease and this call's own both keep them.
absl::Status RunContext::PlaceAlias(const InputAlias& alias) {
  Tensor& output = *outputs_[static_cast<size_t>(alias.output)];
  const ScriptEvent event{.kind = ScriptEvent::Kind::kAlias,
                          .output = alias.output,
                          .input = alias.input,
                          .bytes = RoundedBytes(output)};
  if (!layout_.Stages(alias.input)) {
    NoteAlias(event);
    return absl::OkStatus();
  }
  COPPICE_ASSIGN_OR_RETURN(output.data, AllocateBytes(event));
  const int64_t bytes = BytesOf(output);
  return bytes == 0 ? absl::OkStatus() : CopyBytes(output.data, alias.source.data, bytes);
}

absl::Status RunContext::CopyBytes(DeviceAddress target, DeviceAddress source, int64_t bytes) {
  return driver_->Call<&DriverTable::MemcpyDtoDAsync>(target, source, static_cast<size_t>(bytes),
                                                      stream_);
}

absl::Status RunContext::CheckFree(DeviceAddress address) const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const bool rectangle = program_.RectangleOfOutput(static_cast<int>(i)) != nullptr;
    if (!rectangle || !outputs_[i].has_value() || outputs_[i]->data != address) continue;
    return InvalidArgument(
        "Free: output '{}' of program '{}' is packed from this rectangle when the run ends, which "
        "also frees it; do not free it",
        spec_.outputs[i].name, spec_.name);
  }
  return absl::OkStatus();
}

int RunContext::TakeInputToFree(DeviceAddress address, int wanted) {
  freed_.resize(inputs_.size());
  const auto take = [&](size_t i) {
    if (freed_[i] || spec_.inputs[i].role != InputRole::kCopy || inputs_[i].data != address)
      return false;
    freed_[i] = true;
    return true;
  };
  // One tensor may be several inputs.
  if (wanted >= 0 && take(static_cast<size_t>(wanted))) return wanted;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (take(i)) return static_cast<int>(i);
  }
  return -1;
}

absl::StatusOr<std::vector<Tensor>> RunContext::TakeOutputs() {
  for (int i = 0; i < static_cast<int>(outputs_.size()); ++i)
    if (const RaggedSpec* const sequences = program_.RectangleOfOutput(i))
      COPPICE_RETURN_IF_ERROR(PackRectangle(i, *sequences));
  for (size_t i = 0; i < aliases_.size(); ++i) {
    const InputAlias& alias = aliases_[i];
    const auto same =
        std::find_if(aliases_.begin(), aliases_.begin() + static_cast<ptrdiff_t>(i),
                     [&](const InputAlias& other) {
                       return Holds(other.source, alias.source.data, BytesOf(alias.source));
                     });
    if (same == aliases_.begin() + static_cast<ptrdiff_t>(i)) {
      COPPICE_RETURN_IF_ERROR(PlaceAlias(alias));
      continue;
    }
    outputs_[static_cast<size_t>(alias.output)]->data =
        outputs_[static_cast<size_t>(same->output)]->data + (alias.source.data - same->source.data);
  }
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (!outputs_[i].has_value()) {
      return FailedPrecondition("program '{}' returned without asking for output {} ('{}')",
                                spec_.name, i, spec_.outputs[i].name);
    }
    tensors.push_back(*outputs_[i]);
  }
  return tensors;
}

EagerContext::~EagerContext() {
  for (const auto& [address, allocation] : live_)
    memory_.FreeEager(address);
  for (const DeviceAddress address : parked_)
    memory_.FreeEager(address);
}

absl::Status EagerContext::Free(DeviceAddress address) {
  COPPICE_RETURN_IF_ERROR(CheckFree(address));
  const auto found = live_.find(address);
  if (found == live_.end() || found->second.output >= 0) {
    const int input = TakeInputToFree(address);
    if (input < 0) {
      return InvalidArgument(
          "Free: program '{}' has no live temporary and no copied input at {:#x}", spec_.name,
          address);
    }
    if (script_ != nullptr)
      script_->events.push_back({.kind = ScriptEvent::Kind::kFreeInput, .input = input});
    return absl::OkStatus();
  }
  if (script_ != nullptr) {
    script_->events.push_back({.kind = ScriptEvent::Kind::kFree, .buffer = found->second.buffer});
  }
  if (spec_.one_stream) {
    memory_.FreeEager(address);
  } else {
    parked_.push_back(address);
  }
  live_.erase(found);
  return absl::OkStatus();
}

absl::Status CheckStep(const EagerStep& step) {
  if (step) return absl::OkStatus();
  return InvalidArgument("Break: there is no step; give it the code to run between the graphs");
}

absl::Status EagerContext::Break(EagerStep step) {
  COPPICE_RETURN_IF_ERROR(CheckStep(step));
  if (script_ != nullptr) script_->events.push_back({.kind = ScriptEvent::Kind::kBreak});
  return step(stream());
}

void EagerContext::KeepOutputs(std::vector<DeviceAddress>& allocations) {
  for (auto it = live_.begin(); it != live_.end();) {
    if (it->second.output < 0) {
      ++it;
      continue;
    }
    allocations.push_back(it->first);
    it = live_.erase(it);
  }
}

absl::StatusOr<DeviceAddress> EagerContext::AllocateBytes(const ScriptEvent& request) {
  COPPICE_ASSIGN_OR_RETURN(const DeviceAddress address, memory_.AllocateEager(request.bytes));
  absl::Cleanup undo = [&] { memory_.FreeEager(address); };
  live_[address] = {.buffer = buffer_count_, .output = request.output};
  std::move(undo).Cancel();
  Note(request);
  return address;
}

void EagerContext::Note(ScriptEvent event) {
  event.buffer = buffer_count_++;
  if (script_ == nullptr) return;
  script_->events.push_back(std::move(event));
  script_->buffer_count = buffer_count_;
}

}  // namespace coppice::internal
