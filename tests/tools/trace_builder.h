// Writes trace files (coppice/graphs/trace_events.h) for tests of those who read them.
//
// Every event comes 1000 ns after the one before it. Numbers are those of the file: programs,
// buckets and nodes count from 0 in the order of their definitions.
//
// Threads: one at a time.

#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "gtest/gtest.h"

namespace coppice {

class TraceBuilder {
 public:
  struct Place {
    int64_t offset = 0;
    int64_t bytes = 0;
    int output = -1;
    std::vector<int64_t> lifetime;
  };
  struct NodeSpec {
    int bucket = 0;
    int64_t height = 0;
    int64_t live = 0;
    std::vector<Place> buffers;
    std::vector<std::pair<int64_t, int64_t>> around;
  };

  explicit TraceBuilder(int lanes = 1, int64_t budget = 0) {
    Line(R"({{"schema":"coppice.trace/6","device":"Emulated <GPU>","lanes":{},)"
         R"("granularity":4096,"budget":{},"options":{{}}}})",
         lanes, budget);
  }

  // Any line. Returns its number, from 1.
  template <typename... Args>
  int64_t Line(fmt::format_string<Args...> format, Args&&... args) {
    lines_.push_back(fmt::format(format, std::forward<Args>(args)...));
    return static_cast<int64_t>(lines_.size());
  }

  void Program(const std::string& name, const std::string& variant = "") {
    Line(R"({{"program":{},"name":"{}","variant":"{}","symbols":["batch"],"scalars":[],)"
         R"("spec":{{}},"policies":[],"joint":[]}})",
         programs_++, name, variant);
  }
  void Bucket(int program, int64_t extent, int lane = 0) {
    Line(R"({{"bucket":{},"program":{},"lane":{},"extents":[{}],"scalars":[]}})", buckets_++,
         program, lane, extent);
    programs_of_buckets_.push_back(program);
  }
  int64_t Node(const NodeSpec& spec) {
    std::vector<std::string> buffers;
    for (const Place& place : spec.buffers) {
      buffers.push_back(fmt::format("[{},{},{},[{}],\"\"]", place.offset, place.bytes, place.output,
                                    fmt::join(place.lifetime, ",")));
    }
    std::vector<std::string> around;
    for (const auto& [offset, bytes] : spec.around)
      around.push_back(fmt::format("[{},{}]", offset, bytes));
    return Line(R"({{"node":{},"bucket":{},"height":{},"live":{},"method":"size","graph_nodes":12,)"
                R"("exec_bytes":1000,"record_ns":2000000,"reason":"new_bucket","around":[{}],)"
                R"("kernels":[],"buffers":[{}]}})",
                nodes_++, spec.bucket, spec.height, spec.live, fmt::join(around, ","),
                fmt::join(buffers, ","));
  }

  void Failure(const std::string& driver_call,
               const std::string& code,
               const std::string& message) {
    Line(R"({{"failure":{},"driver_call":"{}","code":"{}","message":"{}"}})", failures_++,
         driver_call, code, message);
  }

  // An event of the kind and lane, with its further values as they stand in the file.
  int64_t Event(std::string_view kind, int lane, std::string_view values = "") {
    time_ns_ += 1000;
    return Line(R"([{},"{}",{}{}{}])", time_ns_, kind, lane, values.empty() ? "" : ",", values);
  }
  int64_t Call(int call,
               int bucket,
               int node,
               std::string_view path,
               std::string_view reason = "none",
               int lane = 0) {
    const auto place = static_cast<size_t>(bucket);
    const int program = place < programs_of_buckets_.size() ? programs_of_buckets_[place] : 0;
    return Event("call", lane,
                 fmt::format(R"({},{},{},"{}","{}",6,8,{},[6],-1,"borrow")", call, bucket, node,
                             path, reason, program));
  }

  // Text that replaces a line, or takes it out if it is empty.
  void Replace(int64_t line, std::string text) {
    lines_[static_cast<size_t>(line - 1)] = std::move(text);
  }
  const std::string& line(int64_t number) const { return lines_[static_cast<size_t>(number - 1)]; }

  std::string Text() const {
    std::string text;
    for (const std::string& line : lines_)
      if (!line.empty()) text += line + "\n";
    return text;
  }

 private:
  std::vector<std::string> lines_;
  int programs_ = 0;
  int buckets_ = 0;
  std::vector<int> programs_of_buckets_;
  int nodes_ = 0;
  int failures_ = 0;
  int64_t time_ns_ = 0;
};

// A file that goes with the test.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text, const std::string& name = "trace")
      : path_(PathFor(name)) {
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }
  std::string Read() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  static std::string PathFor(const std::string& name) {
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    return fmt::format("{}/coppice_{}_{}_{}", testing::TempDir(), test.test_suite_name(),
                       test.name(), name);
  }

  std::string path_;
};

// A small session in order: two buckets of one program share bytes, a call reads another's outputs
// in place, a graph goes around them, memory is accounted, everything is given up, and it ends.
//
//   node 0, bucket 0 (8 rows)    [0, 4096) output until the end, [4096, 12288) temp
//   node 1, bucket 1 (4 rows)    [0, 2048) output until the end, [2048, 6144) temp
//   node 2, bucket 1             around [0, 4096): [4096, 6144) output, [6144, 8192) temp
inline TraceBuilder CleanTrace(int64_t budget = 0) {
  TraceBuilder trace(/*lanes=*/1, budget);
  trace.Program("decode");
  trace.Bucket(0, 8);
  trace.Bucket(0, 4);
  trace.Event("bytes", -1, R"("eager",4096,4096)");
  trace.Call(1, 0, -1, "warm_up", "new_bucket");
  trace.Event("outputs", 0, "1,-1");
  trace.Event("release", 0, "1");
  trace.Event("bytes", -1, R"("nodes",12288,16384)");
  trace.Node({.bucket = 0,
              .height = 12288,
              .live = 12288,
              .buffers = {{0, 4096, 0, {1, 3}}, {4096, 8192, -1, {0, 2}}}});
  trace.Event("record", 0, "0");
  trace.Event("bytes", -1, R"("graphs",1000,17384)");
  trace.Call(2, 0, 0, "record", "new_bucket");
  trace.Call(3, 1, -1, "warm_up", "new_bucket");
  trace.Node({.bucket = 1,
              .height = 6144,
              .live = 6144,
              .buffers = {{0, 2048, 0, {0, 2}}, {2048, 4096, -1, {0, 1}}}});
  trace.Event("record", 0, "1");
  trace.Call(4, 1, 1, "record", "new_bucket");
  trace.Call(5, 0, 0, "replay");
  trace.Event("outputs", 0, "5,0");
  trace.Node({.bucket = 1,
              .height = 8192,
              .live = 8192,
              .buffers = {{4096, 2048, 0, {0, 2}}, {6144, 2048, -1, {0, 1}}},
              .around = {{0, 4096}}});
  trace.Event("record", 0, "2");
  trace.Event("use", 0, "6,5,0,0,0");
  trace.Call(6, 1, 2, "record", "other_live_regions");
  trace.Event("outputs", 0, "6,2");
  trace.Event("release", 0, "5");
  trace.Event("expire", 0, "6,7");
  trace.Call(7, 0, 0, "replay");
  trace.Event("release", 0, "6");
  trace.Event("suspend", -1);
  trace.Event("resume", -1);
  trace.Call(8, -1, -1, "eager", "over_largest_bucket");
  return trace;
}

}  // namespace coppice
