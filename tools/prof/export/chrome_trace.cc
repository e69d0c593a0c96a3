// One event per line.

#include <iterator>
#include <utility>
#include <variant>

#include "fmt/compile.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "tools/prof/export/text_formats.h"
#include "tools/prof/export/timeline.h"

namespace coppice {
namespace {

std::string ChromeText(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

class ChromeWriter {
 public:
  ChromeWriter(const TracedSession& session, const Timeline& timeline) : session_(session) {
    for (const std::string& name : timeline.names)
      names_.push_back(ChromeText(name));
    for (const std::string& name : CounterNames())
      counters_.push_back(ChromeText(name));
    text_ = R"({"displayTimeUnit":"ns","traceEvents":[)";
    Metadata("process_name", 0, "coppice on " + session.trace.device);
    for (size_t i = 0; i < timeline.tracks.size(); ++i)
      Metadata("thread_name", i, timeline.tracks[i]);
  }

  void Write(const TimelineEvent& event) {
    Separate();
    const auto out = std::back_inserter(text_);
    const int64_t us = event.time_ns / 1000;
    const int64_t ns = event.time_ns % 1000;
    if (event.kind == TimelineKind::kCounter) {
      fmt::format_to(
          out, FMT_COMPILE(R"({{"ph":"C","pid":1,"ts":{}.{:03},"name":{},"args":{{"bytes":{}}}}})"),
          us, ns, counters_[static_cast<size_t>(event.track)], event.value);
      return;
    }
    const bool slice = event.kind == TimelineKind::kSlice;
    fmt::format_to(out, FMT_COMPILE(R"({{"ph":"{}","pid":1,"tid":{},"ts":{}.{:03},)"),
                   slice ? "X" : "i", event.track, us, ns);
    if (slice) {
      fmt::format_to(out, FMT_COMPILE(R"("dur":{}.{:03},)"), event.duration_ns / 1000,
                     event.duration_ns % 1000);
    } else {
      text_ += R"("s":"t",)";
    }
    fmt::format_to(out, FMT_COMPILE(R"("name":{},"args":{{)"),
                   names_[static_cast<size_t>(event.name)]);
    bool first = true;
    for (const TimelineFact& fact : FactsOf(session_, event)) {
      fmt::format_to(out, FMT_COMPILE("{}\"{}\":"), first ? "" : ",", fact.name);
      first = false;
      const std::string* const text = std::get_if<std::string>(&fact.value);
      if (text != nullptr) {
        text_ += ChromeText(*text);
      } else if (const int64_t* const number = std::get_if<int64_t>(&fact.value)) {
        fmt::format_to(out, FMT_COMPILE("{}"), *number);
      } else {
        text_ += nlohmann::json(std::get<double>(fact.value)).dump();  // 1.0 stays a double.
      }
    }
    text_ += "}}";
  }

  std::string Finish() {
    text_ +=
        "\n],\"otherData\":" +
        OriginOf(session_).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
        "}\n";
    return std::move(text_);
  }

 private:
  void Separate() {
    text_ += first_ ? "\n" : ",\n";
    first_ = false;
  }

  void Metadata(const char* what, size_t thread, const std::string& name) {
    Separate();
    text_ += fmt::format(R"({{"ph":"M","pid":1,"tid":{},"name":"{}","args":{{"name":{}}}}})",
                         thread, what, ChromeText(name));
  }

  const TracedSession& session_;
  std::vector<std::string> names_;  // Quoted.
  std::vector<std::string> counters_;
  std::string text_;
  bool first_ = true;
};

}  // namespace

std::string ChromeTraceOf(const TracedSession& session) {
  const Timeline timeline = TimelineOf(session);
  ChromeWriter writer(session, timeline);
  for (const TimelineEvent& event : timeline.events)
    writer.Write(event);
  return writer.Finish();
}

}  // namespace coppice
