// What expressions of a manifest may read, and amounts made of them.

#include <utility>

#include "base/json_fields.h"
#include "runtime/package/manifest_reader.h"

namespace coppice::package {

Scope::Scope(const Program& program,
             ExpressionBudget& budget,
             const std::vector<std::string>& values)
    : program_(&program), budget_(&budget), names_(program.names()) {
  names_.insert(names_.end(), values.begin(), values.end());
}

absl::StatusOr<Expression> Scope::Parse(Json value) const {
  COPPICE_RETURN_IF_ERROR(CheckKind(value, JsonKind::kText));
  budget_->characters += static_cast<int64_t>(value.text().size());
  if (budget_->characters > ExpressionBudget::kCharactersMax)
    return value.Error(
        "the expressions of the manifest have {} characters up to this one; at most {} are allowed",
        budget_->characters, ExpressionBudget::kCharactersMax);
  absl::StatusOr<Expression> expression = Expression::Parse(std::string(value.text()), names_);
  if (!expression.ok()) return value.Error("{}", MessageOf(expression.status()));
  return expression;
}

absl::StatusOr<Expression> Scope::ExpressionOf(Json value) const {
  COPPICE_ASSIGN_OR_RETURN(Expression expression, Parse(value));
  if (program_->scalars.empty()) return expression;
  const size_t symbols = program_->symbols.size();
  for (const size_t name : expression.Reads()) {
    if (name < symbols || name >= symbols + program_->scalars.size()) continue;
    if (program_->scalars[name - symbols].parameter)
      return value.Error(
          "{} reads the scalar {}, which is not part of the key; bind it to \"key\", "
          "or pass it as {{\"real\": ...}}",
          value.Show(), names_[name]);
  }
  return expression;
}

absl::StatusOr<Amount> Scope::AmountOf(Json value, int64_t min) const {
  if (value.is(JsonKind::kText)) {
    COPPICE_ASSIGN_OR_RETURN(Expression expression, ExpressionOf(value));
    return Amount{.expression = std::move(expression)};
  }
  if (!value.is(JsonKind::kInteger))
    return value.Error("{}; write an integer, or an expression in a string", value.Show());
  COPPICE_ASSIGN_OR_RETURN(const int64_t number, IntegerOf(value, min, INT64_MAX));
  return Amount{.value = number};
}

absl::StatusOr<Amount> Scope::AmountOr(Json value, int64_t otherwise, int64_t min) const {
  if (!value.present()) return Amount{.value = otherwise};
  return AmountOf(value, min);
}

absl::StatusOr<std::vector<Amount>> Scope::AmountsOf(Json value, int64_t rank_max) const {
  COPPICE_RETURN_IF_ERROR(CheckList(value, 0, rank_max));
  std::vector<Amount> amounts;
  amounts.reserve(value.size());
  for (const Json each : value) {
    COPPICE_ASSIGN_OR_RETURN(Amount amount, AmountOf(each, 0));
    amounts.push_back(std::move(amount));
  }
  return amounts;
}

absl::StatusOr<std::string> Scope::GuardOf(Json value) const {
  COPPICE_RETURN_IF_ERROR(Parse(value).status());
  return std::string(value.text());
}

absl::StatusOr<Layout> LayoutOf(Json object, const Scope& scope) {
  Layout layout;
  COPPICE_ASSIGN_OR_RETURN(layout.dtype, DTypeOf(object["dtype"]));
  COPPICE_ASSIGN_OR_RETURN(layout.shape, scope.AmountsOf(object["shape"], kRankMax));
  const Json strides = object["strides"];
  if (!strides.present()) return layout;
  COPPICE_ASSIGN_OR_RETURN(layout.strides, scope.AmountsOf(strides, kRankMax));
  if (layout.strides.size() != layout.shape.size())
    return strides.Error("{}; write one stride for each dimension ({} in all)", strides.Show(),
                         layout.shape.size());
  return layout;
}

}  // namespace coppice::package
