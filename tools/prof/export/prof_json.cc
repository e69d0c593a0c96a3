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

// Writes an event's fields under their names, and what numbers stand for in their place.
class FieldWriter {
 public:
  FieldWriter(const PoolTrace& trace, LineJson& line) : trace_(trace), line_(line) {}

  template <typename Field>
  void operator()(const char* name, const Field& field, int64_t least) {
    if constexpr (std::is_enum_v<Field>) {
      line_[name] = NameOf(field);
    } else if constexpr (std::is_integral_v<Field>) {
      line_[name] = field < 0 && least < 0 ? LineJson() : LineJson(field);
    } else {
      Write(name, field);
    }
  }

 private:
  void Write(const char* name, ProgramNumber program) {
    program_ = program;
    line_[name] = LabelOfProgram(trace_, program);
  }
  void Write(const char* name, BucketNumber bucket) {
    const bool known = bucket >= 0;
    line_[name] = known ? LineJson(trace_.buckets[static_cast<size_t>(bucket)].id) : LineJson();
    line_["label"] = known ? NameOfBucket(trace_, bucket) : "-";
  }
  void Write(const char* name, NodeNumber node) {
    line_[name] = node < 0 ? LineJson() : LineJson(trace_.nodes[static_cast<size_t>(node)].id);
  }
  void Write(const char* /*name*/, FailureNumber number) {
    const TracedFailure& failure = trace_.failures[static_cast<size_t>(number)];
    line_["driver_call"] = failure.driver_call;
    line_["code"] = failure.code;
    line_["message"] = failure.message;
  }
  void Write(const char* /*name*/, MarkNumber mark) {
    line_["name"] = trace_.marks[static_cast<size_t>(mark)];
  }
  void Write(const char* name, SymbolNumber symbol) {
    const TracedProgram& program = trace_.programs[static_cast<size_t>(program_)];
    line_[name] = program.symbols[static_cast<size_t>(symbol)];
  }
  void Write(const char* name, PolicyNumber policy) {
    line_[name] = LineJson::parse(trace_.policies[static_cast<size_t>(policy)]);
  }
  void Write(const char* name, const TraceExtents& extents) {
    line_[name] = std::vector<int32_t>(extents.values().begin(), extents.values().end());
  }

  const PoolTrace& trace_;
  LineJson& line_;
  int program_ = -1;  // That was named.
};

LineJson LineOf(const PoolTrace& trace, const TracedEvent& event) {
  LineJson line = {{"event", NameOf(event.what)}, {"time_ns", event.time_ns}, {"lane", event.lane}};
  std::visit([&](const auto& what) { VisitFields(what, FieldWriter(trace, line)); }, event.what);
  // A call that no bucket serves is called as its program is.
  if (const auto* const call = event.As<CallEvent>(); call != nullptr && call->bucket < 0)
    line["label"] = LabelOfProgram(trace, call->program);
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
  for (const TracedEvent& event : session->events)
    PrintLine(LineOf(session->trace, event), console.out);
  return kExitOk;
}

}  // namespace coppice
