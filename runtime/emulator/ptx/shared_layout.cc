// Offsets of shared variables, those of most kernels first.

#include "runtime/emulator/ptx/shared_layout.h"

#include <algorithm>

namespace coppice::ptx {
namespace {

constexpr int64_t kDynamicAlignment = 16;

constexpr int64_t AlignedUp(int64_t value, int64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// A variable, and the kernels that have it.
struct SharedVariable {
  const Function* function;  // Null: of module scope.
  const Variable* variable;
  std::vector<size_t> kernels;
};

}  // namespace

SharedLayout::SharedLayout(const Module& module, std::span<const References::Reached> reached)
    : extents_(reached.size()) {
  PlaceStatic(module, reached);
  PlaceDynamic(module, reached);
}

void SharedLayout::PlaceStatic(const Module& module, std::span<const References::Reached> reached) {
  std::map<Key, SharedVariable> found;
  const auto add = [&](const Function* function, const Variable& variable, size_t kernel) {
    if (variable.space != Space::kShared || variable.external()) return;
    SharedVariable& shared = found[{function, variable.name}];
    shared.function = function;
    shared.variable = &variable;
    shared.kernels.push_back(kernel);
  };
  for (size_t kernel = 0; kernel < reached.size(); ++kernel) {
    for (const size_t i : reached[kernel].variables)
      add(nullptr, module.variables[i], kernel);
    for (const size_t i : reached[kernel].functions)
      for (const Variable& variable : module.functions[i].variables)
        add(&module.functions[i], variable, kernel);
  }
  std::vector<SharedVariable> order;
  for (auto& [key, shared] : found)
    order.push_back(std::move(shared));
  // Of most kernels first, so that the others leave no gaps; then as they are written.
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    if (a.kernels.size() != b.kernels.size()) return a.kernels.size() > b.kernels.size();
    return a.variable->line < b.variable->line;
  });
  for (const SharedVariable& shared : order) {
    int64_t offset = 0;
    for (const size_t kernel : shared.kernels)
      offset = std::max(offset, extents_[kernel].static_bytes);
    offset = AlignedUp(offset, shared.variable->aligned_to());
    for (const size_t kernel : shared.kernels)
      extents_[kernel].static_bytes = offset + shared.variable->bytes();
    offsets_.emplace(Key{shared.function, shared.variable->name}, offset);
  }
}

void SharedLayout::PlaceDynamic(const Module& module,
                                std::span<const References::Reached> reached) {
  int64_t alignment = kDynamicAlignment;
  for (const Variable& variable : module.variables) {
    if (variable.space != Space::kShared || !variable.external()) continue;
    dynamic_alignments_.emplace(variable.name, variable.aligned_to());
    alignment = std::max(alignment, variable.aligned_to());
  }
  // Kernels that call functions begin their dynamic memory at the same place, which is what the
  // code of a function knows.
  std::map<const Function*, std::vector<size_t>> kernels_of;
  for (size_t kernel = 0; kernel < reached.size(); ++kernel) {
    extents_[kernel].dynamic_offset = AlignedUp(extents_[kernel].static_bytes, alignment);
    for (const size_t i : reached[kernel].functions)
      kernels_of[&module.functions[i]].push_back(kernel);
  }
  if (dynamic_alignments_.empty()) return;
  int64_t shared_offset = 0;
  for (const auto& [function, kernels] : kernels_of)
    for (const size_t kernel : kernels)
      if (!function->entry)
        shared_offset = std::max(shared_offset, extents_[kernel].dynamic_offset);
  for (const auto& [function, kernels] : kernels_of)
    for (const size_t kernel : kernels)
      if (!function->entry) extents_[kernel].dynamic_offset = shared_offset;
  for (const auto& [function, kernels] : kernels_of)
    dynamic_offsets_[function] = extents_[kernels.front()].dynamic_offset;
}

std::optional<int64_t> SharedLayout::Find(const Function& function, std::string_view name) const {
  for (const Function* owner : {&function, static_cast<const Function*>(nullptr)})
    if (const auto offset = offsets_.find({owner, name}); offset != offsets_.end())
      return offset->second;
  if (!dynamic_alignments_.contains(name)) return std::nullopt;
  const auto offset = dynamic_offsets_.find(&function);
  return offset == dynamic_offsets_.end() ? std::nullopt : std::optional(offset->second);
}

}  // namespace coppice::ptx
