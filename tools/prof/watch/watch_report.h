// What `coppice prof watch` shows of one look at a session.
//
// Threads: pure functions.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"

#include "tools/prof/watch/watch_state.h"
#include "tools/support/terminal.h"

namespace coppice {

// For people, in lines of `columns` at most; `name` says which trace. What matters most comes
// first, for a terminal of few rows.
std::vector<StyledLine> LinesOfWatch(const WatchedSession& session,
                                     const std::string& name,
                                     int64_t columns);

// For programs. Rates are null at the first look.
nlohmann::ordered_json JsonOfWatch(const WatchedSession& session, const std::string& name);

}  // namespace coppice
