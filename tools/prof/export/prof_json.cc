// One line per node and event.

#include "tools/prof/export/prof_json.h"

#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

#include "tools/prof/export/traced_session.h"

namespace coppice {
namespace {

using LineJson = nlohmann::ordered_json;

LineJson BuffersOf(const TracedNode& node) {
  LineJson buffers = LineJson::array();
  for (size_t i = 0; i < node.buffers.size(); ++i) {
    LineJson lifetime = LineJson::array();
    for (const Interval& interval : node.buffers[i].lifetime)
      lifetime.push_back(LineJson::array({interval.lower, interval.upper}));
    buffers.push_back({{"label", LabelOfBuffer(node, i)},
                       {"named", !node.labels[i].empty()},
                       {"offset", node.offsets[i]},
                       {"bytes", node.buffers[i].bytes},
                       {"output", node.outputs[i] < 0 ? LineJson() : LineJson(node.outputs[i])},
                       {"lifetime", std::move(lifetime)}});
  }
  return buffers;
}

LineJson LineOf(const PoolTrace& trace, const TracedNode& node) {
  const TracedBucket& bucket = trace.buckets[static_cast<size_t>(node.bucket)];
  const TracedProgram& program = trace.programs[static_cast<size_t>(bucket.program)];
  LineJson kernels = LineJson::array();
  for (const TracedKernel& kernel : node.kernels)
    kernels.push_back(kernel.name);
  LineJson around = LineJson::array();
  for (const AddressRange& region : node.around)
    around.push_back(LineJson::array({region.begin, region.bytes()}));
  LineJson donated = LineJson::array();
  for (const Buffer& given : node.donated)
    donated.push_back(LineJson::array({*given.fixed_offset, given.bytes, given.lifetime[0].upper}));
  return {{"node", node.id},
          {"label", NameOfBucket(trace, node.bucket)},
          {"program", program.name},
          {"variant", program.variant},
          {"symbols", program.symbols},
          {"bucket", bucket.id},
          {"extents", bucket.extents},
          {"scalars", bucket.scalars},
          {"lane", bucket.lane},
          {"graph_nodes", node.graph_nodes},
          {"height_bytes", node.height},
          {"bound_bytes", node.bound},
          {"exec_bytes_estimate", node.exec_bytes},
          {"reason", NameOf(node.reason)},
          {"record_ns", node.record_ns},
          {"kernels", std::move(kernels)},
          {"around", std::move(around)},
          {"donated", std::move(donated)},
          {"buffers", BuffersOf(node)}};
}

// Of the number of a node or a bucket, by its place.
LineJson IdOf(const PoolTrace& trace, int node) {
  return node < 0 ? LineJson() : LineJson(trace.nodes[static_cast<size_t>(node)].id);
}

void AddBucket(const PoolTrace& trace, const TraceEvent& event, LineJson& line) {
  const bool known = event.bucket >= 0;
  line["bucket"] =
      known ? LineJson(trace.buckets[static_cast<size_t>(event.bucket)].id) : LineJson();
  line["label"] = known ? NameOfBucket(trace, event.bucket) : LabelOfProgram(trace, event.program);
}

void AddCall(const PoolTrace& trace, const TraceEvent& event, LineJson& line) {
  line["call"] = event.call;
  AddBucket(trace, event, line);
  line["node"] = IdOf(trace, event.node);
  line["path"] = NameOf(event.path);
  line["reason"] = NameOf(event.reason);
  line["real_elements"] = event.first;
  line["padded_elements"] = event.second;
  line["program"] = LabelOfProgram(trace, event.program);
  line["extents"] =
      std::vector<int32_t>(event.extents.begin(), event.extents.begin() + event.extent_count);
  line["host_ns"] = event.host_ns < 0 ? LineJson() : LineJson(event.host_ns);
  line["outputs"] = NameOf(event.outputs);
}

void AddFailure(const PoolTrace& trace, const TraceEvent& event, LineJson& line) {
  const TracedFailure& failure = trace.failures[static_cast<size_t>(event.failure)];
  AddBucket(trace, event, line);
  line["driver_call"] = failure.driver_call;
  line["code"] = failure.code;
  line["message"] = failure.message;
}

// What a call reads where it lies.
void AddUse(const TraceEvent& event, LineJson& line) {
  line["call"] = event.call;
  line["other_call"] = event.other_call;
  line["input"] = event.input < 0 ? LineJson() : LineJson(event.input);
  line["output"] = event.output < 0 ? LineJson() : LineJson(event.output);
  line["offset_bytes"] = event.first;
}

void AddPolicy(const PoolTrace& trace, const TraceEvent& event, LineJson& line) {
  const TracedProgram& program = trace.programs[static_cast<size_t>(event.program)];
  line["program"] = LabelOf(program);
  line["symbol"] = program.symbols[static_cast<size_t>(event.symbol)];
  line["policy"] = LineJson::parse(trace.policies[static_cast<size_t>(event.policy)]);
}

void AddRequest(const TraceEvent& event, LineJson& line) {
  line["request"] = event.request;
  line["first_token_ns"] = event.first;
  line["last_token_ns"] = event.second;
  line["input_tokens"] = event.input;
  line["output_tokens"] = event.output;
}

void AddBytes(const TraceEvent& event, LineJson& line) {
  line["bytes"] = event.first;
  line["total_bytes"] = event.second;
}

LineJson LineOf(const PoolTrace& trace, const TraceEvent& event) {
  LineJson line = {{"event", NameOf(event.kind)}, {"time_ns", event.time_ns}, {"lane", event.lane}};
  switch (event.kind) {
    case TraceEventKind::kCall:
      AddCall(trace, event, line);
      break;
    case TraceEventKind::kRecord:
    case TraceEventKind::kEvict:
      line["node"] = IdOf(trace, event.node);
      break;
    case TraceEventKind::kFail:
      AddFailure(trace, event, line);
      break;
    case TraceEventKind::kBytes:
      line["kind"] = NameOf(event.memory);
      AddBytes(event, line);
      break;
    case TraceEventKind::kOutputs:
      line["call"] = event.call;
      line["node"] = IdOf(trace, event.node);
      break;
    case TraceEventKind::kUse:
      AddUse(event, line);
      break;
    case TraceEventKind::kPart:
      line["call"] = event.call;
      line["output"] = event.first;
      break;
    case TraceEventKind::kRelease:
      line["call"] = event.call;
      break;
    case TraceEventKind::kExpire:
      line["call"] = event.call;
      line["other_call"] = event.other_call;
      break;
    case TraceEventKind::kMark:
      line["name"] = trace.marks[static_cast<size_t>(event.mark)];
      break;
    case TraceEventKind::kPolicy:
      AddPolicy(trace, event, line);
      break;
    case TraceEventKind::kStatics:
      line["program"] = LabelOfProgram(trace, event.program);
      AddBytes(event, line);
      break;
    case TraceEventKind::kRequest:
      AddRequest(event, line);
      break;
    case TraceEventKind::kDropped:
      line["events"] = event.first;
      break;
    case TraceEventKind::kSuspend:
    case TraceEventKind::kResume:
    case TraceEventKind::kEnd:
      break;
  }
  return line;
}

void PrintLine(const LineJson& line, std::FILE* out) {
  Print(out, "{}\n", line.dump(-1, ' ', false, LineJson::error_handler_t::replace));
}

}  // namespace

ExitCode ProfJson(const ProfOptions& options, const Console& console) {
  const absl::StatusOr<TracedSession> session = ReadTracedSession(options.trace);
  if (!session.ok()) return FailProf(console, session.status());
  PrintLine(OriginOf(*session), console.out);
  for (const TracedNode& node : session->trace.nodes)
    PrintLine(LineOf(session->trace, node), console.out);
  for (const TraceEvent& event : session->events)
    PrintLine(LineOf(session->trace, event), console.out);
  return kExitOk;
}

}  // namespace coppice
