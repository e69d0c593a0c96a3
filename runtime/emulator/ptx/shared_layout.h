// Where .shared variables lie in a block's shared memory.
//
// A variable has one offset in all kernels that reach it, because the code of a function knows only
// one. Variables of a single kernel lie on those of others; behind what all of a kernel's need is
// its dynamic shared memory, where every .extern .shared array begins.
//
// Units: bytes. Threads: plain values; immutable once built.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/emulator/ptx/references.h"
#include "runtime/emulator/ptx/syntax.h"

namespace coppice::ptx {

class SharedLayout {
 public:
  // Of a kernel.
  struct Extent {
    int64_t static_bytes = 0;
    int64_t dynamic_offset = 0;
  };

  // `reached` is what each kernel reaches, itself first; `module` outlives this.
  SharedLayout(const Module& module, std::span<const References::Reached> reached);

  // Of reached[i].
  const Extent& extent(size_t i) const { return extents_[i]; }
  // The address of a variable that code of `function` names, which is one of its own or of module
  // scope; nothing: no .shared variable that a kernel reaches.
  std::optional<int64_t> Find(const Function& function, std::string_view name) const;

 private:
  void PlaceStatic(const Module& module, std::span<const References::Reached> reached);
  void PlaceDynamic(const Module& module, std::span<const References::Reached> reached);

  using Key = std::pair<const Function*, std::string_view>;  // Null: of module scope.

  std::vector<Extent> extents_;
  std::map<Key, int64_t> offsets_;
  std::map<std::string_view, int64_t> dynamic_alignments_;  // Of the .extern arrays.
  std::map<const Function*, int64_t> dynamic_offsets_;      // As code of each function sees them.
};

}  // namespace coppice::ptx
