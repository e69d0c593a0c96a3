// A program's spec in the shape that the replay path reads, and what its symbols have seen.

#include "graphs/program/registration.h"

#include <algorithm>
#include <utility>

#include "coppice/base/status.h"

#include "graphs/program/claims.h"

namespace coppice {

using internal::Observe;

Program::Program(ProgramSpec valid_spec,
                 GuardProgram spec_guards,
                 Callable callable,
                 std::unique_ptr<const internal::StepSource> known_steps,
                 const Place& its_place)
    : ragged(internal::RaggedTensorsOf(valid_spec)),
      spec(internal::WithoutRagged(std::move(valid_spec))),
      guards(std::move(spec_guards)),
      extents(*CompileExtents(spec)),
      steps(std::move(known_steps)),
      place(its_place),
      extent_count(extents.empty() ? spec.symbols.size() : kSymbolsMax + extents.size()),
      random_word(spec.random_numbers_per_call > 0 ? RandomWord(spec) : -1),
      registered_with_(its_place.owner),
      callable_(std::move(callable)) {
  for (const SymbolSpec& symbol : spec.symbols)
    ladders_.push_back(internal::LadderOf(symbol));
  SplitInputs();
  SplitScalars();
  given_count = static_cast<int>(std::ranges::count(spec.symbols, true, &SymbolSpec::given));
  const bool bound = std::ranges::any_of(
      spec.symbols, [](const SymbolSpec& symbol) { return symbol.scalar >= 0; });
  axes_say_all = extents.empty() && given_count == 0 && !bound && guards.guard_count() == 0;
  ReadClaims();
  for (const JointSpec& pair : spec.joint)
    joint_symbols |= uint32_t{1} << pair.a | uint32_t{1} << pair.b;
  pads_plainly = extents.empty() && !symbolic_strides && joint_symbols == 0 &&
                 std::all_of(pads_always_.begin(), pads_always_.begin() + spec.symbols.size(),
                             [](bool always) { return always; });
  Forget();
}

void Program::Forget() const {
  for (std::atomic<int64_t>& extent : first_extents_)
    extent.store(kUnseen);
  reasons_logged_.store(0);
}

void Program::SplitInputs() {
  for (int i = 0; i < static_cast<int>(spec.inputs.size()); ++i) {
    const InputSpec& input = spec.inputs[static_cast<size_t>(i)];
    if (input.role == InputRole::kStatic) {
      statics.push_back(i);
      mutates_statics |= input.mutated;
      continue;
    }
    copies.push_back(i);
    mutates_copies |= input.mutated;
    internal::CopyShape& shape = copy_shapes.emplace_back();
    shape.dtype = input.dtype;
    Dims dims = input.dims;
    if (const RaggedSpec* const sequences = RectangleOfInput(i)) {
      dims.erase(dims.begin());
      dims[0] = Dim::Symbol(sequences->total);
    }
    shape.rank = static_cast<int8_t>(dims.size());
    shape.misalignment = static_cast<DeviceAddress>(SizeOf(input.dtype)) - 1;
    std::copy(dims.begin(), dims.end(), shape.dims.begin());
    for (const Dim& dim : dims)
      if (dim.symbol >= 0) axis_extents |= uint32_t{1} << dim.symbol;
  }
  for (int i = 0; i < static_cast<int>(spec.outputs.size()); ++i) {
    if (spec.outputs[static_cast<size_t>(i)].role == OutputRole::kStatic)
      static_outputs.push_back(i);
  }
  const auto symbolic = [](const auto& tensor) {
    const auto is = [](const Dim& dim) { return dim.symbol >= 0; };
    return !tensor.strides.empty() &&
           (std::any_of(tensor.strides.begin(), tensor.strides.end(), is) ||
            std::any_of(tensor.dims.begin(), tensor.dims.end(), is));
  };
  symbolic_strides = std::any_of(spec.inputs.begin(), spec.inputs.end(), symbolic) ||
                     std::any_of(spec.outputs.begin(), spec.outputs.end(), symbolic);
  for (int i = 0; i < static_cast<int>(spec.symbols.size()); ++i)
    if (spec.symbols[static_cast<size_t>(i)].counted) counted.push_back(i);
  inspected = mutates_copies || symbolic_strides || !counted.empty();
  for (const RaggedSpec& sequences : spec.ragged)
    ragged_totals |= uint32_t{1} << sequences.total;
  plain_words = random_word < 0 && counted.empty() && spec.ragged.empty();
}

void Program::SplitScalars() {
  for (int i = 0; i < static_cast<int>(spec.scalars.size()); ++i) {
    if (spec.scalars[static_cast<size_t>(i)].device_resident) device_scalars.push_back(i);
    if (IsKeyScalar(i)) key_scalars.push_back(i);
  }
  scalars_in_key = key_scalars.size() == spec.scalars.size();
}

void Program::ReadClaims() {
  uint32_t any_symbols = 0;
  for (size_t i = 0; i < spec.symbols.size(); ++i) {
    const SymbolSpec& symbol = spec.symbols[i];
    const bool dynamic =
        symbol.kind == SymbolKind::kDynamic || symbol.kind == SymbolKind::kMaybeDynamic;
    const std::optional<PaddingClaim> claim = ClaimOf(spec, static_cast<int>(i));
    claimed_[i] = claim.has_value();
    pads_always_[i] = dynamic && !symbol.exclude_01 && claimed_[i];
    const bool any = claim && claim->padding == PaddingContents::kAny;
    if (any || !internal::HasPadding(spec, static_cast<int>(i))) any_symbols |= uint32_t{1} << i;
  }
  any_bits_everywhere = any_symbols + 1 == uint32_t{1} << spec.symbols.size();
  symbols_of_extents_.resize(extent_count);
  for (size_t i = 0; i < extent_count; ++i) {
    if (i >= spec.symbols.size() && i < kSymbolsMax) continue;
    symbols_of_extents_[i] = internal::SymbolsOf(spec, extents, Dim::Symbol(static_cast<int>(i)));
    if ((symbols_of_extents_[i] & ~any_symbols) == 0) any_bits |= uint32_t{1} << i;
  }
}

uint32_t Program::SymbolsOf(uint32_t extents_read) const {
  uint32_t symbols = 0;
  for (size_t i = 0; i < symbols_of_extents_.size(); ++i)
    if ((extents_read >> i & 1) != 0) symbols |= symbols_of_extents_[i];
  return symbols;
}

PaddingContents Program::ContentsOf(const InputSpec& input, uint32_t padded_extents) const {
  const uint32_t symbols = SymbolsOf(padded_extents);
  PaddingContents contents = PaddingContents::kAny;
  for (int i = 0; i < static_cast<int>(spec.symbols.size()); ++i)
    if ((symbols >> i & 1) != 0 && internal::HasPadding(spec, i))
      contents = std::max(contents, coppice::ContentsOf(spec, input, i));
  return contents;
}

bool internal::IsKeyScalar(const ProgramSpec& spec, int index) {
  return !spec.scalars[static_cast<size_t>(index)].device_resident &&
         std::ranges::find(spec.symbols, index, &SymbolSpec::scalar) == spec.symbols.end();
}

bool Program::PadsAt(size_t index, int64_t extent, Observe observe) const {
  const SymbolSpec& symbol = spec.symbols[index];
  if (symbol.kind == SymbolKind::kStatic) return false;
  if (!claimed_[index]) return false;
  if (symbol.exclude_01 && extent <= 1) return false;
  if (symbol.kind != SymbolKind::kAuto) return true;
  std::atomic<int64_t>& first = first_extents_[index];
  int64_t seen = first.load(std::memory_order_relaxed);
  if (seen == kPromoted) return true;
  if (observe == Observe::kNo) return seen != kUnseen && seen != extent;
  if (seen == kUnseen && first.compare_exchange_strong(seen, extent)) return false;
  if (seen == extent) return false;
  first.store(kPromoted, std::memory_order_relaxed);
  return true;
}

bool Program::IsBucket(size_t symbol, int64_t extent) const {
  const SymbolSpec& checked = spec.symbols[symbol];
  if (extent < 0 || extent > policy(symbol).maximum()) return false;
  if (checked.kind == SymbolKind::kStatic || (checked.exclude_01 && extent <= 1)) return true;
  return extent >= 1 && policy(symbol).Find(extent) == extent;
}

bool Program::IsBucket(std::span<const int64_t> extents_of_symbols) const {
  if (extents_of_symbols.size() != spec.symbols.size()) return false;
  for (size_t i = 0; i < extents_of_symbols.size(); ++i)
    if (!IsBucket(i, extents_of_symbols[i])) return false;
  internal::ExtentArray bucket{};
  std::ranges::copy(extents_of_symbols, bucket.begin());
  return PadsJointly(bucket, bucket);
}

bool Program::PadsJointly(const internal::ExtentArray& real,
                          const internal::ExtentArray& padded) const {
  return std::ranges::all_of(spec.joint, [&](const JointSpec& pair) {
    const JointSize size = pair.SizeIn(real);
    return pair.policy.Find(size.a, size.b) == pair.SizeIn(padded);
  });
}

absl::Status internal::Unregistered(const char* where, const Program& program) {
  return FailedPrecondition(
      "{}: program '{}' was unregistered; register it anew and pass what Register returns", where,
      program.spec.name);
}

}  // namespace coppice
