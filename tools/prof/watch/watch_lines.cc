// A label on the left, figures right of it in columns, and bars as wide as there is room.

#include <algorithm>
#include <array>
#include <cmath>

#include "fmt/format.h"

#include "tools/prof/remedy.h"
#include "tools/prof/watch/watch_report.h"
#include "tools/support/byte_text.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

constexpr int64_t kColumnsMin = 20;
constexpr int64_t kLabelColumns = 12;
constexpr int64_t kFigureColumns = 11;
constexpr int64_t kShareColumnsMin = 44;  // Of a line that has room for shares.
constexpr int64_t kBarColumnsMin = 8;
constexpr int64_t kBarColumnsMax = 60;
constexpr size_t kReasonsShown = 3;
constexpr size_t kBucketsShown = 8;
constexpr size_t kMarksShown = 3;
constexpr int64_t kTailSamples = 100;
constexpr double kNearlyFull = 0.75;
constexpr double kFull = 0.9;

std::string Seconds(int64_t ns) {
  return fmt::format("{:.3f} s", static_cast<double>(ns) / 1e9);
}

// "1.23 us": three digits and a unit.
std::string Duration(int64_t ns) {
  static constexpr std::array<const char*, 4> kUnits = {"ns", "us", "ms", "s"};
  auto value = static_cast<double>(ns);
  size_t unit = 0;
  for (; unit + 1 < kUnits.size() && value >= 999.5; ++unit)
    value /= 1000;
  const int digits = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, digits, kUnits[unit]);
}

class WatchLines {
 public:
  WatchLines(const WatchedSession& session, int64_t columns)
      : session_(session), columns_(std::max(columns, kColumnsMin)) {}

  std::vector<StyledLine> Write(const std::string& name) && {
    Head(name);
    if (session_.lanes == 0) return std::move(lines_);  // The trace has not begun.
    Calls();
    Memory();
    Reasons();
    Buckets();
    Graphs();
    Times();
    Marks();
    return std::move(lines_);
  }

 private:
  StyledLine& Line(std::string_view label, TextStyle style = TextStyle::kTitle) {
    lines_.emplace_back();
    return lines_.back().AddLeft(label, kLabelColumns - 1, style).Add(" ");
  }
  StyledLine& Row(std::string_view label) {
    return Line("  " + std::string(label), TextStyle::kPlain);
  }
  // Text under its label, in as many lines as it takes.
  void Wrapped(std::string_view text, int64_t indent, TextStyle style) {
    for (const std::string& line : WrapText(text, columns_ - indent)) {
      lines_.emplace_back(std::string(static_cast<size_t>(indent), ' '));
      lines_.back().Add(line, style);
    }
  }

  // "12.3/s", or nothing at the first look.
  std::string Rate(int64_t lately) const {
    if (!session_.seconds.has_value() || *session_.seconds <= 0) return {};
    const double rate = static_cast<double>(lately) / *session_.seconds;
    return fmt::format("{:.{}f}/s", rate, rate >= 1000 || rate == std::floor(rate) ? 0 : 1);
  }

  void Head(const std::string& name) {
    static constexpr std::array kStyles = {TextStyle::kQuiet, TextStyle::kGood, TextStyle::kWarning,
                                           TextStyle::kQuiet, TextStyle::kBad};
    lines_.emplace_back().Add(name, TextStyle::kTitle);
    const TextStyle style = kStyles[static_cast<size_t>(session_.state)];
    if (session_.state == WatchedState::kEmpty)
      return Paragraph(NameOf(session_.state), "the session has written nothing yet", style);
    if (session_.lanes == 0)
      return Paragraph(NameOf(session_.state), "no trace was written", style);
    Paragraph(NameOf(session_.state),
              fmt::format("{}, {}, {}, {}", Seconds(session_.last_ns), session_.device,
                          Counted(session_.lanes, "lane"), Counted(session_.events, "event")),
              style);
    if (session_.state == WatchedState::kGone)
      Wrapped("the trace has no end, and no process writes to it: the session ended abnormally", 2,
              TextStyle::kBad);
    if (session_.dropped > 0)
      Wrapped(
          fmt::format("the session dropped {} because a ring buffer was full, so counts are too "
                      "low; make TraceOptions::events_per_lane larger, or set wait_when_full",
                      Counted(session_.dropped, "event")),
          2, TextStyle::kBad);
  }

  void Calls() {
    const BucketFigures& calls = session_.sums.calls;
    int64_t lately = 0;
    for (const int64_t path : session_.paths_lately)
      lately += path;
    Line("calls")
        .AddRight(fmt::format("{}", calls.calls()), kFigureColumns)
        .AddRight(Rate(lately), kFigureColumns);
    for (size_t i = 0; i < calls.paths.size(); ++i) {
      if (calls.paths[i] == 0) continue;
      StyledLine& row = Row(NameOf(static_cast<RunKind>(i)))
                            .AddRight(fmt::format("{}", calls.paths[i]), kFigureColumns)
                            .AddRight(Rate(session_.paths_lately[i]), kFigureColumns);
      if (columns_ >= kShareColumnsMin)
        row.AddRight(fmt::format("{:.1f} %", Percent(calls.paths[i], calls.calls())), 9);
    }
    StyledLine& padding =
        Line("padding").AddRight(fmt::format("{:.1f} %", calls.padded_share_pct()), kFigureColumns);
    if (session_.seconds.has_value() && session_.padded_lately > 0)
      padding.Add(fmt::format(
          " of the staged elements, {:.1f} % lately",
          Percent(session_.padded_lately - session_.real_lately, session_.padded_lately)));
  }

  // `of` is what a full bar stands for.
  void Bar(int64_t bytes, int64_t peak, int64_t of, StyledLine& line) const {
    const int64_t room = std::min(columns_ - line.columns() - 10, kBarColumnsMax);
    const double share =
        of <= 0 ? 0 : std::min(1.0, static_cast<double>(bytes) / static_cast<double>(of));
    const TextStyle style = session_.budget == 0   ? TextStyle::kPlain
                            : share >= kFull       ? TextStyle::kBad
                            : share >= kNearlyFull ? TextStyle::kWarning
                                                   : TextStyle::kGood;
    if (room >= kBarColumnsMin) {
      const auto cells = [&](int64_t part) {
        return of <= 0 ? 0
                       : std::min<int64_t>(
                             std::llround(static_cast<double>(room) * static_cast<double>(part) /
                                          static_cast<double>(of)),
                             room);
      };
      const int64_t full = cells(bytes);
      std::string rest(static_cast<size_t>(room - full), '.');
      if (const int64_t most = cells(peak); most > full)
        rest[static_cast<size_t>(most - full - 1)] = '|';
      line.Add(" ").Add(std::string(static_cast<size_t>(full), '#'), style);
      line.Add(rest, TextStyle::kQuiet);
    }
    line.AddRight(fmt::format("{:.1f} %", 100 * share), 8);
  }

  void Memory() {
    const BytesOverTime& total = session_.sums.total;
    const int64_t of = session_.budget > 0 ? session_.budget : total.peak;
    Bar(session_.BytesOf(total), total.peak, of,
        Line("memory").AddRight(FormatBytes(session_.BytesOf(total)), kFigureColumns));
    for (int i = 0; i < kMemoryKindCount; ++i) {
      const BytesOverTime& bytes = session_.sums.kinds[static_cast<size_t>(i)];
      if (bytes.peak == 0) continue;
      const char* const kind = NameOf(static_cast<MemoryKind>(i));
      Bar(session_.BytesOf(bytes), bytes.peak, of,
          Row(kind).AddRight(FormatBytes(session_.BytesOf(bytes)), kFigureColumns));
    }
    Wrapped(
        fmt::format("{}{}; the peak, shown as |, was {}",
                    session_.state == WatchedState::kEnded ? "at the last call; " : "",
                    session_.budget > 0 ? "the budget is " + FormatBytes(of) : "no budget is set",
                    FormatBytes(total.peak)),
        2, TextStyle::kQuiet);
    const BytesOverTime& statics = session_.sums.statics;
    if (statics.peak > 0)
      Paragraph("statics", fmt::format("{}, at most {}: {}", FormatBytes(session_.BytesOf(statics)),
                                       FormatBytes(statics.peak), kStaticsMeaning));
  }

  void Reasons() {
    if (session_.reasons.empty()) return;
    Line("no replay");
    for (size_t i = 0; i < std::min(kReasonsShown, session_.reasons.size()); ++i) {
      const WatchedReason& reason = session_.reasons[i];
      const int64_t name = std::clamp<int64_t>(columns_ - 2 * kFigureColumns - 2, 8, 24);
      lines_.emplace_back("  ");
      lines_.back()
          .AddLeft(NameOf(reason.reason), name)
          .AddRight(fmt::format("{}", reason.calls), kFigureColumns)
          .AddRight(Rate(reason.lately), kFigureColumns);
      Wrapped(RemedyOf(reason.reason), 4, TextStyle::kQuiet);
    }
    if (session_.reasons.size() > kReasonsShown)
      Wrapped(
          fmt::format("and {} more; see coppice prof why", session_.reasons.size() - kReasonsShown),
          2, TextStyle::kQuiet);
  }

  void Buckets() {
    if (session_.buckets.empty()) return;
    const bool wide = columns_ >= 70;
    const int64_t figures = 2 * kFigureColumns + (wide ? 20 : 0);
    const int64_t name = std::clamp<int64_t>(columns_ - figures - 2, 8, 60);
    StyledLine& head = lines_.emplace_back("buckets", TextStyle::kTitle);
    head.AddLeft(", busiest lately", name + 2 - head.columns(), TextStyle::kQuiet)
        .AddRight("calls", kFigureColumns, TextStyle::kQuiet)
        .AddRight(session_.seconds.has_value() ? "rate" : "", kFigureColumns, TextStyle::kQuiet);
    if (wide)
      head.AddRight("lane", 6, TextStyle::kQuiet).AddRight("last at", 14, TextStyle::kQuiet);
    for (size_t i = 0; i < std::min(kBucketsShown, session_.buckets.size()); ++i) {
      const WatchedBucket& bucket = session_.buckets[i];
      StyledLine& line = lines_.emplace_back("  ")
                             .AddLeft(bucket.name, name)
                             .AddRight(fmt::format("{}", bucket.calls), kFigureColumns)
                             .AddRight(Rate(bucket.lately), kFigureColumns);
      if (wide)
        line.AddRight(fmt::format("{}", bucket.lane), 6).AddRight(Seconds(bucket.last_ns), 14);
    }
  }

  void Graphs() {
    const BucketFigures& calls = session_.sums.calls;
    const std::string text =
        fmt::format("{} kept of {} recorded, {} evicted, in {}; executables take {}, an estimate",
                    calls.recorded - calls.evicted, calls.recorded, calls.evicted,
                    Counted(session_.bucket_count, "bucket"), FormatBytes(calls.exec_bytes));
    Paragraph("graphs", text);
    if (session_.sums.suspends > 0)
      Paragraph("suspended", session_.sums.suspends == 1
                                 ? "once"
                                 : fmt::format("{} times", session_.sums.suspends));
  }

  void TimesOf(std::string_view label, const WatchedTimes& times) {
    if (times.count == 0) return;
    // Of few, the most is the 99th percentile.
    const std::string p99 =
        times.count < kTailSamples ? "" : fmt::format("p99 {}, ", Duration(times.p99_ns));
    Paragraph(label,
              fmt::format("p50 {}, p90 {}, {}most {}, of {}", Duration(times.p50_ns),
                          Duration(times.p90_ns), p99, Duration(times.most_ns), times.count));
  }

  void Times() {
    TimesOf("1st token", session_.first_token);
    TimesOf("next token", session_.further_token);
    if (session_.first_token.count > 0)
      Wrapped("tokens are timed by the application's clock, which may be virtual", 2,
              TextStyle::kQuiet);
    for (size_t path = 0; path < session_.host.size(); ++path)
      TimesOf(fmt::format("host {}", NameOf(static_cast<RunKind>(path))), session_.host[path]);
  }

  void Marks() {
    for (size_t i = 0; i < std::min(kMarksShown, session_.marks.size()); ++i)
      Paragraph(i == 0 ? "marks" : "",
                fmt::format("{}  {}", Seconds(session_.marks[i].time_ns), session_.marks[i].name));
  }

  // A label, and text right of it in as many lines as it takes.
  void Paragraph(std::string_view label,
                 std::string_view text,
                 TextStyle style = TextStyle::kTitle) {
    const std::vector<std::string> wrapped = WrapText(text, columns_ - kLabelColumns);
    for (size_t i = 0; i < wrapped.size(); ++i)
      Line(i == 0 ? label : "", style).Add(wrapped[i]);
  }

  const WatchedSession& session_;
  const int64_t columns_;
  std::vector<StyledLine> lines_;
};

}  // namespace

std::vector<StyledLine> LinesOfWatch(const WatchedSession& session,
                                     const std::string& name,
                                     int64_t columns) {
  return WatchLines(session, columns).Write(name);
}

}  // namespace coppice
