// A call's shape, statics, targets, and the inputs that need no lock of its own lane.

#include "graphs/call/check.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "fmt/ranges.h"

#include "coppice/base/status.h"
#include "coppice/runtime/stream.h"

#include "graphs/call/extents.h"
#include "graphs/call/holder.h"
#include "graphs/node/input_layout.h"

namespace coppice::internal {
namespace {

// What few calls need is kept apart, so that the usual one needs no frame for it.

// What a call reads in another lane's memory must be under a scope, which orders this call's stream
// behind that lane and keeps the bytes. `what` names it ("input 'x'").
absl::Status CheckOtherLane(const Call& call,
                            const Tensor& read,
                            const std::string& what,
                            Lane& other) {
  const std::lock_guard lock(other.mutex);
  for (const MemoryKind window : {MemoryKind::kPlan, MemoryKind::kEager, MemoryKind::kCopyOut}) {
    const Slot* slot = FindHolder(other.slots().ListOf(window), read);
    if (slot != nullptr && IsReadOn(*slot, read, call.stream)) return absl::OkStatus();
  }
  return FailedPrecondition(
      "Session::Run: {} of program '{}' is an output of lane {}, but the call runs on lane {}; "
      "keep a read scope open on the call's stream during the call",
      what, call.program->spec.name, other.index, call.lane);
}

absl::Status CheckOtherLane(const Call& call, size_t input, Lane& other) {
  const InputSpec& read = call.program->copied_input(input);
  if (read.mutated) {
    return FailedPrecondition(
        "Session::Run: program '{}' on lane {} would write to its input '{}', an output on lane "
        "{}; copy the input",
        call.program->spec.name, call.lane, read.name, other.index);
  }
  return CheckOtherLane(call, call.inputs[input], fmt::format("input '{}'", read.name), other);
}

// Whether the counts lie where they can; sets whether one lies in the session's memory, in which it
// lies whole, at a multiple of its bytes.
absl::Status CheckCounts(const SessionParts& parts, Request& request) {
  const Call& call = request.call;
  for (size_t i = 0; i < call.counts.size(); ++i) {
    const Tensor& count = call.counts[i];
    const std::optional<WindowMap::Place> place = parts.windows->Locate(count.data);
    if (!place) continue;
    request.shape.in_pool = true;
    if (place->lane != call.lane)
      COPPICE_RETURN_IF_ERROR(
          CheckOtherLane(call, count, NameOfCount(*call.program, i), parts.lane(place->lane)));
  }
  return absl::OkStatus();
}

// Nothing else of the call may lie where an input is written back: whether the program sees what it
// wrote there would depend on which of them are staged.
absl::Status CheckAlone(const Call& call, size_t written) {
  const Program& program = *call.program;
  const auto refuse = [&](const char* what, const std::string& name) {
    return InvalidArgument(
        "Session::Run: program '{}' writes to its input '{}', which shares bytes with {} '{}'; "
        "copy one of them",
        program.spec.name, program.copied_input(written).name, what, name);
  };
  const Tensor& tensor = call.inputs[written];
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (i != written && Overlap(tensor, call.inputs[i]))
      return refuse("input", program.copied_input(i).name);
  }
  for (size_t i = 0; call.binding != nullptr && i < program.layout.statics.size(); ++i) {
    if (Overlap(tensor, call.binding->tensors[i]))
      return refuse("static input", program.static_input(i).name);
  }
  if (call.output_mode != OutputMode::kWriteInto) return absl::OkStatus();
  for (size_t i = 0; i < call.targets.size(); ++i) {
    if (program.spec.outputs[i].role != OutputRole::kStatic && Overlap(tensor, call.targets[i]))
      return refuse("the target of output", program.spec.outputs[i].name);
  }
  return absl::OkStatus();
}

// Whether every element of a caller's tensor has bytes of its own, upwards of its address.
bool MayBeWritten(const Tensor& tensor) {
  const auto first = tensor.strides.begin();
  return std::all_of(first, first + tensor.rank, [](int64_t stride) { return stride >= 0; }) &&
         SpanOf(tensor).has_value() && tensor.keeps_apart();
}

[[gnu::noinline]] absl::Status CheckInputs(const SessionParts& parts, Request& request) {
  const Call& call = request.call;
  const Program& program = *call.program;
  COPPICE_RETURN_IF_ERROR(CheckCounts(parts, request));
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const Tensor& tensor = call.inputs[i];
    const std::optional<WindowMap::Place> place = parts.windows->Locate(LowOf(tensor));
    if (place && place->lane != call.lane)
      COPPICE_RETURN_IF_ERROR(CheckOtherLane(call, i, parts.lane(place->lane)));
    if (!program.layout.mutates_copies) continue;
    const InputSpec& spec = program.copied_input(i);
    if (spec.mutated && !MayBeWritten(tensor)) {
      return InvalidArgument(
          "Session::Run: input '{}' of program '{}' is written back, so its strides must not be "
          "negative or make its elements overlap; pass a copy",
          spec.name, program.spec.name);
    }
    if (spec.mutated) COPPICE_RETURN_IF_ERROR(CheckAlone(call, i));
  }
  return absl::OkStatus();
}

[[gnu::noinline]] absl::Status CheckTargets(const SessionParts& parts, const Request& request) {
  const Call& call = request.call;
  const ProgramSpec& spec = call.program->spec;
  const bool copies = NeedsCopyOutBytes(call.output_mode) && !spec.outputs.empty();
  if (copies && parts.options.memory.copy_out_bytes == 0) {
    return MakeError(
        absl::StatusCode::kResourceExhausted,
        "Session::Run: program '{}' must copy its outputs out, but MemoryOptions::copy_out_bytes "
        "is 0; set it to the total bytes of the copies that are leased at once",
        spec.name);
  }
  for (size_t i = 0; i < call.targets.size(); ++i) {
    if (spec.outputs[i].role == OutputRole::kStatic) continue;
    const Tensor& target = call.targets[i];
    const Tensor wanted = PlacedTensor(target.data, spec.outputs[i], request.shape.real);
    const auto element = static_cast<DeviceAddress>(SizeOf(wanted.dtype));
    const char* wrong = nullptr;
    if (target.dtype != wanted.dtype || target.rank != wanted.rank || target.sizes != wanted.sizes)
      wrong = "does not have the dtype and the real sizes of the output";
    else if (!MayBeWritten(target))
      wrong = "has elements that overlap";
    else if (target.data == 0 && target.element_count() > 0)
      wrong = "has no memory";
    else if (target.data % element != 0)
      wrong = "is not aligned to its element size";
    else if (parts.windows->Meets(target.data, RoundedBytes(target)) ||
             parts.windows->MeetsConstants(target.data, RoundedBytes(target)))
      wrong = "lies in the session's memory";
    if (wrong != nullptr)
      return InvalidArgument(
          "Session::Run: the target of output '{}' of program '{}' {}; give memory of your own "
          "with {} elements of sizes {}",
          spec.outputs[i].name, spec.name, wrong, NameOf(wanted.dtype),
          fmt::format(
              "[{}]",
              fmt::join(std::span(wanted.sizes).first(static_cast<size_t>(wanted.rank)), ", ")));
    for (size_t other = 0; other < i; ++other) {
      if (spec.outputs[other].role == OutputRole::kStatic ||
          !Overlap(target, call.targets[other])) {
        continue;
      }
      return InvalidArgument(
          "Session::Run: the targets of outputs '{}' and '{}' of program '{}' share bytes; give "
          "each output its own memory",
          spec.outputs[other].name, spec.outputs[i].name, spec.name);
    }
  }
  return absl::OkStatus();
}

// Whether an address is one of the device's memory.
absl::Status CheckLive(const SessionParts& parts,
                       const Call& call,
                       DeviceAddress address,
                       const char* what,
                       const std::string& name) {
  const absl::Status found = AllocationIdOf(parts.driver, address).status();
  if (found.code() != absl::StatusCode::kNotFound) return found;
  return FailedPrecondition(
      "Session::Run: the {} '{}' of program '{}' at {:#x} is not a live allocation: it was freed, "
      "or is host memory; pass device memory",
      what, name, call.program->spec.name, address);
}

// Whether every address that outlives the call is still of the allocation it was bound with, and
// every other of a live one.
[[gnu::noinline]] absl::Status CheckAddresses(const SessionParts& parts, const Call& call) {
  const ProgramSpec& spec = call.program->spec;
  if (call.binding != nullptr) {
    for (size_t i = 0; i < call.binding->tensors.size(); ++i) {
      if (parts.windows->HoldsConstants(call.binding->tensors[i].data)) continue;
      const absl::StatusOr<uint64_t> id =
          AllocationIdOf(parts.driver, call.binding->tensors[i].data);
      if (id.ok() && *id == call.binding->allocations[i]) continue;
      if (!id.ok() && id.status().code() != absl::StatusCode::kNotFound) return id.status();
      return FailedPrecondition(
          "Session::Run: static tensor {} of program '{}' at {:#x} was freed after it was bound; "
          "bind a tensor in allocated memory",
          i, spec.name, call.binding->tensors[i].data);
    }
  }
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const std::string& name = call.program->copied_input(i).name;
    const std::optional<ByteSpan> span = SpanOf(call.inputs[i]);
    const bool inside =
        span && (parts.windows->Contains(span->low) || parts.windows->HoldsConstants(span->low));
    if (inside || (span && span->bytes() == 0)) continue;
    if (!span || parts.windows->Meets(span->low, span->bytes())) {
      return InvalidArgument(
          "Session::Run: input '{}' of program '{}' at {:#x} reaches beyond the last address, or "
          "into the session's memory; pass the address, sizes and strides of one allocation",
          name, spec.name, call.inputs[i].data);
    }
    COPPICE_RETURN_IF_ERROR(CheckLive(parts, call, span->low, "input", name));
    COPPICE_RETURN_IF_ERROR(CheckLive(parts, call, span->high - 1, "end of input", name));
  }
  for (size_t i = 0; i < call.counts.size(); ++i) {
    const DeviceAddress address = call.counts[i].data;
    if (address == 0 || parts.windows->Contains(address)) continue;
    COPPICE_RETURN_IF_ERROR(
        CheckLive(parts, call, address, "count of symbol", call.program->counted_symbol(i).name));
  }
  for (size_t i = 0; i < call.targets.size(); ++i) {
    if (call.targets[i].data == 0) continue;
    COPPICE_RETURN_IF_ERROR(
        CheckLive(parts, call, call.targets[i].data, "target of output", spec.outputs[i].name));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckMore(const SessionParts& parts, Request& request) {
  const Call& call = request.call;
  if (call.output_mode != OutputMode::kBorrow)
    COPPICE_RETURN_IF_ERROR(CheckTargets(parts, request));
  if (request.shape.in_pool || call.program->layout.inspected)
    COPPICE_RETURN_IF_ERROR(CheckInputs(parts, request));
  return parts.options.checks.addresses ? CheckAddresses(parts, call) : absl::OkStatus();
}

absl::Status NameGoneStream(const SessionParts& parts,
                            const Call& call,
                            Lane& lane,
                            const absl::Status& failed) {
  const auto unknown = [](const absl::Status& status) {
    return !status.ok() && CuResultOf(status) == CuResult::kInvalidHandle;
  };
  if (!unknown(failed) || !unknown(IsCapturing(parts.driver, call.stream).status())) return failed;
  // The next call finds the work of this stream waited for, or says why it could not be.
  if (lane.order().IsLast(call.stream)) (void)lane.order().LastStreamCaptures().ok();
  return InvalidArgument(
      "Session::Run: program '{}': the stream does not exist, or was destroyed; pass a stream that "
      "lives until the next call on lane {}",
      call.program->spec.name, lane.index);
}

absl::Status CheckIsOf(const SessionParts& parts,
                       const Program& program,
                       size_t scalars,
                       const char* where) {
  if (program.place.owner != parts.catalogue.get())
    return InvalidArgument("{}: program '{}' belongs to another session", where, program.spec.name);
  if (scalars != program.spec.scalars.size())
    return InvalidArgument("{}: program '{}' has {} scalars, but {} are given", where,
                           program.spec.name, program.spec.scalars.size(), scalars);
  return absl::OkStatus();
}

absl::Status EndedBinding(const Call& call) {
  COPPICE_RETURN_IF_ERROR(CheckRegistered("Session::Run", *call.program));
  return FailedPrecondition(
      "Session::Run: the binding of program '{}' was ended by Unbind; bind tensors again",
      call.program->spec.name);
}

absl::Status AskedBy(const char* where, absl::Status refused) {
  constexpr std::string_view kRun = "Session::Run:";
  const std::string message = MessageOf(refused);
  if (!message.starts_with(kRun)) return refused;
  absl::Status named = MakeError(refused.code(), "{}:{}", where, message.substr(kRun.size()));
  refused.ForEachPayload(
      [&named](auto type, const auto& payload) { named.SetPayload(type, payload); });
  return named;
}

}  // namespace coppice::internal
