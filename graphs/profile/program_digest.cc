// The spec as JSON, which quotes names, so that no two specs have one text.

#include "graphs/profile/program_digest.h"

#include <span>
#include <utility>

#include "nlohmann/json.hpp"

#include "graphs/program/spec_document.h"
#include "runtime/package/digest.h"

namespace coppice::internal {
namespace {

std::string SpecText(const Program& program) {
  nlohmann::json text = SpecDocument(program.spec);
  // With the tensors whose rows are ragged.
  if (const auto ragged = text.find("ragged"); ragged != text.end()) {
    nlohmann::json sets = std::move(*ragged);
    *ragged = {std::move(sets), program.ragged.inputs, program.ragged.outputs};
  }
  return text.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string DigestOf(const Program& program) {
  if (program.steps != nullptr) return "package:" + program.steps->Identity();
  const std::string text = SpecText(program);
  return "spec:" + package::Sha256Of({std::as_bytes(std::span(text))});
}

}  // namespace coppice::internal
