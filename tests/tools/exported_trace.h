// Runs `coppice prof export` on traces written by hand.
//
// Threads: one at a time.

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "tests/tools/command_outcome.h"
#include "tests/tools/trace_builder.h"

namespace coppice {

using ExportedValue = nlohmann::json;

inline CommandOutcome RunExport(const TraceBuilder& trace, std::vector<std::string> arguments) {
  const TemporaryFile file(trace.Text());
  arguments.insert(arguments.begin(), {"prof", "export"});
  arguments.insert(arguments.begin() + 3, file.path());
  return RunCoppice(arguments);
}

// What is written to a file by these arguments, of which the first is the format.
inline std::string Exported(const TraceBuilder& trace, std::vector<std::string> arguments) {
  const TemporaryFile out("", "out");
  arguments.insert(arguments.end(), {"-o", out.path()});
  const CommandOutcome outcome = RunExport(trace, arguments);
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "");
  return out.Read();
}

inline ExportedValue ExportedJson(const TraceBuilder& trace, std::vector<std::string> arguments) {
  return ExportedValue::parse(Exported(trace, std::move(arguments)), nullptr,
                              /*allow_exceptions=*/false);
}

// A program with a bucket and two nodes, whose recordings take two milliseconds; the first has two
// kernels, and names for its outputs of which the second has none.
inline TraceBuilder NamedTrace() {
  TraceBuilder trace;
  trace.Program("decode", "int8");
  trace.Bucket(0, 8);
  trace.Line(R"({{"node":0,"bucket":0,"height":4096,"live":4096,"method":"size","graph_nodes":2,)"
             R"("exec_bytes":1,"record_ns":2000000,"reason":"new_bucket","around":[],)"
             R"("kernels":[["Attend",[64,1,1],[256,1,1],8192],["Sample",[1,1,1],[32,1,1],0]],)"
             R"("buffers":[[0,1024,0,[1,3],"logits"],[1024,1024,1,[1,3],""],)"
             R"([2048,1024,-1,[0,1],"hidden"],[3072,1024,-1,[1,2],"hidden"]]}})");
  trace.Line(R"({{"node":1,"bucket":0,"height":64,"live":64,"method":"size","graph_nodes":1,)"
             R"("exec_bytes":1,"record_ns":2000000,"reason":"new_bucket","around":[],)"
             R"("kernels":[],"buffers":[[0,64,-1,[0,1],""]]}})");
  return trace;
}

}  // namespace coppice
