// From the events of a script to lifetimes.

#include "graphs/node/allocation_script.h"

#include <algorithm>

namespace coppice::internal {
namespace {

// Which output begins in these bytes, and has some.
int OutputIn(const OutputTable& outputs, DeviceAddress begin, int64_t bytes) {
  for (size_t i = 0; i < outputs.tensors.size(); ++i) {
    const Tensor& tensor = outputs.tensors[i];
    if (tensor.element_count() > 0 && tensor.data >= begin &&
        tensor.data - begin < static_cast<DeviceAddress>(bytes)) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

}  // namespace

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

int64_t LastReadOf(const AllocationScript& warmed, const AllocationScript& script, int input) {
  const auto is = [input](ScriptEvent::Kind kind) {
    return [input, kind](const ScriptEvent& event) {
      return event.kind == kind && event.input == input;
    };
  };
  const auto end = static_cast<int64_t>(script.events.size()) + 1;
  if (std::ranges::any_of(warmed.events, is(ScriptEvent::Kind::kAlias))) return end;
  const auto freed = std::ranges::find_if(script.events, is(ScriptEvent::Kind::kFreeInput));
  return freed == script.events.end() ? end : freed - script.events.begin();
}

std::vector<Donation> DonationsOf(const AllocationScript& warmed,
                                  const AllocationScript& script,
                                  const Program& program,
                                  const InputLayout& layout,
                                  const Surroundings& surroundings) {
  std::vector<Donation> donations;
  for (const Region& region : surroundings.donated) {
    int64_t until = 0;
    // What inputs have of it: padding behind them is nobody's, and no kernel orders its bytes.
    int64_t first = region.end();
    int64_t last = region.offset;
    for (size_t copied = 0; copied < surroundings.in_place.size(); ++copied) {
      const int input = program.layout.copies[copied];
      const Region place{.offset = surroundings.in_place[copied],
                         .bytes = RoundedBytes(layout.inputs[static_cast<size_t>(input)])};
      if (place.offset < 0 || !Meets(place, {region})) continue;
      until = std::max(until, LastReadOf(warmed, script, input));
      first = std::min(first, std::max(place.offset, region.offset));
      last = std::max(last, std::min(AlignUp(place.end(), kBufferAlignment), region.end()));
    }
    first -= first % kBufferAlignment;
    if (until > 0)
      donations.push_back({.region = {.offset = first, .bytes = last - first}, .until = until});
  }
  return donations;
}

void AppendDonations(const std::vector<Donation>& donations, std::vector<Buffer>& buffers) {
  for (const Donation& donation : donations) {
    Buffer& kept = buffers.emplace_back();
    kept.lifetime.push_back({.lower = 0, .upper = donation.until});
    kept.bytes = donation.region.bytes;
    kept.fixed_offset = donation.region.offset;
  }
}

std::vector<std::string> LabelsOf(const AllocationScript& script, const ProgramSpec& spec) {
  std::vector<std::string> labels(static_cast<size_t>(script.buffer_count));
  for (const ScriptEvent& event : script.events) {
    if (event.kind == ScriptEvent::Kind::kAllocate)
      labels[static_cast<size_t>(event.buffer)] = event.label;
    if (event.kind == ScriptEvent::Kind::kOutput)
      labels[static_cast<size_t>(event.buffer)] =
          spec.outputs[static_cast<size_t>(event.output)].name;
  }
  return labels;
}

std::vector<Buffer> BuffersOf(const AllocationScript& script) {
  std::vector<Buffer> buffers(static_cast<size_t>(script.buffer_count));
  const auto end = static_cast<int64_t>(script.events.size()) + 1;
  for (size_t step = 0; step < script.events.size(); ++step) {
    const ScriptEvent& event = script.events[step];
    if (event.kind == ScriptEvent::Kind::kBreak || event.kind == ScriptEvent::Kind::kFreeInput)
      continue;
    Buffer& buffer = buffers[static_cast<size_t>(event.buffer)];
    if (event.kind == ScriptEvent::Kind::kFree) {
      buffer.lifetime[0].upper = static_cast<int64_t>(step);
    } else {
      buffer.bytes = event.bytes;
      buffer.lifetime = {{.lower = static_cast<int64_t>(step), .upper = end}};
    }
  }
  AppendDonations(script.donations, buffers);
  return buffers;
}

std::vector<int> OutputsIn(const OutputTable& outputs, const PlannedBuffers& planned) {
  const std::span<const Buffer> buffers = planned.buffers;
  int64_t end = 0;
  for (const Buffer& buffer : buffers)
    end = std::max(end, buffer.lifetime.back().upper);
  std::vector<int> found;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const bool lasts = buffers[i].lifetime.back().upper == end;
    const DeviceAddress begin = planned.base + static_cast<DeviceAddress>(planned.plan.offsets[i]);
    found.push_back(lasts ? OutputIn(outputs, begin, buffers[i].bytes) : -1);
  }
  return found;
}

}  // namespace coppice::internal
