// A trace's file, line by line, for tests.
//
// Threads: plain values.

#pragma once

#include <unistd.h>

#include "nlohmann/json.hpp"

#include "tests/support/test.h"

namespace coppice {

// A path for a file that goes with the test, another in every process that runs it.
class TracePath {
 public:
  TracePath()
      : path_(testing::TempDir() + "/coppice_trace_" +
              testing::UnitTest::GetInstance()->current_test_info()->name() + "_" +
              std::to_string(getpid())) {}
  ~TracePath() { std::filesystem::remove(path_); }
  TracePath(const TracePath&) = delete;
  TracePath& operator=(const TracePath&) = delete;

  const std::string& str() const { return path_; }

 private:
  std::string path_;
};

// Every line as JSON. One that is none, or a file that does not end in a full line, is a failure.
inline std::vector<nlohmann::json> ParseTrace(const std::string& text) {
  std::vector<nlohmann::json> lines;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = text.find('\n', begin);
    EXPECT_NE(end, std::string::npos) << "the file ends within a line";
    if (end == std::string::npos) break;
    lines.push_back(nlohmann::json::parse(text.substr(begin, end - begin), nullptr,
                                          /*allow_exceptions=*/false));
    EXPECT_FALSE(lines.back().is_discarded()) << text.substr(begin, end - begin);
    begin = end + 1;
  }
  return lines;
}

inline std::vector<nlohmann::json> ReadTrace(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return ParseTrace(std::string(std::istreambuf_iterator<char>(file), {}));
}

// The events of one kind, in order.
inline std::vector<nlohmann::json> EventsOf(const std::vector<nlohmann::json>& lines,
                                            const std::string& kind) {
  std::vector<nlohmann::json> events;
  for (const nlohmann::json& line : lines) {
    if (line.is_array() && line[1] == kind) events.push_back(line);
  }
  return events;
}

// Which of "schema", "program", "bucket", "node", "failure", "mark" and "policy" a definition
// defines.
inline std::string DefinedBy(const nlohmann::json& line) {
  for (const char* kind : {"schema", "failure", "mark", "policy", "node", "bucket", "program"}) {
    if (line.contains(kind)) return kind;  // A bucket names its program, a node its bucket.
  }
  return "nothing";
}

inline std::vector<nlohmann::json> DefinitionsOf(const std::vector<nlohmann::json>& lines,
                                                 const std::string& kind) {
  std::vector<nlohmann::json> definitions;
  for (const nlohmann::json& line : lines) {
    if (line.is_object() && DefinedBy(line) == kind) definitions.push_back(line);
  }
  return definitions;
}

}  // namespace coppice
