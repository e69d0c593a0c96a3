// Containers in one list, so that none owns another.

#include "tools/prof/import/foreign_value.h"

#include <algorithm>
#include <array>

#include "coppice/base/check.h"

namespace coppice {
namespace {

constexpr int64_t kContainerBytes = 64;  // With what the heap keeps beside it.
constexpr int64_t kItemBytes = 24;       // Twice 16 while a list grows, and 16 afterwards.

constexpr std::array<std::string_view, 22> kForeignWords = {"alloc",
                                                            "free_requested",
                                                            "free_completed",
                                                            "free",
                                                            "segment_alloc",
                                                            "segment_map",
                                                            "segment_free",
                                                            "segment_unmap",
                                                            "oom",
                                                            "active_allocated",
                                                            "active_pending_free",
                                                            "active_awaiting_free",
                                                            "segments",
                                                            "device_traces",
                                                            "device",
                                                            "address",
                                                            "total_size",
                                                            "blocks",
                                                            "size",
                                                            "state",
                                                            "action",
                                                            "addr"};
static_assert(static_cast<size_t>(ForeignWord::kAddr) + 1 == kForeignWords.size());

}  // namespace

ForeignValue ForeignTree::Text(std::string_view text) {
  const auto found = std::ranges::find(kForeignWords, text);
  if (found == kForeignWords.end()) return {.kind = ForeignKind::kOther};
  return {.kind = ForeignKind::kWord, .number = found - kForeignWords.begin()};
}

ForeignValue ForeignTree::Add(ForeignKind kind) {
  Charge(kContainerBytes);
  containers_.emplace_back();
  return {.kind = kind, .number = static_cast<int64_t>(containers_.size()) - 1};
}

void ForeignTree::Append(ForeignValue list, ForeignValue item) {
  COPPICE_CHECK(list.kind == ForeignKind::kList || list.kind == ForeignKind::kTuple, "a list");
  Charge(kItemBytes);
  containers_[static_cast<size_t>(list.number)].push_back(item);
}

void ForeignTree::Set(ForeignValue dict, ForeignValue key, ForeignValue value) {
  COPPICE_CHECK(dict.kind == ForeignKind::kDict, "a dict");
  if (key.kind != ForeignKind::kWord) return;
  value.key = static_cast<uint8_t>(key.number);
  std::vector<ForeignValue>& values = containers_[static_cast<size_t>(dict.number)];
  const auto before = std::ranges::find(values, value.key, &ForeignValue::key);
  if (before != values.end()) {
    *before = value;
  } else {
    Charge(kItemBytes);
    values.push_back(value);
  }
}

std::span<const ForeignValue> ForeignTree::Items(ForeignValue list) const {
  COPPICE_CHECK(list.kind == ForeignKind::kList || list.kind == ForeignKind::kTuple, "a list");
  return containers_[static_cast<size_t>(list.number)];
}

ForeignValue ForeignTree::Find(ForeignValue dict, ForeignWord key) const {
  if (dict.kind != ForeignKind::kDict) return {};
  const std::vector<ForeignValue>& values = containers_[static_cast<size_t>(dict.number)];
  const auto found = std::ranges::find(values, static_cast<uint8_t>(key), &ForeignValue::key);
  return found == values.end() ? ForeignValue{} : *found;
}

}  // namespace coppice
