// Field by field, in the order in which a spec is written.

#include "tools/prof/whatif/traced_spec.h"

#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

#include "coppice/base/status.h"
#include "coppice/padding/joint_document.h"
#include "coppice/padding/policy_document.h"

namespace coppice {
namespace {

using Json = nlohmann::json;

// Enumerators are numbers in their order. Keeps in mind whether one was that there is not.
class Enumerators {
 public:
  template <typename Enum>
  Enum From(const Json& value, Enum last) {
    const auto number = value.get<int64_t>();
    const bool known = number >= 0 && number <= static_cast<int64_t>(last);
    wrong_ = wrong_ || !known;
    return known ? static_cast<Enum>(number) : last;
  }
  absl::Status Check() const {
    return wrong_ ? InvalidArgument(
                        "an enumerator is none of this coppice; use that which wrote the trace")
                  : absl::OkStatus();
  }

 private:
  bool wrong_ = false;
};

Dims DimsFrom(const Json& list) {
  Dims dims;
  for (const Json& dim : list)
    dims.push_back({.size = dim.at(0).get<int64_t>(), .symbol = dim.at(1).get<int>()});
  return dims;
}

absl::StatusOr<PaddingPolicy> ParsePolicy(const std::string& document) {
  COPPICE_ASSIGN_OR_RETURN(PolicyDocument read, ReadPolicyDocument(document, "the policy"));
  return std::move(read.policy);
}

absl::StatusOr<SymbolSpec> SymbolFrom(const Json& text,
                                      const std::string& policy,
                                      Enumerators& enums) {
  COPPICE_ASSIGN_OR_RETURN(PaddingPolicy padding, ParsePolicy(policy));
  SymbolSpec symbol{.name = text.at("name").get<std::string>(), .policy = std::move(padding)};
  symbol.kind = enums.From(text.at("kind"), SymbolKind::kAuto);
  symbol.over_maximum = enums.From(text.at("over_maximum"), OverMaximum::kError);
  const Json& bounds = text.at("bounds");
  symbol.min = bounds.at(0).get<int64_t>();
  symbol.max = bounds.at(1).get<int64_t>();
  symbol.multiple_of = bounds.at(2).get<int64_t>();
  symbol.exclude_01 = text.at("exclude_01").get<bool>();
  symbol.given = text.at("given").get<bool>();
  symbol.counted = text.at("counted").get<bool>();
  symbol.scalar = text.at("scalar").get<int>();
  if (text.contains("claim")) {
    const Json& claim = text.at("claim");
    symbol.claim =
        PaddingClaim{.padding = enums.From(claim.at(0), PaddingContents::kRowIndependent),
                     .equal = {.bits = claim.at(1).get<bool>(),
                               .absolute = claim.at(2).get<double>(),
                               .relative = claim.at(3).get<double>()}};
  }
  return symbol;
}

InputSpec InputFrom(const Json& text, Enumerators& enums) {
  InputSpec input{.name = text.at("name").get<std::string>(),
                  .dtype = enums.From(text.at("dtype"), DType::kUInt64),
                  .dims = DimsFrom(text.at("dims")),
                  .strides = DimsFrom(text.at("strides"))};
  input.role = enums.From(text.at("role"), InputRole::kStatic);
  input.fill.kind = enums.From(text.at("fill").at(0), Fill::Kind::kUndefined);
  // What no JSON number is, such as an infinity, is null there.
  const Json& value = text.at("fill").at(1);
  input.fill.value = value.is_number() ? value.get<double>() : 0;
  input.mutated = text.at("mutated").get<bool>();
  input.alignment = text.at("alignment").get<int64_t>();
  return input;
}

OutputSpec OutputFrom(const Json& text, Enumerators& enums) {
  OutputSpec output{.name = text.at("name").get<std::string>(),
                    .dtype = enums.From(text.at("dtype"), DType::kUInt64),
                    .dims = DimsFrom(text.at("dims")),
                    .strides = DimsFrom(text.at("strides"))};
  output.role = enums.From(text.at("role"), OutputRole::kStatic);
  output.count = {.output = text.at("count").at(0).get<int>(),
                  .axis = text.at("count").at(1).get<int>()};
  return output;
}

void ReadRagged(const Json& text, Enumerators& enums, ProgramSpec& spec) {
  if (!text.contains("ragged")) return;
  for (const Json& sequences : text.at("ragged"))
    spec.ragged.push_back({.count = sequences.at(0).get<int>(),
                           .total = sequences.at(1).get<int>(),
                           .length = sequences.at(2).get<int>(),
                           .lengths = sequences.at(3).get<int>(),
                           .by = enums.From(sequences.at(4), RaggedSpec::By::kOffsets)});
}

void ReadTensors(const Json& text, Enumerators& enums, ProgramSpec& spec) {
  for (const Json& input : text.at("inputs"))
    spec.inputs.push_back(InputFrom(input, enums));
  for (const Json& output : text.at("outputs"))
    spec.outputs.push_back(OutputFrom(output, enums));
  for (const Json& scalar : text.at("scalars"))
    spec.scalars.push_back(
        {.name = scalar.at(0).get<std::string>(), .device_resident = scalar.at(1).get<bool>()});
}

absl::StatusOr<ProgramSpec> ReadSpec(const TracedProgram& program) {
  const Json text = Json::parse(program.spec);
  Enumerators enums;
  ProgramSpec spec{.name = program.name, .claim = enums.From(text.at("claim"), Claim::kMasked)};
  spec.variant = program.variant;
  const Json& symbols = text.at("symbols");
  for (size_t i = 0; i < symbols.size(); ++i) {
    if (i >= program.policies.size())
      return InvalidArgument(
          "program '{}' has no policy for a symbol; give a trace as it was written", program.name);
    COPPICE_ASSIGN_OR_RETURN(SymbolSpec symbol,
                             SymbolFrom(symbols.at(i), program.policies[i], enums));
    spec.symbols.push_back(std::move(symbol));
  }
  for (const TracedProgram::Joint& joint : program.joint) {
    COPPICE_ASSIGN_OR_RETURN(JointDocument read, ReadJointDocument(joint.policy, "the policy"));
    spec.joint.push_back({.a = joint.a, .b = joint.b, .policy = std::move(read.policy)});
  }
  ReadRagged(text, enums, spec);
  ReadTensors(text, enums, spec);
  spec.one_stream = text.at("one_stream").get<bool>();
  spec.thread_safe = text.at("thread_safe").get<bool>();
  spec.guards = text.at("guards").get<std::vector<std::string>>();
  spec.extents = text.at("extents").get<std::vector<std::string>>();
  spec.random_numbers_per_call = text.at("random_numbers_per_call").get<int64_t>();
  spec.gate = enums.From(text.at("gate"), GateMode::kAlwaysEager);
  COPPICE_RETURN_IF_ERROR(enums.Check());
  return spec;
}

template <typename Value>
void ReadOption(const Json& options, const char* name, Value& value) {
  value = options.at(name).get<Value>();
}

absl::StatusOr<SessionOptions> ReadOptions(const PoolTrace& trace) {
  const Json texts = Json::parse(trace.options);
  Enumerators enums;
  SessionOptions options;
  options.lanes = trace.lanes;
  options.stance = enums.From(texts.at("stance"), Stance::kStrict);
  ReadOption(texts, "warmup_runs", options.warmup_runs);
  ReadOption(texts, "record_in_background", options.record_in_background);
  ReadOption(texts, "gate", options.gate);
  ReadOption(texts, "graphs_per_program_max", options.limits.graphs_per_program_max);
  ReadOption(texts, "rerecords_per_bucket_max", options.limits.rerecords_per_bucket_max);
  ReadOption(texts, "static_moves_max", options.limits.static_moves_max);
  options.limits.on_limit = enums.From(texts.at("on_limit"), OnLimit::kEvict);
  ReadOption(texts, "window_bytes", options.memory.window_bytes);
  ReadOption(texts, "workspace_bytes", options.memory.workspace_bytes);
  ReadOption(texts, "copy_out_bytes", options.memory.copy_out_bytes);
  ReadOption(texts, "budget_bytes", options.memory.budget_bytes);
  options.memory.on_budget = enums.From(texts.at("on_budget"), OnLimit::kEvict);
  COPPICE_RETURN_IF_ERROR(enums.Check());
  return options;
}

// What `read` makes of JSON, whose library throws where a field is missing or another.
template <typename Value, typename Read>
absl::StatusOr<Value> Guarded(const std::string& what, const Read& read) {
  try {
    return read();
  } catch (const Json::exception& thrown) {
    return InvalidArgument("{} cannot be read back: {}; use the coppice that wrote the trace", what,
                           thrown.what());
  }
}

}  // namespace

absl::StatusOr<SessionOptions> OptionsOf(const PoolTrace& trace) {
  return Guarded<SessionOptions>("the options of the session", [&] {
    return absl::StatusOr<SessionOptions>(ReadOptions(trace));
  });
}

absl::StatusOr<ProgramSpec> SpecOf(const TracedProgram& program) {
  return Guarded<ProgramSpec>("the spec of program '" + LabelOf(program) + "'",
                              [&] { return ReadSpec(program); });
}

absl::StatusOr<PaddingPolicy> PolicyOf(const TracedProgram& program, int symbol) {
  return ParsePolicy(program.policies[static_cast<size_t>(symbol)]);
}

absl::StatusOr<PaddingPolicy> PolicyOf(const PoolTrace& trace, int policy) {
  return ParsePolicy(trace.policies[static_cast<size_t>(policy)]);
}

}  // namespace coppice
