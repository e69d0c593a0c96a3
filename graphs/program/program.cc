// A program's spec in the shape that the replay path reads, and what its symbols have seen.

#include "graphs/program/program.h"

#include <algorithm>
#include <utility>

#include "coppice/base/status.h"

#include "graphs/program/claims.h"

namespace coppice {

using internal::Observe;
using internal::ProgramLayout;

namespace {

// The sequences of that number; null if it is -1, or if they are in no rectangle.
const RaggedSpec* RectangleIn(const ProgramSpec& spec, int sequences) {
  if (sequences < 0) return nullptr;
  const RaggedSpec& named = spec.ragged[static_cast<size_t>(sequences)];
  return named.is_rectangle() ? &named : nullptr;
}

void LayOutCopy(const InputSpec& input, const RaggedSpec* sequences, ProgramLayout& layout) {
  internal::CopyShape& shape = layout.copy_shapes.emplace_back();
  shape.dtype = input.dtype;
  Dims dims = input.dims;
  if (sequences != nullptr) {
    dims.erase(dims.begin());
    dims[0] = Dim::Symbol(sequences->total);
  }
  shape.rank = static_cast<int8_t>(dims.size());
  shape.misalignment = static_cast<DeviceAddress>(SizeOf(input.dtype)) - 1;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    const int extent = internal::ExtentOf(dims[axis]);
    shape.axes[axis] = {.size = dims[axis].size, .extent = extent};
    if (extent >= 0) layout.axis_extents |= uint32_t{1} << extent;
  }
}

void LayOutTensors(const ProgramSpec& spec,
                   const internal::RaggedTensors& ragged,
                   ProgramLayout& layout) {
  for (int i = 0; i < static_cast<int>(spec.inputs.size()); ++i) {
    const InputSpec& input = spec.inputs[static_cast<size_t>(i)];
    const bool is_static = input.role == InputRole::kStatic;
    (is_static ? layout.statics : layout.copies).push_back(i);
    (is_static ? layout.mutates_statics : layout.mutates_copies) |= input.mutated;
    if (!is_static) LayOutCopy(input, RectangleIn(spec, ragged.OfInput(i)), layout);
  }
  for (int i = 0; i < static_cast<int>(spec.outputs.size()); ++i) {
    if (spec.outputs[static_cast<size_t>(i)].role == OutputRole::kStatic)
      layout.static_outputs.push_back(i);
  }
  const auto symbolic = [](const auto& tensor) {
    const auto is = [](const Dim& dim) { return !dim.is_fixed(); };
    return !tensor.strides.empty() &&
           (std::any_of(tensor.strides.begin(), tensor.strides.end(), is) ||
            std::any_of(tensor.dims.begin(), tensor.dims.end(), is));
  };
  layout.symbolic_strides = std::any_of(spec.inputs.begin(), spec.inputs.end(), symbolic) ||
                            std::any_of(spec.outputs.begin(), spec.outputs.end(), symbolic);
}

void LayOutScalars(const ProgramSpec& spec, ProgramLayout& layout) {
  for (int i = 0; i < static_cast<int>(spec.scalars.size()); ++i) {
    if (spec.scalars[static_cast<size_t>(i)].device_resident) layout.device_scalars.push_back(i);
    if (internal::IsKeyScalar(spec, i)) layout.key_scalars.push_back(i);
  }
  layout.scalars_in_key = layout.key_scalars.size() == spec.scalars.size();
  layout.random_word = spec.random_numbers_per_call > 0 ? RandomWord(spec) : -1;
}

void ReadClaims(const ProgramSpec& spec,
                const std::vector<Expression>& extents,
                ProgramLayout& layout) {
  uint32_t any_symbols = 0;
  for (size_t i = 0; i < spec.symbols.size(); ++i) {
    const SymbolSpec& symbol = spec.symbols[i];
    const bool dynamic =
        symbol.kind == SymbolKind::kDynamic || symbol.kind == SymbolKind::kMaybeDynamic;
    const std::optional<PaddingClaim> claim = ClaimOf(spec, static_cast<int>(i));
    layout.claimed[i] = claim.has_value();
    layout.pads_always[i] = dynamic && !symbol.exclude_01 && layout.claimed[i];
    const bool any = claim && claim->padding == PaddingContents::kAny;
    if (any || !internal::HasPadding(spec, static_cast<int>(i))) any_symbols |= uint32_t{1} << i;
  }
  layout.any_bits_everywhere = any_symbols + 1 == uint32_t{1} << spec.symbols.size();
  layout.symbols_of_extents.resize(layout.extent_count);
  for (size_t i = 0; i < layout.extent_count; ++i) {
    if (i >= spec.symbols.size() && i < kSymbolsMax) continue;
    layout.symbols_of_extents[i] =
        internal::SymbolsOf(spec, extents, internal::DimOf(static_cast<int>(i)));
    if ((layout.symbols_of_extents[i] & ~any_symbols) == 0) layout.any_bits |= uint32_t{1} << i;
  }
}

}  // namespace

ProgramLayout internal::LayOut(const ProgramSpec& spec,
                               const RaggedTensors& ragged,
                               const std::vector<Expression>& extents,
                               bool has_guards) {
  ProgramLayout layout;
  LayOutTensors(spec, ragged, layout);
  LayOutScalars(spec, layout);
  layout.extent_count = extents.empty() ? spec.symbols.size() : kSymbolsMax + extents.size();
  ReadClaims(spec, extents, layout);
  bool bound = false;
  bool pads_always = true;
  for (size_t i = 0; i < spec.symbols.size(); ++i) {
    layout.given_count += spec.symbols[i].given ? 1 : 0;
    if (spec.symbols[i].counted) layout.counted.push_back(static_cast<int>(i));
    bound |= spec.symbols[i].scalar >= 0;
    pads_always &= layout.pads_always[i];
  }
  for (const RaggedSpec& sequences : spec.ragged)
    layout.ragged_totals |= uint32_t{1} << sequences.total;
  for (const JointSpec& pair : spec.joint)
    layout.joint_symbols |= uint32_t{1} << pair.a | uint32_t{1} << pair.b;
  layout.axes_say_all = extents.empty() && layout.given_count == 0 && !bound && !has_guards;
  layout.pads_plainly =
      extents.empty() && !layout.symbolic_strides && layout.joint_symbols == 0 && pads_always;
  layout.inspected = layout.mutates_copies || layout.symbolic_strides || !layout.counted.empty();
  layout.plain_words = layout.random_word < 0 && layout.counted.empty() && spec.ragged.empty();
  return layout;
}

Program::Program(ProgramSpec valid_spec,
                 GuardProgram spec_guards,
                 Work work,
                 const Place& its_place)
    : ragged(internal::RaggedTensorsOf(valid_spec)),
      spec(internal::WithoutRagged(std::move(valid_spec))),
      guards(std::move(spec_guards)),
      extents(*CompileExtents(spec)),
      steps(std::move(work.steps)),
      requests_known(steps != nullptr || work.dry_run != nullptr),
      place(its_place),
      layout(internal::LayOut(spec, ragged, extents, guards.guard_count() > 0)),
      state_{.registered_with = its_place.owner,
             .callable = std::move(work.callable),
             .dry_run = std::move(work.dry_run)} {
  for (const SymbolSpec& symbol : spec.symbols)
    state_.ladders.push_back(internal::LadderOf(symbol));
  Forget();
}

void Program::Forget() const {
  for (std::atomic<int64_t>& extent : state_.first_extents)
    extent.store(kUnseen);
  state_.reasons_logged.store(0);
}

Dims Program::CallersDims(size_t copy) const {
  const internal::CopyShape& shape = layout.copy_shapes[copy];
  Dims dims;
  for (const auto& axis : std::span(shape.axes).first(static_cast<size_t>(shape.rank)))
    dims.push_back(axis.extent < 0 ? Dim::Fixed(axis.size) : internal::DimOf(axis.extent));
  return dims;
}

const RaggedSpec* Program::Rectangle(int sequences) const {
  return RectangleIn(spec, sequences);
}

uint32_t Program::SymbolsOf(uint32_t extents_read) const {
  uint32_t symbols = 0;
  for (size_t i = 0; i < layout.symbols_of_extents.size(); ++i)
    if ((extents_read >> i & 1) != 0) symbols |= layout.symbols_of_extents[i];
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
  if (!layout.claimed[index]) return false;
  if (symbol.exclude_01 && extent <= 1) return false;
  if (symbol.kind != SymbolKind::kAuto) return true;
  std::atomic<int64_t>& first = state_.first_extents[index];
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
      "{}: program '{}' was unregistered; register it again and pass the program that Register "
      "returns",
      where, program.spec.name);
}

}  // namespace coppice
