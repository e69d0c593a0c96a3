// Names of the kinds.

#include "coppice/graphs/memory_usage.h"

namespace coppice {

const char* NameOf(MemoryKind kind) {
  static constexpr std::array<const char*, kMemoryKindCount> kNames = {
      "nodes",     "eager", "staging",  "copy_out", "workspace",
      "constants", "spare", "included", "graphs",   "external"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace coppice
