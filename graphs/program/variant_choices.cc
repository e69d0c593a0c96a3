// A map from buckets to variants.

#include "graphs/program/variant_choices.h"

#include <algorithm>

#include "coppice/base/check.h"

namespace coppice::internal {

VariantChoices::Key VariantChoices::KeyOf(std::span<const int64_t> extents,
                                          std::span<const int64_t> scalars) const {
  Key key{{extents.begin(), extents.begin() + static_cast<ptrdiff_t>(symbols_)},
          std::vector<int64_t>(key_scalars_.size())};
  for (size_t i = 0; i < key_scalars_.size(); ++i)
    if (key_scalars_[i]) key.second[i] = scalars[i];
  return key;
}

bool VariantChoices::Has(std::span<const int64_t> extents, std::span<const int64_t> scalars) const {
  const std::lock_guard lock(mutex_);
  return chosen_.contains(KeyOf(extents, scalars));
}

VariantChoice VariantChoices::At(std::span<const int64_t> extents,
                                 std::span<const int64_t> scalars) const {
  const std::lock_guard lock(mutex_);
  const auto found = chosen_.find(KeyOf(extents, scalars));
  return found == chosen_.end() ? VariantChoice(kernels_.size()) : found->second.first;
}

void VariantChoices::Set(std::span<const int64_t> extents,
                         std::span<const int64_t> scalars,
                         VariantChoice choice,
                         VariantTimes times) {
  bool fits = choice.size() == kernels_.size();
  for (size_t i = 0; fits && i < choice.size(); ++i)
    fits = choice[i] >= 0 && static_cast<size_t>(choice[i]) < kernels_[i].variants.size();
  COPPICE_CHECK(fits, "a choice of other kernels");
  const std::lock_guard lock(mutex_);
  chosen_.try_emplace(KeyOf(extents, scalars), std::move(choice), std::move(times));
}

std::map<std::string, std::string> VariantChoices::NamesAt(std::span<const int64_t> extents,
                                                           std::span<const int64_t> scalars) const {
  const VariantChoice choice = At(extents, scalars);
  std::map<std::string, std::string> names;
  for (size_t i = 0; i < kernels_.size(); ++i)
    names[kernels_[i].kernel] = kernels_[i].variants[static_cast<size_t>(choice[i])];
  return names;
}

bool VariantChoices::SetByName(std::span<const int64_t> extents,
                               std::span<const int64_t> scalars,
                               const std::map<std::string, std::string>& names) {
  VariantChoice choice;
  for (const KernelChoices& kernel : kernels_) {
    const auto name = names.find(kernel.kernel);
    if (name == names.end()) return false;
    const auto found = std::ranges::find(kernel.variants, name->second);
    if (found == kernel.variants.end()) return false;
    choice.push_back(static_cast<int>(found - kernel.variants.begin()));
  }
  Set(extents, scalars, std::move(choice), {});
  return true;
}

std::vector<VariantChoices::Chosen> VariantChoices::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<Chosen> all;
  for (const auto& [key, chosen] : chosen_)
    all.push_back({.extents = key.first,
                   .scalars = key.second,
                   .choice = chosen.first,
                   .times = chosen.second});
  return all;
}

}  // namespace coppice::internal
