// What came of changes to a session, as a part of the report that is computed only when it is asked
// for, because every change makes all calls again (tools/prof/whatif/whatif.h).
//
//   calls   differences   gaps   outcomes   ladders
//
// A ladder is {kind, label, steps}, its steps [{label, change, outcome}], with `outcome` a place in
// `outcomes`. Of these the first is without a change, and one that failed has an `error` alone.
//
// Units: bytes, nanoseconds. Threads: one at a time per process, with no other emulator in it.

#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

#include "tools/prof/html/report_document.h"
#include "tools/prof/html/report_facts.h"
#include "tools/prof/whatif/whatif.h"

namespace coppice {

// Reads the trace at `path` again, to make its calls. Errors: kInvalidArgument  it has more calls
// than the limit; as WhatIf::Open.
absl::StatusOr<std::unique_ptr<WhatIf>> OpenWhatIf(const std::string& path,
                                                   const ReportFacts& facts,
                                                   const ReportLimits& limits = {});

// Makes the calls for each step of all ladders (whatif_ladders.h). `on_progress` counts steps.
// Errors: those of WhatIf::Repeat without a change; of a step they are its outcome.
// Cost: a few microseconds per call and step.
absl::StatusOr<nlohmann::ordered_json> WhatIfOf(WhatIf& whatif,
                                                const ReportFacts& facts,
                                                const ReportLimits& limits,
                                                nlohmann::ordered_json& left_out,
                                                const WhatIf::OnProgress& on_progress = nullptr);

}  // namespace coppice
