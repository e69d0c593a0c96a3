// Tries, from the smallest on.

#include "tools/replay/shrink_case.h"

#include <algorithm>
#include <set>
#include <utility>

#include "fmt/format.h"

#include "coppice/base/expression.h"
#include "coppice/base/status.h"

#include "tools/package/call_set.h"

namespace coppice {
namespace {

constexpr int64_t kLooksMax = 400;  // Of a whole shrinking.
constexpr int64_t kEachMax = 40;    // Sizes that are tried one by one.
constexpr int64_t kRestParts = 8;   // Steps per doubling above.

// The leading part of a tensor.
CaseTensor Leading(const CaseTensor& tensor, const std::vector<int64_t>& dims) {
  CaseTensor part{tensor.dtype, dims, {}};
  const auto size = static_cast<size_t>(SizeOf(tensor.dtype));
  int64_t count = 1;
  for (const int64_t dim : dims)
    count *= dim;
  part.bytes.reserve(static_cast<size_t>(count) * size);
  std::vector<int64_t> place(dims.size());
  for (int64_t i = 0; i < count; ++i) {
    int64_t from = 0;
    int64_t rest = i;
    for (size_t axis = dims.size(); axis-- > 0;) {
      place[axis] = rest % dims[axis];
      rest /= dims[axis];
    }
    for (size_t axis = 0; axis < dims.size(); ++axis)
      from = from * tensor.dims[axis] + place[axis];
    part.bytes.append(tensor.bytes, static_cast<size_t>(from) * size, size);
  }
  return part;
}

// Only what calls and bindings name.
void DropTensors(Case& value) {
  std::set<std::string> named;
  for (const CaseCall& call : value.calls) {
    for (const CaseInput& input : call.inputs)
      named.insert(input.tensor);
    for (const CaseStatic& each : call.statics)
      named.insert(each.tensor);
    named.insert(call.outputs.begin(), call.outputs.end());
    if (call.binding < 0) continue;
    for (const CaseStatic& each : value.bindings[static_cast<size_t>(call.binding)].statics)
      named.insert(each.tensor);
  }
  std::erase_if(value.tensors, [&](const auto& tensor) { return !named.contains(tensor.first); });
}

// Ascending, from `least` or 1 to `most`: first each, then some.
std::vector<int64_t> SizesToTry(int64_t least, int64_t most) {
  std::vector<int64_t> sizes;
  for (int64_t size = std::max<int64_t>(least, 1); size < most;
       size += size < kEachMax ? 1 : size / kRestParts)
    sizes.push_back(size);
  sizes.push_back(most);
  return sizes;
}

class Shrinking {
 public:
  Shrinking(const Examination& examination, const Case& value, const Verdict& found)
      : examination_(examination), best_{value, found} {}

  absl::StatusOr<Shrunken> Run(const Console& console);

 private:
  // Takes the case if it shows the same. Nothing that cannot be played does.
  bool Try(Case value);
  // Gives the last needed call the values that it read in place.
  absl::Status GiveValues();
  void DropCalls();
  bool ShrinkSymbol(size_t symbol, const Console& console);
  std::optional<Case> AtSizes(size_t symbol, int64_t size, int64_t bucket) const;
  const CaseCall& call() const {
    return *std::ranges::find(best_.value.calls, best_.verdict.call, &CaseCall::number);
  }
  const package::Program& program() const {
    const CaseProgram& of = best_.value.programs[static_cast<size_t>(call().program)];
    return *std::ranges::find(examination_.package().manifest().programs, of.package_program,
                              &package::Program::name);
  }

  const Examination& examination_;
  Shrunken best_;
};

bool Shrinking::Try(Case value) {
  if (best_.looks >= kLooksMax) return false;
  ++best_.looks;
  const absl::StatusOr<Verdict> seen = examination_.LookAgain(value, best_.verdict);
  if (!seen.ok() || !seen->IsLike(best_.verdict)) return false;
  std::vector<std::string> notes = std::move(best_.verdict.notes);
  best_.value = std::move(value);
  best_.verdict = *seen;
  best_.verdict.notes = std::move(notes);
  return true;
}

absl::Status Shrinking::GiveValues() {
  COPPICE_ASSIGN_OR_RETURN(const Played played, examination_.Play(best_.value, best_.verdict.way));
  Case value = best_.value;
  CaseCall& last = *std::ranges::find(value.calls, best_.verdict.call, &CaseCall::number);
  for (size_t i = 0; i < last.inputs.size(); ++i) {
    CaseInput& input = last.inputs[i];
    if (input.output < 0 || !input.tensor.empty()) continue;
    const auto source = std::ranges::find(value.calls, input.call, &CaseCall::number);
    if (source == value.calls.end()) continue;
    const auto& outcome = played.outcomes[static_cast<size_t>(source - value.calls.begin())];
    if (!outcome || input.output >= std::ssize(outcome->outputs)) continue;
    const HostArray& array = outcome->outputs[static_cast<size_t>(input.output)];
    // A part of an output stays where it is.
    if (input.at != 0 || array.dims != input.dims || array.dtype != input.dtype) continue;
    input.tensor = fmt::format("calls/{}/inputs/{}", last.number, i);
    value.tensors[input.tensor] = {array.dtype, array.dims, array.bytes};
    input.output = -1;
    input.call = 0;
    input.strides.clear();
  }
  if (!(value == best_.value)) Try(std::move(value));
  return absl::OkStatus();
}

// All but the last needed call at once, then one by one.
void Shrinking::DropCalls() {
  const uint64_t last = best_.verdict.call;
  Case behind = best_.value;
  std::erase_if(behind.calls, [last](const CaseCall& each) { return each.number > last; });
  if (behind.calls.size() < best_.value.calls.size()) Try(std::move(behind));
  Case alone = best_.value;
  std::erase_if(alone.calls, [last](const CaseCall& each) { return each.number != last; });
  if (alone.calls.size() == best_.value.calls.size() || Try(std::move(alone))) return;
  for (size_t i = 0; i + 1 < best_.value.calls.size();) {
    Case fewer = best_.value;
    fewer.calls.erase(fewer.calls.begin() + static_cast<ptrdiff_t>(i));
    if (!Try(std::move(fewer))) ++i;
  }
}

// The case with the last call at another size of a symbol, if the program allows that.
std::optional<Case> Shrinking::AtSizes(size_t symbol, int64_t size, int64_t bucket) const {
  const package::Program& of = program();
  const package::Symbol& described = of.symbols[symbol];
  if (size % std::max<int64_t>(described.multiple_of, 1) != 0 || size < described.min ||
      bucket > described.max)
    return std::nullopt;
  Case value = best_.value;
  CaseCall& changed = *std::ranges::find(value.calls, best_.verdict.call, &CaseCall::number);
  changed.extents[symbol] = size;
  changed.bucket[symbol] = bucket;
  if (described.scalar >= 0) changed.scalars[static_cast<size_t>(described.scalar)] = size;
  changed.outputs.clear();
  const std::vector<int64_t> values = ValuesOf(of, changed.extents, changed.scalars);
  for (const std::string& text : of.guards) {
    const absl::StatusOr<Expression> guard = Expression::Parse(text, of.names());
    if (!guard.ok()) return std::nullopt;
    const Computed held = guard->Evaluate(values);
    if (held.fault != ArithmeticFault::kNone || held.value == 0) return std::nullopt;
  }
  size_t next = 0;
  for (const int index : of.inputs) {
    const package::Buffer& buffer = of.buffers[static_cast<size_t>(index)];
    if (buffer.is_static) continue;
    CaseInput& input = changed.inputs[next++];
    const absl::StatusOr<std::vector<int64_t>> dims = SizesAt(buffer.shape, values, buffer.name);
    if (!dims.ok() || input.tensor.empty()) return std::nullopt;
    if (*dims == input.dims) continue;
    for (size_t axis = 0; axis < dims->size(); ++axis)
      if ((*dims)[axis] > input.dims[axis]) return std::nullopt;
    CaseTensor& tensor = value.tensors.at(input.tensor);
    tensor = Leading(tensor, *dims);
    input.dims = *dims;
  }
  return value;
}

bool Shrinking::ShrinkSymbol(size_t symbol, const Console& console) {
  const int64_t size_now = call().extents[symbol];
  const int64_t bucket_now = call().bucket[symbol];
  for (const int64_t size : SizesToTry(program().symbols[symbol].min, size_now)) {
    // Unpadded where that shows it, too; else in the smallest bucket that does.
    std::vector<int64_t> buckets = {size};
    if (bucket_now != size_now) buckets.insert(buckets.end(), {size + 1, 2 * size, bucket_now});
    for (const int64_t bucket : buckets) {
      if (console.stopped() || best_.looks >= kLooksMax) return false;
      if (size == size_now && bucket >= bucket_now) break;
      std::optional<Case> smaller = AtSizes(symbol, size, bucket);
      if (smaller && Try(*std::move(smaller))) return true;
    }
  }
  return false;
}

absl::StatusOr<Shrunken> Shrinking::Run(const Console& console) {
  COPPICE_RETURN_IF_ERROR(GiveValues());
  DropCalls();
  bool smaller = best_.value.calls.size() > 0;
  while (smaller && best_.looks < kLooksMax && !console.stopped()) {
    smaller = false;
    for (size_t symbol = 0; symbol < call().extents.size(); ++symbol)
      smaller = ShrinkSymbol(symbol, console) || smaller;
  }
  DropTensors(best_.value);
  return std::move(best_);
}

}  // namespace

absl::StatusOr<Shrunken> ShrinkCase(const Examination& examination,
                                    const Case& value,
                                    const Verdict& found,
                                    const Console& console) {
  return Shrinking(examination, value, found).Run(console);
}

}  // namespace coppice
