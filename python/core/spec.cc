// Specs of programs, out of what Python gives. What a name or a number means is checked by the
// library; here only what C cannot be told.

#include "python/core/spec.h"

#include <string>
#include <tuple>
#include <utility>

#include "python/core/described/session_fields.h"
#include "python/core/dtypes.h"
#include "python/core/fields.h"
#include "python/core/given.h"
#include "python/core/status.h"

namespace coppice::python {
namespace {

// Name and value of a fill: a word, or the number that it is.
std::pair<int32_t, double> FillOf(const nb::object& given) {
  if (given.is_none()) return {COPPICE_FILL_ZERO, 0};
  if (!nb::isinstance<nb::str>(given)) return {COPPICE_FILL_VALUE, Given<double>(given, "fill")};
  return {NumberOf(nb::cast<std::string>(given), kFillKinds, "fill"), 0};
}

}  // namespace

int32_t NumberOf(const std::string& name, const std::vector<const char*>& names, const char* what) {
  std::string known;
  for (size_t i = 0; i < names.size(); ++i) {
    if (name == names[i]) return static_cast<int32_t>(i);
    known += std::string(i == 0 ? " " : ", ") + names[i];
  }
  Raise("InvalidArgument", what, ": '", name, "' is not one of", known);
}

coppice_policy PolicyOf(nb::handle given, std::deque<std::string>& texts) {
  auto policy = Blank<coppice_policy>();
  if (nb::isinstance<nb::str>(given)) {
    policy.text = texts.emplace_back(nb::cast<std::string>(given)).c_str();
    return policy;
  }
  const bool observed = nb::isinstance<nb::tuple>(given) && nb::len(given) == 3;
  const nb::tuple parts =
      GivenParts(given, "policy", "text, or (text, maximum),", observed ? 3 : 2);
  policy.text = texts.emplace_back(Given<std::string>(parts[0], "policy")).c_str();
  policy.maximum = Given<int64_t>(parts[1], "policy: maximum");
  if (observed) policy.observe_half_life = Given<double>(parts[2], "policy: half-life");
  return policy;
}

coppice_joint_policy JointPolicyOf(nb::handle given, std::deque<std::string>& texts) {
  auto policy = Blank<coppice_joint_policy>();
  if (nb::isinstance<nb::str>(given)) {
    policy.text = texts.emplace_back(nb::cast<std::string>(given)).c_str();
    return policy;
  }
  const nb::tuple parts =
      GivenParts(given, "joint policy", "text, or (text, (maximum, maximum)),", 2);
  policy.text = texts.emplace_back(Given<std::string>(parts[0], "joint policy")).c_str();
  const nb::tuple maxima = GivenParts(parts[1], "joint policy: maxima", "(maximum, maximum)", 2);
  policy.a_maximum = Given<int64_t>(maxima[0], "joint policy: maximum");
  policy.b_maximum = Given<int64_t>(maxima[1], "joint policy: maximum");
  return policy;
}

coppice_joint_policy JointPolicyOf(nb::handle symbols,
                                   nb::handle given,
                                   std::deque<std::string>& texts) {
  coppice_joint_policy policy = JointPolicyOf(given, texts);
  const nb::tuple names = GivenParts(symbols, "joint policy: symbols", "(symbol, symbol)", 2);
  policy.a = texts.emplace_back(Given<std::string>(names[0], "joint policy: symbol")).c_str();
  policy.b = texts.emplace_back(Given<std::string>(names[1], "joint policy: symbol")).c_str();
  return policy;
}

coppice_claim ClaimOf(nb::handle given) {
  auto claim = Blank<coppice_claim>();
  const nb::tuple parts = GivenParts(given, "claim", "(padding, absolute, relative)", 3);
  claim.padding = NumberOf(Given<std::string>(parts[0], "claim: padding"),
                           {"exact", "any", "finite", "fill", "row_independent"}, "claim: padding");
  claim.absolute = Given<double>(parts[1], "claim: absolute");
  claim.relative = Given<double>(parts[2], "claim: relative");
  return claim;
}

const char* ProgramSpec::Kept(std::string text) {
  return texts_.emplace_back(std::move(text)).c_str();
}

const char* ProgramSpec::Text(nb::handle value) {
  return Kept(Given<std::string>(nb::str(value), "spec"));
}

const char* const* ProgramSpec::Texts(nb::handle values) {
  std::vector<const char*>& list = lists_.emplace_back();
  for (const nb::handle value : values)
    list.push_back(Text(value));
  return list.data();
}

coppice_symbol_spec ProgramSpec::SymbolOf(nb::handle given) {
  Fields fields(given, "symbol");
  auto symbol = Blank<coppice_symbol_spec>();
  symbol.name = Kept(fields.Text("name"));
  fields.Word("kind", kSymbolKinds, symbol.kind);
  if (const nb::object policy = fields.Get("policy"); !policy.is_none())
    symbol.policy = &policies_.emplace_back(PolicyOf(policy, texts_));
  fields.Number("min", symbol.min);
  fields.Number("max", symbol.max);
  fields.Number("multiple_of", symbol.multiple_of);
  fields.Flag("exclude_01", symbol.exclude_01);
  fields.Flag("given", symbol.given);
  fields.Flag("counted", symbol.counted);
  fields.Flag("over_maximum_is_error", symbol.over_maximum_is_error);
  if (const nb::object scalar = fields.Get("scalar"); !scalar.is_none())
    symbol.scalar = Text(scalar);
  if (const nb::object claim = fields.Get("claim"); !claim.is_none())
    symbol.claim = &claims_.emplace_back(ClaimOf(claim));
  fields.CheckNames();
  return symbol;
}

coppice_tensor_spec ProgramSpec::TensorOf(nb::handle given) {
  Fields fields(given, "tensor");
  auto tensor = Blank<coppice_tensor_spec>();
  tensor.name = Kept(fields.Text("name"));
  tensor.dtype = DTypeNamed(fields.Text("dtype"));
  const nb::list shape = fields.List("shape");
  tensor.rank = static_cast<int32_t>(shape.size());
  tensor.shape = Texts(shape);
  if (const nb::object strides = fields.Get("strides"); !strides.is_none()) {
    const nb::list read = fields.List("strides");
    if (read.size() != shape.size())
      Raise("InvalidArgument", "tensor: give one stride for each size");
    tensor.strides = Texts(read);
  }
  fields.Flag("static", tensor.is_static);
  fields.Flag("mutated", tensor.mutated);
  std::tie(tensor.fill, tensor.fill_value) = FillOf(fields.Get("fill"));
  fields.Number("alignment", tensor.alignment);
  if (const nb::object count = fields.Get("count"); !count.is_none()) tensor.count = Text(count);
  fields.Number("count_axis", tensor.count_axis);
  fields.CheckNames();
  return tensor;
}

void ProgramSpec::ReadJoint(nb::handle given) {
  if (given.is_none()) return;
  if (!nb::isinstance<nb::dict>(given)) RaiseNot(given, "spec: joint", "dict");
  for (const auto& [symbols, policy] : nb::borrow<nb::dict>(given))
    joint_.push_back(JointPolicyOf(symbols, policy, texts_));
  SetArray(joint_, spec_.joint, spec_.joint_count);
}

void ProgramSpec::ReadRagged(const nb::list& given) {
  for (const nb::handle sequences : given) {
    Fields fields(sequences, "ragged");
    coppice_ragged_spec& read = ragged_.emplace_back(Blank<coppice_ragged_spec>());
    read.name = Kept(fields.Text("name"));
    read.count = Kept(fields.Text("count"));
    read.total = Kept(fields.Text("total"));
    if (const nb::object length = fields.Get("length"); !length.is_none())
      read.length = Text(length);
    read.lengths = Kept(fields.Text("lengths"));
    fields.Word("by", kRaggedBys, read.by);
    fields.CheckNames();
  }
  SetArray(ragged_, spec_.ragged, spec_.ragged_count);
}

ProgramSpec::ProgramSpec(const nb::dict& given) {
  Fields fields(given, "spec");
  spec_.name = Kept(fields.Text("name"));
  if (const nb::object variant = fields.Get("variant"); !variant.is_none())
    spec_.variant = Text(variant);
  fields.Word("claim", {"exact", "row_independent", "any", "finite", "fill"}, spec_.claim);
  for (const nb::handle symbol : fields.List("symbols"))
    symbols_.push_back(SymbolOf(symbol));
  ReadJoint(fields.Get("joint"));
  ReadRagged(fields.List("ragged"));
  for (const nb::handle tensor : fields.List("inputs"))
    inputs_.push_back(TensorOf(tensor));
  for (const nb::handle tensor : fields.List("outputs"))
    outputs_.push_back(TensorOf(tensor));
  for (const nb::handle scalar : fields.List("scalars")) {
    Fields of(scalar, "scalar");
    coppice_scalar_spec& read = scalars_.emplace_back(Blank<coppice_scalar_spec>());
    read.name = Kept(of.Text("name"));
    of.Flag("device_resident", read.device_resident);
    of.CheckNames();
  }
  fields.Word("gate", kGateModes, spec_.gate);
  const nb::list guards = fields.List("guards");
  spec_.guards = Texts(guards);
  spec_.guard_count = static_cast<int64_t>(guards.size());
  fields.Number("random_numbers_per_call", spec_.random_numbers_per_call);
  fields.Flag("one_stream", spec_.one_stream);
  fields.Flag("thread_safe", spec_.thread_safe);
  fields.CheckNames();
  SetArray(symbols_, spec_.symbols, spec_.symbol_count);
  SetArray(inputs_, spec_.inputs, spec_.input_count);
  SetArray(outputs_, spec_.outputs, spec_.output_count);
  SetArray(scalars_, spec_.scalars, spec_.scalar_count);
}

}  // namespace coppice::python
