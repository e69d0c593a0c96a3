// Fields of a case, written and read.

#include "graphs/case/case_document.h"

#include <array>
#include <charconv>
#include <set>
#include <utility>

#include "nlohmann/json.hpp"

#include "coppice/base/status.h"
#include "coppice/graphs/program.h"

#include "base/json_document.h"
#include "base/json_fields.h"

namespace coppice::internal {
namespace {

constexpr char kSchema[] = "coppice-case";
constexpr int64_t kMajor = 1;
constexpr int64_t kMinor = 0;
constexpr int kDepthMax = 16;
constexpr int64_t kListMax = 1 << 20;     // Calls, programs, bindings, donated leases.
constexpr int64_t kTensorsMax = 1 << 16;  // Inputs or outputs of a program.
constexpr int64_t kBytesMax = int64_t{1} << 40;

constexpr std::array kPoisons = {"off", "nan", "pattern", "noise"};
constexpr size_t kContentsCount = static_cast<size_t>(PaddingContents::kRowIndependent) + 1;
constexpr size_t kValuesCount = static_cast<size_t>(CaseValues::kSpecial) + 1;

template <typename Enum, size_t kCount>
std::array<const char*, kCount> WordsOf() {
  std::array<const char*, kCount> words{};
  for (size_t i = 0; i < kCount; ++i)
    words[i] = NameOf(static_cast<Enum>(i));
  return words;
}

std::string TextOfNumber(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

nlohmann::json JsonOf(const std::optional<PaddingClaim>& claim) {
  if (!claim) return nullptr;
  nlohmann::json equal = "bits";
  if (!claim->equal.bits)
    equal = {{"absolute", TextOfNumber(claim->equal.absolute)},
             {"relative", TextOfNumber(claim->equal.relative)}};
  return {{"padding", NameOf(claim->padding)}, {"equal", std::move(equal)}};
}

nlohmann::json JsonOf(const CaseProgram& program) {
  nlohmann::json symbols = nlohmann::json::array();
  for (const CaseSymbol& symbol : program.symbols)
    symbols.push_back(
        {{"name", symbol.name}, {"policy", symbol.policy}, {"claim", JsonOf(symbol.claim)}});
  nlohmann::json package = nullptr;
  if (!program.package_program.empty())
    package = {{"program", program.package_program},
               {"sha256", program.package_sha256},
               {"path", program.package_path}};
  return {{"name", program.name},          {"variant", program.variant}, {"package", package},
          {"symbols", std::move(symbols)}, {"scalars", program.scalars}, {"inputs", program.inputs},
          {"statics", program.statics},    {"outputs", program.outputs}};
}

nlohmann::json OptionalText(const std::string& text) {
  return text.empty() ? nlohmann::json() : nlohmann::json(text);
}

nlohmann::json OptionalTexts(const std::vector<std::string>& texts) {
  nlohmann::json list = nlohmann::json::array();
  for (const std::string& text : texts)
    list.push_back(OptionalText(text));
  return list;
}

nlohmann::json JsonOf(const std::vector<CaseStatic>& statics) {
  nlohmann::json list = nlohmann::json::array();
  for (const CaseStatic& each : statics)
    list.push_back({{"tensor", OptionalText(each.tensor)}, {"dangling", each.dangling}});
  return list;
}

nlohmann::json JsonOf(const CaseInput& input) {
  nlohmann::json json = {
      {"dtype", NameOf(input.dtype)}, {"dims", input.dims}, {"tensor", OptionalText(input.tensor)}};
  if (input.output >= 0)
    json["in_place"] = {{"call", static_cast<int64_t>(input.call)},
                        {"output", input.output},
                        {"at", input.at},
                        {"strides", input.strides}};
  return json;
}

nlohmann::json JsonOf(const CaseCall& call) {
  nlohmann::json inputs = nlohmann::json::array();
  for (const CaseInput& input : call.inputs)
    inputs.push_back(JsonOf(input));
  nlohmann::json donated = nlohmann::json::array();
  for (const uint64_t number : call.donated)
    donated.push_back(static_cast<int64_t>(number));
  nlohmann::json json = {{"number", static_cast<int64_t>(call.number)},
                         {"program", call.program},
                         {"binding", call.binding},
                         {"kind", NameOf(call.kind)},
                         {"reason", NameOf(call.reason)},
                         {"poison", kPoisons[static_cast<size_t>(call.poison)]},
                         {"output_mode", NameOf(call.mode)},
                         {"ran", call.ran},
                         {"arrived", call.arrived},
                         {"extents", call.extents},
                         {"bucket", call.bucket},
                         {"scalars", call.scalars},
                         {"inputs", std::move(inputs)},
                         {"statics", JsonOf(call.statics)},
                         {"outputs", OptionalTexts(call.outputs)},
                         {"donated", std::move(donated)}};
  // A seed is any word, and numbers here are signed.
  if (call.random)
    json["random"] = {{"seed", static_cast<int64_t>(call.random->first)},
                      {"offset", call.random->second}};
  return json;
}

absl::StatusOr<int> IndexOr(Json value, int64_t min, size_t count) {
  COPPICE_ASSIGN_OR_RETURN(const int64_t index,
                           IntegerOf(value, min, static_cast<int64_t>(count) - 1));
  return static_cast<int>(index);
}

absl::StatusOr<std::vector<int64_t>> ReadNumbers(Json list, int64_t count_max, int64_t min) {
  COPPICE_RETURN_IF_ERROR(CheckList(list, 0, count_max));
  std::vector<int64_t> numbers;
  for (const Json value : list) {
    COPPICE_ASSIGN_OR_RETURN(const int64_t number, IntegerOf(value, min, INT64_MAX));
    numbers.push_back(number);
  }
  return numbers;
}

absl::StatusOr<std::string> ReadOptional(Json value) {
  if (value.is(JsonKind::kNull)) return std::string();
  COPPICE_ASSIGN_OR_RETURN(std::string text, TextOf(value));
  if (text.empty()) return value.Error("is empty; name a tensor, or write null");
  return text;
}

absl::StatusOr<std::vector<std::string>> ReadTexts(Json list, bool optional) {
  COPPICE_RETURN_IF_ERROR(CheckList(list, 0, kTensorsMax));
  std::vector<std::string> texts;
  for (const Json value : list) {
    COPPICE_ASSIGN_OR_RETURN(texts.emplace_back(), optional ? ReadOptional(value) : TextOf(value));
  }
  return texts;
}

absl::StatusOr<std::optional<PaddingClaim>> ReadCaseClaim(Json value) {
  if (value.is(JsonKind::kNull)) return std::nullopt;
  COPPICE_RETURN_IF_ERROR(CheckFields(value, {"equal", "padding"}));
  static const auto kContents = WordsOf<PaddingContents, kContentsCount>();
  PaddingClaim claim;
  COPPICE_ASSIGN_OR_RETURN(const int padding, WordOf(value["padding"], kContents));
  claim.padding = static_cast<PaddingContents>(padding);
  const Json equal = value["equal"];
  if (equal.is(JsonKind::kText) && equal.text() == "bits") return claim;
  COPPICE_RETURN_IF_ERROR(CheckFields(equal, {"absolute", "relative"}));
  claim.equal.bits = false;
  COPPICE_ASSIGN_OR_RETURN(claim.equal.absolute, FractionOf(equal["absolute"]));
  COPPICE_ASSIGN_OR_RETURN(claim.equal.relative, FractionOf(equal["relative"]));
  const auto is_tolerance = [](double tolerance) { return tolerance >= 0 && tolerance < 1e300; };
  if (!is_tolerance(claim.equal.absolute) || !is_tolerance(claim.equal.relative))
    return equal.Error("is not a tolerance; write finite numbers, 0 or more");
  return claim;
}

absl::StatusOr<CaseProgram> ReadCaseProgram(Json value) {
  COPPICE_RETURN_IF_ERROR(CheckFields(
      value, {"inputs", "name", "outputs", "package", "scalars", "statics", "symbols", "variant"}));
  CaseProgram program;
  COPPICE_ASSIGN_OR_RETURN(program.name, TextOf(value["name"]));
  COPPICE_ASSIGN_OR_RETURN(program.variant, TextOf(value["variant"]));
  if (const Json package = value["package"]; !package.is(JsonKind::kNull)) {
    COPPICE_RETURN_IF_ERROR(CheckFields(package, {"path", "program", "sha256"}));
    COPPICE_ASSIGN_OR_RETURN(program.package_program, NameOf(package["program"]));
    COPPICE_ASSIGN_OR_RETURN(program.package_sha256, TextOf(package["sha256"]));
    COPPICE_ASSIGN_OR_RETURN(program.package_path, TextOf(package["path"]));
  }
  COPPICE_RETURN_IF_ERROR(CheckList(value["symbols"], 0, kSymbolsMax));
  for (const Json each : value["symbols"]) {
    COPPICE_RETURN_IF_ERROR(CheckFields(each, {"claim", "name", "policy"}));
    CaseSymbol symbol;
    COPPICE_ASSIGN_OR_RETURN(symbol.name, TextOf(each["name"]));
    COPPICE_ASSIGN_OR_RETURN(symbol.policy, TextOf(each["policy"]));
    COPPICE_ASSIGN_OR_RETURN(symbol.claim, ReadCaseClaim(each["claim"]));
    program.symbols.push_back(std::move(symbol));
  }
  COPPICE_RETURN_IF_ERROR(CheckList(value["scalars"], 0, kScalarsMax));
  COPPICE_ASSIGN_OR_RETURN(program.scalars, ReadTexts(value["scalars"], false));
  COPPICE_ASSIGN_OR_RETURN(program.inputs, ReadTexts(value["inputs"], false));
  COPPICE_ASSIGN_OR_RETURN(program.statics, ReadTexts(value["statics"], false));
  COPPICE_ASSIGN_OR_RETURN(program.outputs, ReadTexts(value["outputs"], false));
  return program;
}

absl::StatusOr<std::vector<CaseStatic>> ReadStatics(Json list) {
  COPPICE_RETURN_IF_ERROR(CheckList(list, 0, kTensorsMax));
  std::vector<CaseStatic> statics;
  for (const Json each : list) {
    COPPICE_RETURN_IF_ERROR(CheckFields(each, {"dangling", "tensor"}));
    CaseStatic& input = statics.emplace_back();
    COPPICE_ASSIGN_OR_RETURN(input.tensor, ReadOptional(each["tensor"]));
    COPPICE_ASSIGN_OR_RETURN(input.dangling, BoolOr(each["dangling"], false));
  }
  return statics;
}

absl::StatusOr<CaseInput> ReadCaseInput(Json value, uint64_t number) {
  COPPICE_RETURN_IF_ERROR(CheckFields(value, {"dims", "dtype", "in_place?", "tensor"}));
  CaseInput input;
  COPPICE_ASSIGN_OR_RETURN(input.dtype, DTypeOf(value["dtype"]));
  COPPICE_ASSIGN_OR_RETURN(input.dims, ReadNumbers(value["dims"], kRankMax, 0));
  COPPICE_ASSIGN_OR_RETURN(input.tensor, ReadOptional(value["tensor"]));
  int64_t bytes = SizeOf(input.dtype);
  for (const int64_t size : input.dims)
    if (__builtin_mul_overflow(bytes, size, &bytes) || bytes > kBytesMax)
      return value["dims"].Error("are more than 2^40 bytes");
  const Json in_place = value["in_place"];
  if (!in_place.present()) return input;
  COPPICE_RETURN_IF_ERROR(CheckFields(in_place, {"at", "call", "output", "strides"}));
  COPPICE_ASSIGN_OR_RETURN(const int64_t call, IntegerOf(in_place["call"], 1, INT64_MAX));
  if (static_cast<uint64_t>(call) >= number)
    return in_place["call"].Error("{} is not a call before {}", call, number);
  input.call = static_cast<uint64_t>(call);
  COPPICE_ASSIGN_OR_RETURN(input.output, IndexOr(in_place["output"], 0, kTensorsMax));
  COPPICE_ASSIGN_OR_RETURN(input.at, IntegerOf(in_place["at"], 0, kBytesMax));
  COPPICE_ASSIGN_OR_RETURN(input.strides, ReadNumbers(in_place["strides"], kRankMax, INT64_MIN));
  if (input.strides.size() != input.dims.size())
    return in_place["strides"].Error("has length {}, but the number of dims is {}",
                                     input.strides.size(), input.dims.size());
  return input;
}

// What is read of a call once its program is known.
absl::Status ReadContents(Json value, const CaseProgram& program, CaseCall& call) {
  const auto numbers = [&](const char* field, size_t count,
                           int64_t min) -> absl::StatusOr<std::vector<int64_t>> {
    const auto exactly = static_cast<int64_t>(count);
    COPPICE_RETURN_IF_ERROR(CheckList(value[field], exactly, exactly));
    return ReadNumbers(value[field], exactly, min);
  };
  COPPICE_ASSIGN_OR_RETURN(call.extents, numbers("extents", program.symbols.size(), 0));
  COPPICE_ASSIGN_OR_RETURN(call.bucket, numbers("bucket", program.symbols.size(), 0));
  COPPICE_ASSIGN_OR_RETURN(call.scalars, numbers("scalars", program.scalars.size(), INT64_MIN));
  const auto inputs = static_cast<int64_t>(program.inputs.size());
  COPPICE_RETURN_IF_ERROR(CheckList(value["inputs"], inputs, inputs));
  for (const Json each : value["inputs"]) {
    COPPICE_ASSIGN_OR_RETURN(call.inputs.emplace_back(), ReadCaseInput(each, call.number));
  }
  const auto none_or = [&](const char* field, size_t count) {
    const int64_t size = value[field].size();
    const bool fits = size == 0 || size == static_cast<int64_t>(count);
    return fits ? CheckList(value[field], 0, kTensorsMax)
                : value[field].Error("has length {}; write a list of length {}, or an empty list",
                                     size, count);
  };
  COPPICE_RETURN_IF_ERROR(none_or("statics", program.statics.size()));
  COPPICE_ASSIGN_OR_RETURN(call.statics, ReadStatics(value["statics"]));
  COPPICE_RETURN_IF_ERROR(none_or("outputs", program.outputs.size()));
  COPPICE_ASSIGN_OR_RETURN(call.outputs, ReadTexts(value["outputs"], true));
  return absl::OkStatus();
}

absl::StatusOr<CaseCall> ReadCaseCall(Json value, const Case& read) {
  static const auto kModes = WordsOf<OutputMode, kOutputModeCount>();
  static const auto kRuns = WordsOf<RunKind, kRunKindCount>();
  static const auto kReasons = WordsOf<Reason, kReasonCount>();
  COPPICE_RETURN_IF_ERROR(
      CheckFields(value, {"arrived", "binding", "bucket", "donated", "extents", "inputs", "kind",
                          "number", "output_mode", "outputs", "poison", "program", "ran", "random?",
                          "reason", "scalars", "statics"}));
  CaseCall call;
  const uint64_t before = read.calls.empty() ? 0 : read.calls.back().number;
  COPPICE_ASSIGN_OR_RETURN(const int64_t number, IntegerOf(value["number"], 1, INT64_MAX));
  if (static_cast<uint64_t>(number) <= before)
    return value["number"].Error("{} does not come after call {}; the numbers must ascend", number,
                                 before);
  call.number = static_cast<uint64_t>(number);
  COPPICE_ASSIGN_OR_RETURN(call.program, IndexOr(value["program"], 0, read.programs.size()));
  COPPICE_ASSIGN_OR_RETURN(call.binding, IndexOr(value["binding"], -1, read.bindings.size()));
  const CaseProgram& program = read.programs[static_cast<size_t>(call.program)];
  if (call.binding >= 0 && read.bindings[static_cast<size_t>(call.binding)].program != call.program)
    return value["binding"].Error("{} is a binding of another program", call.binding);
  if (call.binding < 0 && !program.statics.empty())
    return value["binding"].Error("is -1, but program '{}' has static inputs", program.name);
  COPPICE_ASSIGN_OR_RETURN(const int kind, WordOf(value["kind"], kRuns));
  COPPICE_ASSIGN_OR_RETURN(const int reason, WordOf(value["reason"], kReasons));
  COPPICE_ASSIGN_OR_RETURN(const int poison, WordOf(value["poison"], kPoisons));
  COPPICE_ASSIGN_OR_RETURN(const int mode, WordOf(value["output_mode"], kModes));
  call.kind = static_cast<RunKind>(kind);
  call.reason = static_cast<Reason>(reason);
  call.poison = static_cast<Poison>(poison);
  call.mode = static_cast<OutputMode>(mode);
  COPPICE_ASSIGN_OR_RETURN(call.ran, BoolOr(value["ran"], false));
  COPPICE_ASSIGN_OR_RETURN(call.arrived, BoolOr(value["arrived"], false));
  COPPICE_RETURN_IF_ERROR(ReadContents(value, program, call));
  COPPICE_ASSIGN_OR_RETURN(const std::vector<int64_t> donated,
                           ReadNumbers(value["donated"], kListMax, 0));
  call.donated.assign(donated.begin(), donated.end());
  if (const Json random = value["random"]; random.present()) {
    COPPICE_RETURN_IF_ERROR(CheckFields(random, {"offset", "seed"}));
    COPPICE_ASSIGN_OR_RETURN(const int64_t seed, IntegerOf(random["seed"], INT64_MIN, INT64_MAX));
    COPPICE_ASSIGN_OR_RETURN(const int64_t offset, IntegerOf(random["offset"], 0, INT64_MAX));
    if (offset % 4 != 0) return random["offset"].Error("{} is not a multiple of 4", offset);
    call.random.emplace(static_cast<uint64_t>(seed), offset);
  }
  return call;
}

absl::Status CheckSchemaOf(Json root) {
  COPPICE_RETURN_IF_ERROR(CheckKind(root, JsonKind::kObject));
  if (!root["schema"].is(JsonKind::kText) || root["schema"].text() != kSchema)
    return root.Error(
        "is not a case: its schema is not \"{}\"; give the file that the flight recorder wrote",
        kSchema);
  const Json version = root["schema_version"];
  if (!version.present()) return root.Error("has no field \"schema_version\"; add it");
  COPPICE_RETURN_IF_ERROR(CheckList(version, 2, 2));
  COPPICE_ASSIGN_OR_RETURN(const int64_t major, IntegerOf(*version.begin(), 0, INT64_MAX));
  COPPICE_RETURN_IF_ERROR(IntegerOf(*++version.begin(), 0, INT64_MAX).status());
  if (major == kMajor) return absl::OkStatus();
  return MakeError(absl::StatusCode::kUnimplemented,
                   "{}: {}: major version {}; this library reads major version {}",
                   root.document().name(), version.Pointer(), major, kMajor);
}

absl::Status ReadHead(Json root, Case& read) {
  static const auto kValues = WordsOf<CaseValues, kValuesCount>();
  const auto text = [&](const char* field, std::string& to) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(to, TextOf(root[field]));
    return absl::OkStatus();
  };
  COPPICE_RETURN_IF_ERROR(text("why", read.why));
  COPPICE_RETURN_IF_ERROR(text("error", read.error));
  COPPICE_RETURN_IF_ERROR(text("version", read.version));
  COPPICE_RETURN_IF_ERROR(text("device", read.device));
  COPPICE_RETURN_IF_ERROR(text("driver", read.driver));
  COPPICE_ASSIGN_OR_RETURN(read.driver_version, IntegerOf(root["driver_version"], 0, INT32_MAX));
  COPPICE_ASSIGN_OR_RETURN(const int64_t lane, IntegerOf(root["lane"], 0, INT32_MAX));
  read.lane = static_cast<int>(lane);
  COPPICE_ASSIGN_OR_RETURN(const int values, WordOf(root["values"], kValues));
  read.values = static_cast<CaseValues>(values);
  COPPICE_ASSIGN_OR_RETURN(read.calls_dropped, IntegerOf(root["calls_dropped"], 0, INT64_MAX));
  COPPICE_ASSIGN_OR_RETURN(read.calls_refused, IntegerOf(root["calls_refused"], 0, INT64_MAX));
  COPPICE_ASSIGN_OR_RETURN(read.calls_skipped, IntegerOf(root["calls_skipped"], 0, INT64_MAX));
  return absl::OkStatus();
}

}  // namespace

std::string ManifestOf(const Case& value) {
  nlohmann::json programs = nlohmann::json::array();
  for (const CaseProgram& program : value.programs)
    programs.push_back(JsonOf(program));
  nlohmann::json bindings = nlohmann::json::array();
  for (const CaseBinding& binding : value.bindings)
    bindings.push_back({{"program", binding.program}, {"statics", JsonOf(binding.statics)}});
  nlohmann::json calls = nlohmann::json::array();
  for (const CaseCall& call : value.calls)
    calls.push_back(JsonOf(call));
  const nlohmann::json root = {{"schema", kSchema},
                               {"schema_version", {kMajor, kMinor}},
                               {"why", value.why},
                               {"error", value.error},
                               {"version", value.version},
                               {"device", value.device},
                               {"driver", value.driver},
                               {"driver_version", value.driver_version},
                               {"lane", value.lane},
                               {"values", NameOf(value.values)},
                               {"calls_dropped", value.calls_dropped},
                               {"calls_refused", value.calls_refused},
                               {"calls_skipped", value.calls_skipped},
                               {"programs", std::move(programs)},
                               {"bindings", std::move(bindings)},
                               {"calls", std::move(calls)}};
  return root.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<Case> ParseCaseManifest(std::string_view text, const std::string& name) {
  COPPICE_ASSIGN_OR_RETURN(
      const JsonDocument document,
      JsonDocument::Parse(text, name, {.canonical = true, .depth_max = kDepthMax}));
  const Json root = document.root();
  COPPICE_RETURN_IF_ERROR(CheckSchemaOf(root));
  COPPICE_RETURN_IF_ERROR(
      CheckFields(root, {"bindings", "calls", "calls_dropped", "calls_refused", "calls_skipped",
                         "device", "driver", "driver_version", "error", "lane", "programs",
                         "schema", "schema_version", "values", "version", "why"}));
  Case read;
  COPPICE_RETURN_IF_ERROR(ReadHead(root, read));
  COPPICE_RETURN_IF_ERROR(CheckList(root["programs"], 0, kListMax));
  for (const Json each : root["programs"]) {
    COPPICE_ASSIGN_OR_RETURN(read.programs.emplace_back(), ReadCaseProgram(each));
  }
  COPPICE_RETURN_IF_ERROR(CheckList(root["bindings"], 0, kListMax));
  for (const Json each : root["bindings"]) {
    COPPICE_RETURN_IF_ERROR(CheckFields(each, {"program", "statics"}));
    CaseBinding& binding = read.bindings.emplace_back();
    COPPICE_ASSIGN_OR_RETURN(binding.program, IndexOr(each["program"], 0, read.programs.size()));
    const auto statics =
        static_cast<int64_t>(read.programs[static_cast<size_t>(binding.program)].statics.size());
    COPPICE_RETURN_IF_ERROR(CheckList(each["statics"], statics, statics));
    COPPICE_ASSIGN_OR_RETURN(binding.statics, ReadStatics(each["statics"]));
  }
  COPPICE_RETURN_IF_ERROR(CheckList(root["calls"], 0, kListMax));
  for (const Json each : root["calls"]) {
    COPPICE_ASSIGN_OR_RETURN(CaseCall call, ReadCaseCall(each, read));
    read.calls.push_back(std::move(call));
  }
  return read;
}

absl::Status CheckTensors(const Case& value, const std::string& name) {
  const auto find = [&](const std::string& tensor) -> absl::StatusOr<const CaseTensor*> {
    if (tensor.empty()) return nullptr;
    const auto found = value.tensors.find(tensor);
    if (found == value.tensors.end())
      return InvalidArgument("{}: tensors.safetensors has no tensor {}", name,
                             QuoteText(tensor, kNameMax));
    return &found->second;
  };
  for (const CaseBinding& binding : value.bindings)
    for (const CaseStatic& each : binding.statics)
      COPPICE_RETURN_IF_ERROR(find(each.tensor).status());
  for (const CaseCall& call : value.calls) {
    for (const CaseStatic& each : call.statics)
      COPPICE_RETURN_IF_ERROR(find(each.tensor).status());
    for (const std::string& tensor : call.outputs)
      COPPICE_RETURN_IF_ERROR(find(tensor).status());
    for (const CaseInput& input : call.inputs) {
      COPPICE_ASSIGN_OR_RETURN(const CaseTensor* const tensor, find(input.tensor));
      if (tensor != nullptr && (tensor->dtype != input.dtype || tensor->dims != input.dims))
        return InvalidArgument("{}: tensor {} has a different dtype or shape in call {}", name,
                               QuoteText(input.tensor, kNameMax), call.number);
    }
  }
  return absl::OkStatus();
}

}  // namespace coppice::internal
