// The spec as JSON, which quotes names, so that no two specs have one text.

#include "graphs/profile/program_digest.h"

#include <span>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "coppice/graphs/session_documents.h"

#include "runtime/package/digest.h"

namespace coppice::internal {
namespace {

std::string SpecText(const Program& program) {
  std::string text = WriteSpecDocument(program.spec);
  // The tensors whose rows are ragged, which the spec of a program does not say any more.
  if (!program.spec.ragged.empty())
    text += fmt::format(" {} {}", program.ragged.inputs, program.ragged.outputs);
  return text;
}

}  // namespace

std::string DigestOf(const Program& program) {
  if (program.steps != nullptr) return "package:" + program.steps->Identity();
  const std::string text = SpecText(program);
  return "spec:" + package::Sha256Of({std::as_bytes(std::span(text))});
}

}  // namespace coppice::internal
