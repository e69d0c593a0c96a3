// The collection of the wrong drivers, and what several of them note.

#include "tests/conformance/mutants.h"

#include <algorithm>

#include "tests/conformance/mutation.h"

namespace coppice {

const std::vector<Mutant>& Mutants() {
  static const std::vector<Mutant> all = [] {
    std::vector<Mutant> joined;
    for (const auto list :
         {mutation::CaptureMutants, mutation::CaptureModeMutants, mutation::CaptureConflictMutants,
          mutation::RangeMutants, mutation::MappingMutants, mutation::ContextMutants,
          mutation::PlainMemoryMutants, mutation::OrderMutants, mutation::CodeMutants,
          mutation::LaunchMutants, mutation::StructureMutants, mutation::ExecMutants,
          mutation::UpdateMutants})
      for (const Mutant& mutant : list())
        joined.push_back(mutant);
    return joined;
  }();
  return all;
}

const Mutant* FindMutant(std::string_view name) {
  const auto found = std::find_if(Mutants().begin(), Mutants().end(),
                                  [name](const Mutant& mutant) { return mutant.name == name; });
  return found == Mutants().end() ? nullptr : &*found;
}

DriverTable Mutated(const DriverTable& right, const Mutant& mutant) {
  mutation::right = right;
  mutation::notes = {};
  DriverTable table = right;
  mutant.apply(table);
  return table;
}

namespace mutation {

void NoteCaptures(T& cu) {
  cu.StreamBeginCapture = [](CuStream stream, CuCaptureMode mode) {
    const CuResult result = right.StreamBeginCapture(stream, mode);
    if (result == CuResult::kSuccess)
      notes.captures[stream] = {.mode = mode, .thread = std::this_thread::get_id()};
    return result;
  };
  cu.StreamEndCapture = [](CuStream stream, CuGraph* graph) {
    const CuResult result = right.StreamEndCapture(stream, graph);
    if (StatusOf(stream) == CuCaptureStatus::kNone) notes.captures.erase(stream);
    return result;
  };
  cu.EventRecord = [](CuEvent event, CuStream stream) {
    const CuResult result = right.EventRecord(event, stream);
    notes.captured_events.erase(event);
    if (Captures(stream)) notes.captured_events[event] = CaptureOf(stream).id;
    return result;
  };
}

void ForgetAtWaits(T& cu) {
  cu.StreamSynchronize = [](CuStream stream) {
    notes.seen.clear();
    return right.StreamSynchronize(stream);
  };
  cu.EventSynchronize = [](CuEvent event) {
    notes.seen.clear();
    return right.EventSynchronize(event);
  };
  cu.CtxSynchronize = [] {
    notes.seen.clear();
    return right.CtxSynchronize();
  };
}

CuResult MapAndNote(CuDeviceAddress address,
                    size_t bytes,
                    size_t offset,
                    CuMemoryHandle handle,
                    unsigned long long flags) {  // NOLINT(google-runtime-int)
  const CuResult result = right.MemMap(address, bytes, offset, handle, flags);
  if (result == CuResult::kSuccess) notes.mappings[address] = {.bytes = bytes, .handle = handle};
  return result;
}

void NoteMemory(T& cu) {
  cu.MemAddressReserve = [](CuDeviceAddress* address, size_t bytes, size_t alignment,
                            CuDeviceAddress hint, unsigned long long flags) {
    const CuResult result = right.MemAddressReserve(address, bytes, alignment, hint, flags);
    if (result == CuResult::kSuccess) notes.reservations[*address] = {.bytes = bytes};
    return result;
  };
  cu.MemCreate = [](CuMemoryHandle* handle, size_t bytes,
                    const CuMemAllocationProperties* properties, unsigned long long flags) {
    const CuResult result = right.MemCreate(handle, bytes, properties, flags);
    if (result == CuResult::kSuccess) notes.handle_bytes[*handle] = bytes;
    return result;
  };
  cu.MemMap = MapAndNote;
  cu.MemUnmap = [](CuDeviceAddress address, size_t bytes) {
    const CuResult result = right.MemUnmap(address, bytes);
    if (result == CuResult::kSuccess) notes.mappings.erase(address);
    return result;
  };
}

}  // namespace mutation
}  // namespace coppice
