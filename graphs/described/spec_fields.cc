// Words of what programs are made of. Written by tools/describe.

#include "coppice/graphs/program.h"

namespace coppice {

const char* NameOf(SymbolKind kind) {
  switch (kind) {
    case SymbolKind::kAuto:
      return "auto";
    case SymbolKind::kDynamic:
      return "dynamic";
    case SymbolKind::kMaybeDynamic:
      return "maybe_dynamic";
    case SymbolKind::kStatic:
      return "static";
  }
  return "?";
}

const char* NameOf(RaggedBy by) {
  switch (by) {
    case RaggedBy::kLengths:
      return "lengths";
    case RaggedBy::kOffsets:
      return "offsets";
  }
  return "?";
}

const char* NameOf(GateMode mode) {
  switch (mode) {
    case GateMode::kSession:
      return "session";
    case GateMode::kOff:
      return "off";
    case GateMode::kOn:
      return "on";
    case GateMode::kAlwaysEager:
      return "always_eager";
  }
  return "?";
}

const char* NameOf(OverMaximum over_maximum) {
  switch (over_maximum) {
    case OverMaximum::kEager:
      return "eager";
    case OverMaximum::kError:
      return "error";
  }
  return "?";
}

const char* NameOf(InputRole role) {
  switch (role) {
    case InputRole::kCopy:
      return "copy";
    case InputRole::kStatic:
      return "static";
  }
  return "?";
}

const char* NameOf(OutputRole role) {
  switch (role) {
    case OutputRole::kPool:
      return "pool";
    case OutputRole::kStatic:
      return "static";
  }
  return "?";
}

}  // namespace coppice
