// Scripts as text.

#include "tests/sim/traffic_script.h"

#include <charconv>

#include "tests/sim/traffic_programs.h"

namespace coppice {
namespace {

constexpr const char* kKinds[] = {
    "call",  "include",   "read",   "hold",     "loose",  "drop",  "release",  "split",
    "chain", "unchain",   "sync",   "bind",     "unbind", "evict", "reset",    "warm",
    "trim",  "suspend",   "resume", "lend",     "return", "scrub", "external", "stance",
    "seed",  "breakdown", "fault",  "rebucket", "policy"};

template <typename T>
struct Field {
  const char* name;
  int64_t T::*member;
};

constexpr Field<TrafficOptions> kOptions[] = {{"order", &TrafficOptions::order},
                                              {"eager_permille", &TrafficOptions::eager_permille},
                                              {"lanes", &TrafficOptions::lanes},
                                              {"warmup_runs", &TrafficOptions::warmup_runs},
                                              {"graphs_max", &TrafficOptions::graphs_max},
                                              {"rerecords_max", &TrafficOptions::rerecords_max},
                                              {"on_limit", &TrafficOptions::on_limit},
                                              {"copy_out_bytes", &TrafficOptions::copy_out_bytes},
                                              {"background", &TrafficOptions::background},
                                              {"gate", &TrafficOptions::gate},
                                              {"audit_keys", &TrafficOptions::audit_keys},
                                              {"check_addresses", &TrafficOptions::check_addresses},
                                              {"poison_expired", &TrafficOptions::poison_expired},
                                              {"symbol_kind", &TrafficOptions::symbol_kind},
                                              {"exclude_01", &TrafficOptions::exclude_01},
                                              {"dtype", &TrafficOptions::dtype},
                                              {"other_dtype", &TrafficOptions::other_dtype},
                                              {"outlive", &TrafficOptions::outlive},
                                              {"constants", &TrafficOptions::constants},
                                              {"budget_kib", &TrafficOptions::budget_kib},
                                              {"on_budget", &TrafficOptions::on_budget},
                                              {"packages", &TrafficOptions::packages}};

constexpr Field<TrafficOperation> kFields[] = {
    {"id", &TrafficOperation::id},           {"program", &TrafficOperation::program},
    {"extent", &TrafficOperation::extent},   {"m", &TrafficOperation::m},
    {"data", &TrafficOperation::data},       {"source", &TrafficOperation::source},
    {"output", &TrafficOperation::output},   {"skip", &TrafficOperation::skip},
    {"layout", &TrafficOperation::layout},   {"shorter", &TrafficOperation::shorter},
    {"other", &TrafficOperation::other},     {"scoped", &TrafficOperation::scoped},
    {"unnamed", &TrafficOperation::unnamed}, {"donate", &TrafficOperation::donate},
    {"count", &TrafficOperation::count},     {"scalar", &TrafficOperation::scalar},
    {"statics", &TrafficOperation::statics}, {"lane", &TrafficOperation::lane},
    {"stream", &TrafficOperation::stream},   {"mode", &TrafficOperation::mode},
    {"target", &TrafficOperation::target},   {"padding", &TrafficOperation::padding},
    {"explain", &TrafficOperation::explain}, {"everything", &TrafficOperation::everything},
    {"refuses", &TrafficOperation::refuses}, {"nth", &TrafficOperation::nth},
    {"value", &TrafficOperation::value}};

template <typename T, size_t kCount>
std::string FieldsOf(const T& value, const Field<T> (&fields)[kCount]) {
  std::string text;
  const T plain;
  for (const Field<T>& field : fields) {
    const int64_t number = value.*field.member;
    if (number == plain.*field.member) continue;
    text += fmt::format(" {}=", field.name);
    text += std::string_view(field.name) == "program"
                ? TrafficPrograms()[static_cast<size_t>(number)].name
                : std::to_string(number);
  }
  return text;
}

std::optional<int64_t> NumberOf(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<int64_t> ProgramNamed(std::string_view name) {
  const auto programs = TrafficPrograms();
  const auto found = std::ranges::find(programs, name, &TrafficProgram::name);
  if (found == programs.end()) return std::nullopt;
  return found - programs.begin();
}

// Reads "name=value" words.
template <typename T, size_t kCount>
absl::Status ReadFields(std::istringstream& words, const Field<T> (&fields)[kCount], T& value) {
  std::string word;
  while (words >> word) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const auto field = std::ranges::find(fields, std::string_view(name), &Field<T>::name);
    std::optional<int64_t> number;
    if (equals != std::string::npos) {
      const std::string text = word.substr(equals + 1);
      number = name == "program" ? ProgramNamed(text) : NumberOf(text);
    }
    if (field == std::end(fields) || !number)
      return InvalidArgument("ParseScript: '{}' is no field with a value", word);
    value.*field->member = *number;
  }
  return absl::OkStatus();
}

template <typename T, size_t kCount>
std::vector<int64_t T::*> MembersOf(const Field<T> (&fields)[kCount]) {
  std::vector<int64_t T::*> members;
  for (const Field<T>& field : fields)
    members.push_back(field.member);
  return members;
}

}  // namespace

std::string TextOf(const TrafficOperation& operation) {
  return kKinds[static_cast<size_t>(operation.kind)] + FieldsOf(operation, kFields);
}

std::string TextOf(const TrafficScript& script) {
  std::string text = "options" + FieldsOf(script.options, kOptions) + "\n";
  for (const TrafficOperation& operation : script.operations)
    text += TextOf(operation) + "\n";
  return text;
}

absl::StatusOr<TrafficScript> ParseScript(const std::string& text) {
  TrafficScript script;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string kind;
    if (!(words >> kind) || kind[0] == '#') continue;
    if (kind == "options") {
      COPPICE_RETURN_IF_ERROR(ReadFields(words, kOptions, script.options));
      continue;
    }
    const auto found = std::ranges::find(kKinds, kind);
    if (found == std::end(kKinds))
      return InvalidArgument("ParseScript: '{}' is no operation; in '{}'", kind, line);
    TrafficOperation operation{.kind =
                                   static_cast<TrafficOperation::Kind>(found - std::begin(kKinds))};
    COPPICE_RETURN_IF_ERROR(ReadFields(words, kFields, operation));
    script.operations.push_back(operation);
  }
  return script;
}

std::span<int64_t TrafficOptions::*const> OptionFields() {
  static const std::vector<int64_t TrafficOptions::*> members = MembersOf(kOptions);
  return members;
}

std::span<int64_t TrafficOperation::*const> OperationFields() {
  static const std::vector<int64_t TrafficOperation::*> members = MembersOf(kFields);
  return members;
}

}  // namespace coppice
