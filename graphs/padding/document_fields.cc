// Fields that both kinds of documents have.

#include "graphs/padding/document_fields.h"

#include <limits>

#include "coppice/padding/policy_document.h"

#include "base/json_fields.h"

namespace coppice::internal {

absl::Status CheckPolicyVersion(Json root) {
  COPPICE_RETURN_IF_ERROR(CheckKind(root, JsonKind::kObject));
  const Json version = root["version"];
  if (version.is(JsonKind::kInteger) && version.integer() == kPolicyDocumentVersion)
    return absl::OkStatus();
  return MakeError(absl::StatusCode::kUnimplemented,
                   "{}: version {}; this library reads version {}", root.document().name(),
                   version.present() ? version.Show() : "is not given", kPolicyDocumentVersion);
}

absl::StatusOr<double> AmountOf(Json value) {
  COPPICE_ASSIGN_OR_RETURN(const double amount, FractionOf(value));
  if (!(amount >= 0 && amount <= std::numeric_limits<double>::max()))
    return value.Error("{}; write a number of 0 or more", value.Show());
  return amount;
}

}  // namespace coppice::internal
