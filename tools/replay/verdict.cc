// A verdict for people, and for scripts.

#include "tools/replay/verdict.h"

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"

#include "tools/support/printable.h"

namespace coppice {
namespace {

template <typename Value>
nlohmann::ordered_json OrNull(bool known, const Value& value) {
  return known ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}

// "program 'main', step 2, kernel Add, PTX line 36, file.py:12, block (0, 0, 0), thread (5, 0, 0)"
std::string WhereText(const Verdict& verdict) {
  std::vector<std::string> parts;
  if (verdict.call > 0) parts.push_back(fmt::format("call {}", verdict.call));
  if (!verdict.program.empty()) parts.push_back(fmt::format("program '{}'", verdict.program));
  if (verdict.step >= 0) parts.push_back(fmt::format("step {}", verdict.step));
  if (!verdict.kernel.empty()) parts.push_back(fmt::format("kernel {}", verdict.kernel));
  if (verdict.ptx_line > 0) parts.push_back(fmt::format("PTX line {}", verdict.ptx_line));
  if (!verdict.source.empty()) parts.push_back(verdict.source);
  if (verdict.has_thread)
    parts.push_back(fmt::format("block ({}), thread ({})", fmt::join(verdict.block, ", "),
                                fmt::join(verdict.thread, ", ")));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string HitText(const Hit& hit) {
  if (hit.buffer.empty()) return {};
  if (hit.program.empty()) return fmt::format("; it hits {}", hit.buffer);
  return fmt::format("; it hits '{}' of program '{}'", hit.buffer, hit.program);
}

}  // namespace

const char* NameOf(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kNothing:
      return "nothing";
    case VerdictKind::kOutOfBounds:
      return "out_of_bounds";
    case VerdictKind::kMisaligned:
      return "misaligned";
    case VerdictKind::kRace:
      return "race";
    case VerdictKind::kUninitialized:
      return "uninitialized";
    case VerdictKind::kStaleInput:
      return "stale_input";
    case VerdictKind::kWrongClaim:
      return "wrong_claim";
    case VerdictKind::kBakedIn:
      return "baked_in";
    case VerdictKind::kDiffers:
      return "differs";
    case VerdictKind::kFault:
      return "fault";
    case VerdictKind::kCannotReplay:
      return "cannot_replay";
  }
  return "?";
}

namespace {

using Json = nlohmann::ordered_json;

Json JsonOf(const FollowedPadding& followed) {
  Json json = {{"call", followed.call},
               {"program", followed.program},
               {"symbol", followed.symbol},
               {"may_be_anything", followed.may_be_anything}};
  if (!followed.path) {
    json["why_not_followed"] = followed.why;
    return json;
  }
  const PaddingPath& path = *followed.path;
  json["text"] = TextOf(path);
  json["reaches_output"] = path.reaches_output;
  json["gaps"] = path.gaps;
  if (path.step < 0) return json;
  const PaddingReach& reach = path.reach;
  json["first"] = {{"inputs", path.inputs},
                   {"buffer", path.buffer},
                   {"is_output", path.is_output},
                   {"element", path.element},
                   {"step", path.step},
                   {"kernel", OrNull(!reach.kernel.empty(), reach.kernel)},
                   {"ptx_line", OrNull(reach.line > 0, reach.line)},
                   {"source", OrNull(!reach.source.empty(), reach.source)},
                   {"thread", Json{{"block", reach.block}, {"thread", reach.thread}}}};
  return json;
}

Json JsonOf(const FollowedInputs& followed) {
  Json json = {{"call", followed.call}, {"program", followed.program}};
  if (!followed.reach) {
    json["why_not_followed"] = followed.why;
    return json;
  }
  json["outputs"] = Json::object();
  for (const OutputInputs& each : followed.reach->outputs)
    json["outputs"][each.output] = each.inputs;
  json["gaps"] = followed.reach->gaps;
  return json;
}

template <typename Followed>
Json ListOf(const std::vector<Followed>& all) {
  Json list = Json::array();
  for (const Followed& each : all)
    list.push_back(JsonOf(each));
  return list;
}

}  // namespace

std::string FormatVerdict(const Verdict& verdict, const std::string& path) {
  const std::string where = WhereText(verdict);
  std::string text =
      Printable(fmt::format("{}: {}: {}{}{}{}", path, NameOf(verdict.kind), where,
                            where.empty() ? "" : ": ", verdict.text, HitText(verdict.hit)));
  if (verdict.call > 0) text += fmt::format(" ({})", TextOf(verdict.way));
  text += "\n";
  for (const std::string& note : verdict.notes)
    text += fmt::format("note: {}\n", Printable(note));
  for (const FollowedPadding& each : verdict.padding)
    text += fmt::format(
        "note: call {}, size {}: {}\n", each.call, Printable(each.symbol),
        Printable(each.path ? TextOf(*each.path) : "padding cannot be followed: " + each.why));
  for (const FollowedInputs& each : verdict.inputs)
    text += fmt::format(
        "note: call {}: {}\n", each.call,
        Printable(each.reach ? TextOf(*each.reach) : "inputs cannot be followed: " + each.why));
  if (!verdict.shrunk.empty())
    text += fmt::format("shrunk: {}: sizes {}, run with {}\n", verdict.shrunk, verdict.extents,
                        verdict.bucket);
  return text;
}

std::string FormatVerdictJson(const Verdict& verdict, const std::string& path) {
  const bool wrong = verdict.kind != VerdictKind::kNothing;
  nlohmann::ordered_json json = {
      {"case", path},
      {"verdict", wrong ? FormatVerdict({.kind = verdict.kind,
                                         .text = verdict.text,
                                         .call = verdict.call,
                                         .program = verdict.program,
                                         .step = verdict.step,
                                         .kernel = verdict.kernel,
                                         .ptx_line = verdict.ptx_line,
                                         .source = verdict.source,
                                         .has_thread = verdict.has_thread,
                                         .block = verdict.block,
                                         .thread = verdict.thread,
                                         .hit = verdict.hit,
                                         .way = verdict.way},
                                        path)
                        : verdict.text},
      {"kind", NameOf(verdict.kind)},
      {"call", OrNull(verdict.call > 0, verdict.call)},
      {"program", OrNull(!verdict.program.empty(), verdict.program)},
      {"step", OrNull(verdict.step >= 0, verdict.step)},
      {"kernel", OrNull(!verdict.kernel.empty(), verdict.kernel)},
      {"ptx_line", OrNull(verdict.ptx_line > 0, verdict.ptx_line)},
      {"source", OrNull(!verdict.source.empty(), verdict.source)},
      {"thread", OrNull(verdict.has_thread, nlohmann::ordered_json{{"block", verdict.block},
                                                                   {"thread", verdict.thread}})},
      {"hit", OrNull(!verdict.hit.buffer.empty(),
                     nlohmann::ordered_json{{"buffer", verdict.hit.buffer},
                                            {"program", verdict.hit.program}})},
      {"way", OrNull(verdict.call > 0, TextOf(verdict.way))},
      {"extents", verdict.extents},
      {"bucket", verdict.bucket},
      {"shrunk", OrNull(!verdict.shrunk.empty(), verdict.shrunk)},
      {"notes", verdict.notes},
      {"padding", ListOf(verdict.padding)},
      {"depends", ListOf(verdict.inputs)}};
  std::string& text = json["verdict"].get_ref<std::string&>();
  if (text.ends_with('\n')) text.pop_back();
  // Names in a file need not be UTF-8.
  return json.dump(2, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace coppice
