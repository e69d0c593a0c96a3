// Figures before and after, for people and as JSON. Private to tools/prof/whatif/.
//
// Units: bytes, nanoseconds. Threads: pure functions.

#pragma once

#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"

#include "tools/prof/whatif/whatif.h"

namespace coppice {

struct WhatIfReport {
  const WhatIf& whatif;
  const WhatIfOutcome& same;     // Without a change.
  const WhatIfOutcome& changed;  // The same again, if nothing is changed.
  // Where the repetition without a change differs from the trace; empty: nowhere.
  std::vector<std::string> differences;
};

std::string FormatWhatIf(const WhatIfReport& report);
nlohmann::ordered_json ToJson(const WhatIfReport& report);
// Of one session.
nlohmann::ordered_json ToJson(const WhatIfFigures& figures);

}  // namespace coppice
