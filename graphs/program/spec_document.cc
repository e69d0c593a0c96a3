// A spec field by field.

#include "graphs/program/spec_document.h"

#include <vector>

namespace coppice::internal {
namespace {

nlohmann::json DimsText(const Dims& dims) {
  nlohmann::json list = nlohmann::json::array();
  for (const Dim& dim : dims)
    list.push_back({dim.size, dim.symbol});
  return list;
}

nlohmann::json SymbolText(const SymbolSpec& symbol) {
  nlohmann::json text = {{"name", symbol.name},
                         {"kind", static_cast<int>(symbol.kind)},
                         {"over_maximum", static_cast<int>(symbol.over_maximum)},
                         {"bounds", {symbol.min, symbol.max, symbol.multiple_of}},
                         {"exclude_01", symbol.exclude_01},
                         {"given", symbol.given},
                         {"counted", symbol.counted},
                         {"scalar", symbol.scalar}};
  if (symbol.claim)
    text["claim"] = {static_cast<int>(symbol.claim->padding), symbol.claim->equal.bits,
                     symbol.claim->equal.absolute, symbol.claim->equal.relative};
  return text;
}

nlohmann::json InputText(const InputSpec& input) {
  return {{"name", input.name},
          {"dtype", static_cast<int>(input.dtype)},
          {"dims", DimsText(input.dims)},
          {"strides", DimsText(input.strides)},
          {"role", static_cast<int>(input.role)},
          {"fill", {static_cast<int>(input.fill.kind), input.fill.value}},
          {"mutated", input.mutated},
          {"alignment", input.alignment}};
}

nlohmann::json OutputText(const OutputSpec& output) {
  return {{"name", output.name},
          {"dtype", static_cast<int>(output.dtype)},
          {"dims", DimsText(output.dims)},
          {"strides", DimsText(output.strides)},
          {"role", static_cast<int>(output.role)},
          {"count", {output.count.output, output.count.axis}}};
}

template <typename Part>
nlohmann::json ListText(const std::vector<Part>& parts, nlohmann::json (*text_of)(const Part&)) {
  nlohmann::json list = nlohmann::json::array();
  for (const Part& part : parts)
    list.push_back(text_of(part));
  return list;
}

nlohmann::json ScalarText(const ScalarSpec& scalar) {
  return {scalar.name, scalar.device_resident};
}

nlohmann::json RaggedText(const RaggedSpec& sequences) {
  return {sequences.count, sequences.total, sequences.length, sequences.lengths,
          static_cast<int>(sequences.by)};
}

}  // namespace

nlohmann::json SpecDocument(const ProgramSpec& spec) {
  nlohmann::json text = {{"claim", static_cast<int>(spec.claim)},
                         {"symbols", ListText(spec.symbols, SymbolText)},
                         {"inputs", ListText(spec.inputs, InputText)},
                         {"outputs", ListText(spec.outputs, OutputText)},
                         {"scalars", ListText(spec.scalars, ScalarText)},
                         {"one_stream", spec.one_stream},
                         {"thread_safe", spec.thread_safe},
                         {"guards", spec.guards},
                         {"extents", spec.extents},
                         {"random_numbers_per_call", spec.random_numbers_per_call},
                         {"gate", static_cast<int>(spec.gate)}};
  if (!spec.ragged.empty()) text["ragged"] = ListText(spec.ragged, RaggedText);
  return text;
}

}  // namespace coppice::internal
