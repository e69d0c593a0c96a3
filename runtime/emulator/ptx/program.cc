// From a module to a program: what kernels reach is decoded, and what it names gets an address.

#include "runtime/emulator/ptx/program.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <utility>

#include "fmt/format.h"

#include "coppice/base/status.h"

#include "runtime/emulator/ptx/decoder.h"
#include "runtime/emulator/ptx/parser.h"
#include "runtime/emulator/ptx/references.h"
#include "runtime/emulator/ptx/shared_layout.h"
#include "runtime/emulator/ptx/syntax.h"
#include "runtime/emulator/ptx/validator.h"

namespace coppice::ptx {
namespace {

// Of a block, as ptxas allows.
constexpr int64_t kStaticSharedBytesMax = 48 << 10;

constexpr size_t kNowhere = ~size_t{0};

bool IsGlobal(const Variable& variable) {
  return variable.space == Space::kGlobal || variable.space == Space::kConst;
}

struct State {
  explicit State(Module parsed) : module(std::move(parsed)), references(module) {}

  void PlaceVariables();
  absl::Status CheckInitializers() const;
  void FindReached();
  absl::Status Decode();
  absl::Status CheckRefusals() const;
  absl::Status AddKernel(size_t function, const SharedLayout::Extent& shared);
  absl::Status ReadTarget();
  KernelSurvey SurveyOf(size_t kernel) const;

  // Of a symbol of an initial value, without where global bytes are linked.
  uint64_t AddressOf(std::string_view symbol, bool* relocated) const;
  void Initialize(const Variable& variable, std::byte* at) const;

  Module module;
  int capability = 0;  // Of .target.
  References references;
  std::vector<size_t> entries;                // Kernels among the functions, and ...
  std::vector<References::Reached> reached;   // ... what each of them reaches.
  std::vector<std::unique_ptr<Code>> codes;   // By function; null: no kernel reaches it.
  std::vector<size_t> table_indices;          // By function, in `table`.
  std::vector<std::vector<Refusal>> refused;  // By function.
  std::optional<SharedLayout> shared;
  FunctionTable table;
  std::vector<Kernel> kernels;
  std::unordered_map<std::string_view, size_t> kernel_names;
  std::unordered_map<std::string_view, Place> places;
  int64_t global_bytes = 0;
  uint64_t linked_at = 0;

  class FunctionScope;
};

// What the code of one function may name.
class State::FunctionScope final : public Scope {
 public:
  FunctionScope(const State& state, const Function& function)
      : state_(state), function_(function) {}

  std::optional<uint64_t> AddressOf(std::string_view name) const override {
    if (const auto offset = state_.shared->Find(function_, name); offset.has_value())
      return static_cast<uint64_t>(*offset);
    if (const auto place = state_.places.find(name); place != state_.places.end())
      return static_cast<uint64_t>(place->second.offset);
    const size_t index = state_.references.FindFunction(name);
    if (index == References::kNone || state_.table_indices[index] == kNowhere) return std::nullopt;
    return FunctionAddress(state_.table_indices[index]);
  }
  const Code* FindFunction(std::string_view name) const override {
    const size_t index = state_.references.FindFunction(name);
    return index == References::kNone ? nullptr : state_.codes[index].get();
  }
  bool Relocated(std::string_view name) const override {
    return !state_.shared->Find(function_, name).has_value() && state_.places.contains(name);
  }

 private:
  const State& state_;
  const Function& function_;
};

void State::PlaceVariables() {
  for (const Variable& variable : module.variables) {
    if (!IsGlobal(variable) || variable.external()) continue;
    const int64_t alignment = variable.aligned_to();
    const int64_t offset = (global_bytes + alignment - 1) / alignment * alignment;
    places.emplace(variable.name, Place{std::string(variable.name), offset, variable.bytes()});
    global_bytes = offset + variable.bytes();
  }
}

absl::Status State::CheckInitializers() const {
  for (const Variable& variable : module.variables)
    for (const Initializer& value : variable.values)
      if (!value.symbol.empty() && !places.contains(value.symbol) &&
          references.FindFunction(value.symbol) == References::kNone)
        return absl::InvalidArgumentError(
            fmt::format("line {}: '{}' is not defined", variable.line, value.symbol));
  return absl::OkStatus();
}

void State::FindReached() {
  codes.resize(module.functions.size());
  refused.resize(module.functions.size());
  table_indices.resize(module.functions.size(), kNowhere);
  for (size_t i = 0; i < module.functions.size(); ++i)
    if (module.functions[i].entry && !module.functions[i].external) entries.push_back(i);
  for (const size_t entry : entries) {
    reached.push_back(references.From(entry));
    for (const size_t i : reached.back().functions) {
      const Function& function = module.functions[i];
      if (codes[i] != nullptr || function.external) continue;
      codes[i] = std::make_unique<Code>();
      codes[i]->files = &module.files;
      if (function.entry) continue;
      table_indices[i] = table.size();
      table.push_back(codes[i].get());
    }
  }
  shared.emplace(module, reached);
}

absl::Status State::Decode() {
  struct Work {
    size_t function;
    FunctionScope scope;
    FunctionDecoder decoder;

    Work(const State& state, size_t i, Code& code)
        : function(i),
          scope(state, state.module.functions[i]),
          decoder(state.module.functions[i], scope, code) {}
  };
  // All are laid out before the first is decoded: calls ask for parameters.
  std::vector<std::unique_ptr<Work>> works;
  for (size_t i = 0; i < codes.size(); ++i)
    if (codes[i] != nullptr) works.push_back(std::make_unique<Work>(*this, i, *codes[i]));
  for (const auto& work : works)
    COPPICE_RETURN_IF_ERROR(work->decoder.Decode(&refused[work->function]));
  return absl::OkStatus();
}

absl::Status State::CheckRefusals() const {
  for (size_t kernel = 0; kernel < entries.size(); ++kernel) {
    for (const size_t i : reached[kernel].functions) {
      if (refused[i].empty()) continue;
      const Refusal& refusal = refused[i].front();
      const std::string_view entry = module.functions[entries[kernel]].name;
      const std::string_view function = module.functions[i].name;
      return absl::UnimplementedError(fmt::format(
          "kernel {}{}: line {}: the emulator cannot execute {}; compile for sm_80, sm_89 or sm_90",
          entry, i == entries[kernel] ? "" : fmt::format(" calls {}", function), refusal.line,
          refusal.opcode));
    }
  }
  return absl::OkStatus();
}

absl::Status State::AddKernel(size_t function, const SharedLayout::Extent& extent) {
  const Function& entry = module.functions[function];
  if (extent.static_bytes > kStaticSharedBytesMax)
    return InvalidArgument(
        "line {}: kernel {} has {} bytes of static shared memory, but the maximum is {}; make the "
        "rest dynamic",
        entry.line, entry.name, extent.static_bytes, kStaticSharedBytesMax);
  const auto swaps = [](const auto& code) { return code != nullptr && code->swaps_words; };
  Kernel kernel{.code = codes[function].get(),
                .functions = &table,
                .swaps_words = std::ranges::any_of(codes, swaps),
                .shared_bytes = extent.static_bytes,
                .dynamic_offset = extent.dynamic_offset};
  for (const Place& parameter : kernel.code->parameters)
    kernel.parameter_bytes = parameter.offset + parameter.bytes;
  const bool required = !entry.required_threads.empty();
  const std::vector<int>& threads = required ? entry.required_threads : entry.max_threads;
  int64_t product = threads.empty() ? kernel.max_threads : 1;
  for (const int dimension : threads)
    product = std::min(product * dimension, int64_t{kernel.max_threads});
  kernel.max_threads = static_cast<int>(product);
  if (required) kernel.required_threads.fill(1);
  std::copy(entry.required_threads.begin(), entry.required_threads.end(),
            kernel.required_threads.begin());
  if (!entry.required_cluster.empty()) kernel.required_cluster.fill(1);
  std::ranges::copy(entry.required_cluster, kernel.required_cluster.begin());
  kernel_names.emplace(entry.name, kernels.size());
  kernels.push_back(kernel);
  return absl::OkStatus();
}

// "sm_90a" is 90.
absl::Status State::ReadTarget() {
  const std::string_view target = module.target;
  const char* const end = target.data() + target.size();
  const auto digits = target.substr(0, 3) == "sm_" ? target.substr(3) : std::string_view();
  const auto [rest, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), capability);
  const std::string_view suffix(rest, static_cast<size_t>(end - rest));
  if (!digits.empty() && error == std::errc() && capability > 0 &&
      (suffix.empty() || suffix == "a" || suffix == "f"))
    return absl::OkStatus();
  return InvalidArgument("line 1: .target '{}' does not name an architecture such as sm_80",
                         target);
}

KernelSurvey State::SurveyOf(size_t kernel) const {
  const Kernel& from = kernels[kernel];
  KernelSurvey survey = {.name = std::string(module.functions[entries[kernel]].name),
                         .parameters = from.code->parameters,
                         .parameter_bytes = from.parameter_bytes,
                         .shared_bytes = from.shared_bytes,
                         .required_threads = from.required_threads,
                         .max_threads = from.max_threads};
  for (const size_t i : reached[kernel].functions) {
    const Function& function = module.functions[i];
    for (const Instruction& instruction : function.body)
      ++survey.opcodes[std::string(instruction.opcode)];
    for (const Refusal& refusal : refused[i])
      survey.refused.push_back({std::string(function.name), refusal.opcode, refusal.line});
  }
  return survey;
}

uint64_t State::AddressOf(std::string_view symbol, bool* relocated) const {
  if (const auto place = places.find(symbol); place != places.end()) {
    *relocated = true;
    return static_cast<uint64_t>(place->second.offset);
  }
  // A function that no kernel reaches cannot be called either.
  const size_t index = references.FindFunction(symbol);
  if (index == References::kNone || table_indices[index] == kNowhere) return 0;
  return FunctionAddress(table_indices[index]);
}

void State::Initialize(const Variable& variable, std::byte* at) const {
  const auto bytes = static_cast<size_t>(SizeOf(variable.type));
  for (const Initializer& value : variable.values) {
    bool relocated = false;
    uint64_t bits = value.bits;
    if (!value.symbol.empty()) bits += AddressOf(value.symbol, &relocated);
    if (relocated) bits += linked_at;
    std::memcpy(at + static_cast<size_t>(value.element) * bytes, &bits,
                std::min(bytes, sizeof(bits)));
  }
}

// Decoded, and its kernels added, whatever they reach.
absl::StatusOr<std::unique_ptr<State>> Decode(std::string text) {
  COPPICE_ASSIGN_OR_RETURN(Module module, Parse(std::move(text)));
  auto state = std::make_unique<State>(std::move(module));
  COPPICE_RETURN_IF_ERROR(state->ReadTarget());
  COPPICE_RETURN_IF_ERROR(Validate(state->module, state->capability));
  state->PlaceVariables();
  COPPICE_RETURN_IF_ERROR(state->CheckInitializers());
  state->FindReached();
  COPPICE_RETURN_IF_ERROR(state->Decode());
  state->kernels.reserve(state->entries.size());
  for (size_t i = 0; i < state->entries.size(); ++i)
    COPPICE_RETURN_IF_ERROR(state->AddKernel(state->entries[i], state->shared->extent(i)));
  return state;
}

class DecodedProgram final : public Program {
 public:
  explicit DecodedProgram(std::unique_ptr<State> state) : state_(std::move(state)) {}

  int64_t global_bytes() const override { return state_->global_bytes; }
  void Link(uint64_t address, std::byte* memory) override;
  int capability() const override { return state_->capability; }
  const std::vector<Kernel>& kernels() const override { return state_->kernels; }
  const Kernel* FindKernel(std::string_view name) const override {
    const auto found = state_->kernel_names.find(name);
    return found == state_->kernel_names.end() ? nullptr : &state_->kernels[found->second];
  }
  const Place* FindVariable(std::string_view name) const override {
    const auto found = state_->places.find(name);
    return found == state_->places.end() ? nullptr : &found->second;
  }

 private:
  std::unique_ptr<State> state_;
};

void DecodedProgram::Link(uint64_t address, std::byte* memory) {
  const uint64_t moved = address - state_->linked_at;
  state_->linked_at = address;
  std::memset(memory, 0, static_cast<size_t>(state_->global_bytes));
  for (const Variable& variable : state_->module.variables)
    if (const auto place = state_->places.find(variable.name); place != state_->places.end())
      state_->Initialize(variable, memory + place->second.offset);
  for (const auto& code : state_->codes) {
    if (code == nullptr) continue;
    for (const uint32_t offset : code->relocations) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        std::byte* const at = code->constants.data() + offset + lane * sizeof(uint64_t);
        uint64_t value = 0;
        std::memcpy(&value, at, sizeof(value));
        value += moved;
        std::memcpy(at, &value, sizeof(value));
      }
    }
  }
}

}  // namespace

absl::StatusOr<std::vector<KernelSurvey>> Program::Survey(std::string text) {
  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<State> state, Decode(std::move(text)));
  std::vector<KernelSurvey> surveys;
  for (size_t i = 0; i < state->kernels.size(); ++i)
    surveys.push_back(state->SurveyOf(i));
  return surveys;
}

absl::StatusOr<std::unique_ptr<Program>> Program::Build(std::string text) {
  COPPICE_ASSIGN_OR_RETURN(std::unique_ptr<State> state, Decode(std::move(text)));
  COPPICE_RETURN_IF_ERROR(state->CheckRefusals());
  // What has been decoded is not asked again.
  for (Function& function : state->module.functions)
    function.body = {};
  return std::make_unique<DecodedProgram>(std::move(state));
}

}  // namespace coppice::ptx
