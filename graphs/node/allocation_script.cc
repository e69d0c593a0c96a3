// From the events of a script to lifetimes.

#include "graphs/node/allocation_script.h"

namespace coppice::internal {

AllocationScript ScriptOf(const AllocationScript& warmed, const InputLayout& layout) {
  AllocationScript script;
  for (ScriptEvent event : warmed.events) {
    if (event.kind == ScriptEvent::Kind::kAlias) {
      if (!layout.Stages(event.input)) continue;
      event = {.kind = ScriptEvent::Kind::kOutput,
               .buffer = script.buffer_count,
               .output = event.output,
               .bytes = event.bytes};
    }
    const bool requests =
        event.kind == ScriptEvent::Kind::kAllocate || event.kind == ScriptEvent::Kind::kOutput;
    script.buffer_count += requests ? 1 : 0;
    script.events.push_back(event);
  }
  return script;
}

std::vector<Buffer> BuffersOf(const AllocationScript& script) {
  std::vector<Buffer> buffers(static_cast<size_t>(script.buffer_count));
  const auto end = static_cast<int64_t>(script.events.size()) + 1;
  for (size_t step = 0; step < script.events.size(); ++step) {
    const ScriptEvent& event = script.events[step];
    if (event.kind == ScriptEvent::Kind::kBreak) continue;
    Buffer& buffer = buffers[static_cast<size_t>(event.buffer)];
    if (event.kind == ScriptEvent::Kind::kFree) {
      buffer.lifetime[0].upper = static_cast<int64_t>(step);
    } else {
      buffer.bytes = event.bytes;
      buffer.lifetime = {{.lower = static_cast<int64_t>(step), .upper = end}};
    }
  }
  return buffers;
}

}  // namespace coppice::internal
