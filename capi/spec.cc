// coppice_program_spec and coppice_package_program_options, read.

#include "capi/spec.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coppice/base/status.h"

#include "capi/context.h"
#include "capi/described/session_fields.h"
#include "capi/failure.h"
#include "capi/policies.h"
#include "capi/structs.h"
#include "capi/tensors.h"

namespace coppice::capi {
namespace {

// Index of the element of this name. Errors: kInvalidArgument none has it.
template <typename Specs>
absl::StatusOr<int> IndexOf(const Specs& specs, const std::string& name, const std::string& who) {
  const auto found =
      std::find_if(specs.begin(), specs.end(), [&](const auto& spec) { return spec.name == name; });
  if (found != specs.end()) return static_cast<int>(found - specs.begin());
  return InvalidArgument("{}: the spec has nothing called '{}'", who, name);
}

absl::StatusOr<SymbolSpec> SymbolOf(const coppice_symbol_spec& given, const ProgramSpec& spec) {
  COPPICE_ASSIGN_OR_RETURN(const coppice_policy policy, ReadOptions(given.policy));
  COPPICE_ASSIGN_OR_RETURN(PaddingPolicy read, PolicyOf(policy));
  SymbolSpec symbol = {.name = {}, .policy = std::move(read)};
  symbol.observe_half_life = policy.observe_half_life;
  COPPICE_ASSIGN_OR_RETURN(symbol.name, NameIn(given.name, "coppice_symbol_spec"));
  COPPICE_ASSIGN_OR_RETURN(symbol.kind, EnumOf<SymbolKind>(given.kind, "symbol: kind"));
  symbol.min = given.min;
  if (given.max != 0) symbol.max = given.max;
  if (given.multiple_of != 0) symbol.multiple_of = given.multiple_of;
  symbol.exclude_01 = given.exclude_01 != 0;
  symbol.given = given.given != 0;
  symbol.counted = given.counted != 0;
  if (given.over_maximum_is_error != 0) symbol.over_maximum = OverMaximum::kError;
  if (given.scalar != nullptr) {
    COPPICE_ASSIGN_OR_RETURN(symbol.scalar,
                             IndexOf(spec.scalars, given.scalar, "symbol " + symbol.name));
  }
  COPPICE_ASSIGN_OR_RETURN(const coppice_claim claim, ReadOptions(given.claim));
  COPPICE_ASSIGN_OR_RETURN(symbol.claim, ClaimOf(claim));
  return symbol;
}

// A spec while it is read, and what its sizes call its sequences.
struct SpecReader {
  ProgramSpec spec;
  std::vector<std::string> sequences;
};

// A size out of its text: a number, a symbol, sequences, an expression.
absl::StatusOr<Dim> DimOf(const char* text, const std::string& who, SpecReader& reader) {
  ProgramSpec& spec = reader.spec;
  if (text == nullptr || *text == '\0') return InvalidArgument("{}: a size is empty", who);
  const std::string_view size = text;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), number);
  if (error == std::errc() && end == size.data() + size.size()) return Dim::Fixed(number);
  for (size_t i = 0; i < spec.symbols.size(); ++i) {
    if (spec.symbols[i].name == size) return Dim::Symbol(static_cast<int>(i));
  }
  const auto sequences = std::ranges::find(reader.sequences, size);
  if (sequences != reader.sequences.end())
    return Dim::Ragged(static_cast<int>(sequences - reader.sequences.begin()));
  return spec.AddExtent(std::string(size));
}

absl::StatusOr<Dims> DimsOf(const char* const* texts,
                            int32_t rank,
                            const std::string& who,
                            SpecReader& reader) {
  if (rank < 0 || rank > kRankMax)
    return InvalidArgument("{}: {} axes; give a number from 0 to {}", who, rank, kRankMax);
  COPPICE_RETURN_IF_ERROR(CheckArray(texts, rank, who.c_str()));
  Dims dims;
  for (int32_t axis = 0; axis < rank; ++axis) {
    COPPICE_ASSIGN_OR_RETURN(const Dim dim, DimOf(texts[axis], who, reader));
    dims.push_back(dim);
  }
  return dims;
}

// What inputs and outputs have in common.
template <typename Spec>
absl::Status ReadTensorSpec(const coppice_tensor_spec& given, SpecReader& reader, Spec& tensor) {
  COPPICE_ASSIGN_OR_RETURN(tensor.name, NameIn(given.name, "coppice_tensor_spec"));
  COPPICE_ASSIGN_OR_RETURN(tensor.dtype, DTypeOf(given.dtype));
  COPPICE_ASSIGN_OR_RETURN(tensor.dims, DimsOf(given.shape, given.rank, tensor.name, reader));
  if (given.strides == nullptr) return absl::OkStatus();
  COPPICE_ASSIGN_OR_RETURN(tensor.strides, DimsOf(given.strides, given.rank, tensor.name, reader));
  return absl::OkStatus();
}

absl::StatusOr<InputSpec> InputOf(const coppice_tensor_spec& given, SpecReader& reader) {
  InputSpec input;
  COPPICE_RETURN_IF_ERROR(ReadTensorSpec(given, reader, input));
  COPPICE_ASSIGN_OR_RETURN(input.fill.kind, EnumOf<FillKind>(given.fill, "input: fill"));
  input.fill.value = given.fill_value;
  input.role = given.is_static != 0 ? InputRole::kStatic : InputRole::kCopy;
  input.mutated = given.mutated != 0;
  if (given.alignment != 0) input.alignment = given.alignment;
  return input;
}

absl::StatusOr<OutputSpec> OutputOf(const coppice_tensor_spec& given, SpecReader& reader) {
  OutputSpec output;
  COPPICE_RETURN_IF_ERROR(ReadTensorSpec(given, reader, output));
  output.role = given.is_static != 0 ? OutputRole::kStatic : OutputRole::kPool;
  output.count.axis = given.count_axis;
  return output;
}

absl::Status ReadTensors(const coppice_program_spec& given, SpecReader& reader) {
  ProgramSpec& spec = reader.spec;
  COPPICE_ASSIGN_OR_RETURN(const auto inputs, ReadArray(given.inputs, given.input_count));
  for (const coppice_tensor_spec& input : inputs) {
    COPPICE_ASSIGN_OR_RETURN(InputSpec read, InputOf(input, reader));
    spec.inputs.push_back(std::move(read));
  }
  COPPICE_ASSIGN_OR_RETURN(const auto outputs, ReadArray(given.outputs, given.output_count));
  for (const coppice_tensor_spec& output : outputs) {
    COPPICE_ASSIGN_OR_RETURN(OutputSpec read, OutputOf(output, reader));
    spec.outputs.push_back(std::move(read));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].count == nullptr) continue;
    COPPICE_ASSIGN_OR_RETURN(
        spec.outputs[i].count.output,
        IndexOf(spec.outputs, outputs[i].count, "output " + spec.outputs[i].name));
  }
  return absl::OkStatus();
}

// Sequences, whose symbols are there already, and the tensors that have them.
absl::Status ReadRaggedAndTensors(const coppice_program_spec& given, SpecReader& reader) {
  ProgramSpec& spec = reader.spec;
  COPPICE_ASSIGN_OR_RETURN(const auto ragged, ReadArray(given.ragged, given.ragged_count));
  for (const coppice_ragged_spec& one : ragged) {
    COPPICE_ASSIGN_OR_RETURN(std::string name, NameIn(one.name, "coppice_ragged_spec"));
    const std::string who = "ragged " + name;
    if (std::ranges::count(spec.symbols, name, &SymbolSpec::name) > 0 ||
        std::ranges::count(reader.sequences, name) > 0)
      return InvalidArgument("{}: the name is taken; give the sequences another name", who);
    RaggedSpec sequences;
    COPPICE_ASSIGN_OR_RETURN(sequences.by, EnumOf<RaggedBy>(one.by, "ragged: by"));
    COPPICE_ASSIGN_OR_RETURN(sequences.count, IndexOf(spec.symbols, TextOf(one.count), who));
    COPPICE_ASSIGN_OR_RETURN(sequences.total, IndexOf(spec.symbols, TextOf(one.total), who));
    if (one.length != nullptr) {
      COPPICE_ASSIGN_OR_RETURN(sequences.length, IndexOf(spec.symbols, one.length, who));
    }
    spec.AddRagged(sequences);
    reader.sequences.push_back(std::move(name));
  }
  COPPICE_RETURN_IF_ERROR(ReadTensors(given, reader));
  for (size_t i = 0; i < ragged.size(); ++i) {
    COPPICE_ASSIGN_OR_RETURN(spec.ragged[i].lengths, IndexOf(spec.inputs, TextOf(ragged[i].lengths),
                                                             "ragged " + reader.sequences[i]));
  }
  return absl::OkStatus();
}

// Symbols without a policy get what a joint one asks them to have.
absl::Status ReadJoint(const coppice_program_spec& given,
                       const std::vector<coppice_symbol_spec>& symbols,
                       ProgramSpec& spec) {
  COPPICE_ASSIGN_OR_RETURN(const auto joint, ReadArray(given.joint, given.joint_count));
  for (const coppice_joint_policy& policy : joint) {
    COPPICE_ASSIGN_OR_RETURN(const auto names, SymbolsOf(policy));
    COPPICE_ASSIGN_OR_RETURN(const int a, IndexOf(spec.symbols, names.first, "joint policy"));
    COPPICE_ASSIGN_OR_RETURN(const int b, IndexOf(spec.symbols, names.second, "joint policy"));
    COPPICE_ASSIGN_OR_RETURN(JointPolicy read, PolicyOf(policy));
    for (const auto& [symbol, maximum] :
         {std::pair(a, read.limit().a), std::pair(b, read.limit().b)}) {
      const auto index = static_cast<size_t>(symbol);
      if (symbols[index].policy != nullptr) continue;
      COPPICE_ASSIGN_OR_RETURN(spec.symbols[index].policy, PaddingPolicy::Exact(maximum));
    }
    spec.joint.push_back({.a = a, .b = b, .policy = std::move(read)});
  }
  return absl::OkStatus();
}

absl::Status ReadFunctions(const coppice_package_program_options& given,
                           coppice_session& session,
                           ProgramNeeds& needs,
                           std::map<std::string, StepFunction>& functions) {
  COPPICE_ASSIGN_OR_RETURN(const auto read, ReadArray(given.functions, given.function_count));
  std::vector<Held<StepFunctionRecord>>& records = needs.functions;
  for (const coppice_function& function : read) {
    COPPICE_ASSIGN_OR_RETURN(std::string name, NameIn(function.name, "coppice_function"));
    COPPICE_ASSIGN_OR_RETURN(const int when,
                             EnumOf<int>(function.when, COPPICE_ON_HOST + 1, "function: when"));
    if (function.run == nullptr) return InvalidArgument("function {}: run is null", name);
    if (functions.contains(name)) return InvalidArgument("function {}: given twice", name);
    records.push_back(Held<StepFunctionRecord>::Adopt(
        new StepFunctionRecord(name, function.run, User(function.user, nullptr), session)));
    StepFunctionRecord& record = *records.back();
    if (when == COPPICE_ON_HOST) {
      functions[name] = [&device = *session.device, &record](const FunctionCall& call) {
        return LaunchHostOperation(device, record, call);
      };
    } else {
      functions[name] = [&session, &needs, &record,
                         dl = session.device->dl()](const FunctionCall& call) {
        const HereScope here({.needs = &needs, .run = nullptr, .session = &session});
        return record.Call(call.inputs, call.outputs, OptionTexts(call.options), call.stream, dl);
      };
    }
  }
  // Only when nothing can fail any more, so that who is told of an error still owns what he gave.
  for (size_t i = 0; i < read.size(); ++i)
    records[i]->ReleaseWith(read[i].release);
  return absl::OkStatus();
}

absl::Status CallWith(coppice_callable callable, const User& user, coppice_context run) {
  ForgetCallbackMessage();
  const HereScope here({.needs = &run.needs, .run = &run, .session = &run.session});
  const coppice_status returned = callable(user.get(), &run);
  CountLeftBlocks(run);
  if (returned == COPPICE_OK) return run.free_failure;
  return StatusOfCallback(returned, "program " + run.program);
}

}  // namespace

absl::StatusOr<ProgramSpec> SpecOf(const coppice_program_spec& given) {
  SpecReader reader;
  ProgramSpec& spec = reader.spec;
  COPPICE_ASSIGN_OR_RETURN(spec.name, NameIn(given.name, "coppice_program_spec"));
  spec.variant = TextOf(given.variant);
  constexpr std::optional<PaddingContents> kClaims[] = {
      std::nullopt, PaddingContents::kRowIndependent, PaddingContents::kAny,
      PaddingContents::kFinite, PaddingContents::kFill};
  COPPICE_ASSIGN_OR_RETURN(const int claim,
                           EnumOf<int>(given.claim, std::size(kClaims), "program: claim"));
  spec.claim = kClaims[claim];
  COPPICE_ASSIGN_OR_RETURN(spec.gate, EnumOf<GateMode>(given.gate, "program: gate"));
  spec.one_stream = given.one_stream != 0;
  spec.thread_safe = given.thread_safe != 0;
  spec.random_numbers_per_call = given.random_numbers_per_call;
  COPPICE_ASSIGN_OR_RETURN(const auto scalars, ReadArray(given.scalars, given.scalar_count));
  for (const coppice_scalar_spec& scalar : scalars) {
    COPPICE_ASSIGN_OR_RETURN(std::string name, NameIn(scalar.name, "coppice_scalar_spec"));
    spec.scalars.push_back(
        {.name = std::move(name), .device_resident = scalar.device_resident != 0});
  }
  COPPICE_ASSIGN_OR_RETURN(const auto symbols, ReadArray(given.symbols, given.symbol_count));
  for (const coppice_symbol_spec& symbol : symbols) {
    COPPICE_ASSIGN_OR_RETURN(SymbolSpec read, SymbolOf(symbol, spec));
    spec.symbols.push_back(std::move(read));
  }
  COPPICE_RETURN_IF_ERROR(ReadJoint(given, symbols, spec));
  COPPICE_RETURN_IF_ERROR(ReadRaggedAndTensors(given, reader));
  COPPICE_ASSIGN_OR_RETURN(const auto guards, SpanOf(given.guards, given.guard_count, "guards"));
  std::ranges::transform(guards, std::back_inserter(spec.guards), &TextOf);
  return std::move(spec);
}

Callable CallableOf(coppice_callable callable,
                    User user,
                    const ProgramSpec& spec,
                    coppice_session& session,
                    Held<ProgramNeeds> needs) {
  return [callable, user = std::move(user), name = spec.name, symbols = spec.symbols.size(),
          scalars = spec.scalars.size(), inputs = spec.inputs.size(), outputs = spec.outputs.size(),
          ragged = spec.ragged.size(), &session, needs = std::move(needs)](CallContext& context) {
    return CallWith(callable, user,
                    {.context = context,
                     .symbols = symbols,
                     .scalars = scalars,
                     .inputs = inputs,
                     .outputs = outputs,
                     .ragged = ragged,
                     .program = name,
                     .session = session,
                     .needs = *needs});
  };
}

absl::StatusOr<PackageProgram> PackageProgramOf(coppice_session& session,
                                                const coppice_package_program_options* given) {
  COPPICE_ASSIGN_OR_RETURN(const coppice_package_program_options options, ReadOptions(given));
  PackageProgram made{.options = {}, .needs = Held<ProgramNeeds>::Adopt(new ProgramNeeds)};
  made.options.name = TextOf(options.name);
  made.options.variant = TextOf(options.variant);
  COPPICE_ASSIGN_OR_RETURN(made.options.exact,
                           EnumOf<ExactReplay>(options.exact, "package program: exact"));
  COPPICE_ASSIGN_OR_RETURN(const auto policies, ReadArray(options.policies, options.policy_count));
  for (const coppice_policy& policy : policies) {
    COPPICE_ASSIGN_OR_RETURN(const std::string symbol, NameIn(policy.symbol, "policy: symbol"));
    COPPICE_ASSIGN_OR_RETURN(PaddingPolicy read, PolicyOf(policy));
    made.options.policies.insert_or_assign(symbol, std::move(read));
    if (policy.observe_half_life != 0)
      made.options.observe_half_lives[symbol] = policy.observe_half_life;
  }
  COPPICE_ASSIGN_OR_RETURN(const auto joint, ReadArray(options.joint, options.joint_count));
  for (const coppice_joint_policy& policy : joint) {
    COPPICE_ASSIGN_OR_RETURN(auto names, SymbolsOf(policy));
    COPPICE_ASSIGN_OR_RETURN(JointPolicy read, PolicyOf(policy));
    made.options.joint.insert_or_assign(std::move(names), std::move(read));
  }
  COPPICE_ASSIGN_OR_RETURN(const auto claims, ReadArray(options.claims, options.claim_count));
  for (const coppice_claim& claim : claims) {
    COPPICE_ASSIGN_OR_RETURN(const std::string symbol, NameIn(claim.symbol, "claim: symbol"));
    COPPICE_ASSIGN_OR_RETURN(made.options.claims[symbol], ClaimOf(claim));
  }
  COPPICE_ASSIGN_OR_RETURN(const auto constants,
                           ReadArray(options.constants, options.constant_count));
  for (size_t i = 0; i < constants.size(); ++i) {
    COPPICE_ASSIGN_OR_RETURN(const std::string name, NameIn(constants[i].name, "constant"));
    COPPICE_ASSIGN_OR_RETURN(
        made.options.constants[name],
        TensorOf(constants[i].tensor, session.device->dl(), "constant", static_cast<int64_t>(i)));
  }
  COPPICE_RETURN_IF_ERROR(ReadFunctions(options, session, *made.needs, made.options.functions));
  return made;
}

}  // namespace coppice::capi
