// A driver table whose entries succeed whatever they are given, for tests that replace a few of
// them.
//
// Threads: stateless.

#pragma once

#include "coppice/runtime/driver.h"

namespace coppice {

template <typename Function>
struct SucceedingEntry;
template <typename... Args>
struct SucceedingEntry<CuResult (*)(Args...)> {
  static CuResult Call(Args...) { return CuResult::kSuccess; }
};

inline DriverTable SucceedingTable() {
  DriverTable table;
#define X(member, version, parameters) \
  table.member = &SucceedingEntry<decltype(DriverTable::member)>::Call;
#include "coppice/runtime/driver_entries.inc"
#undef X
  return table;
}

}  // namespace coppice
