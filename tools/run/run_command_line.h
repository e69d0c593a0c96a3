// The options of `coppice run`.

#pragma once

#include "tools/support/subcommand.h"

namespace coppice {

extern const Subcommand kRunSubcommand;

}  // namespace coppice
