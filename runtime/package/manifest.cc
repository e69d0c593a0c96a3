// What a manifest's model computes.

#include "coppice/runtime/manifest.h"

#include <algorithm>

#include "coppice/base/units.h"

namespace coppice::package {
namespace {

constexpr int64_t kAddressBytes = 8;
constexpr ArgumentLayout kAddress = {.bytes = kAddressBytes, .align = kAddressBytes};

struct LayoutVisitor {
  ArgumentLayout operator()(const BufferArgument&) const { return kAddress; }
  ArgumentLayout operator()(const ScratchArgument&) const { return kAddress; }
  ArgumentLayout operator()(const RealArgument&) const { return kAddress; }
  ArgumentLayout operator()(const TensorMapArgument&) const { return {.bytes = 128, .align = 64}; }
  ArgumentLayout operator()(const IntegerArgument& argument) const {
    return {.bytes = argument.bytes, .align = argument.bytes};
  }
  ArgumentLayout operator()(const BytesArgument& argument) const {
    return {.bytes = static_cast<int64_t>(argument.bytes.size()), .align = argument.align};
  }
  ArgumentLayout operator()(const StructArgument& argument) const {
    int64_t end = 0;
    for (const Argument& member : argument.members) {
      const ArgumentLayout layout = LayoutOf(member);
      end = AlignUp(end, layout.align) + layout.bytes;
    }
    return {.bytes = AlignUp(end, argument.align), .align = argument.align};
  }
};

}  // namespace

ArgumentLayout LayoutOf(const Argument& argument) {
  return std::visit(LayoutVisitor{}, argument);
}

std::vector<std::string> Program::names() const {
  std::vector<std::string> names;
  names.reserve(symbols.size() + scalars.size());
  for (const Symbol& symbol : symbols)
    names.push_back(symbol.name);
  for (const Scalar& scalar : scalars)
    names.push_back(scalar.name);
  return names;
}

}  // namespace coppice::package
