// The bounds of each thread.

#include "coppice/runtime/access_bounds.h"

namespace coppice {
namespace {

thread_local const AccessBounds* t_current = nullptr;

}  // namespace

AccessBounds::AccessBounds(std::span<const ArgumentBytes> arguments, const LaunchStep& step)
    : arguments_(arguments), step_(step), outer_(t_current) {
  t_current = this;
}

AccessBounds::~AccessBounds() {
  t_current = outer_;
}

const AccessBounds* AccessBounds::Current() {
  return t_current;
}

}  // namespace coppice
