// The pages around a report and a difference: one HTML file that needs no other, and may load none.
//
// Scripts and styles are named by their digests in a Content-Security-Policy, so that a browser
// runs these and nothing that came with a trace. Data is JSON in an element that no browser runs.
//
// Threads: pure function.

#pragma once

#include <string>

#include "nlohmann/json.hpp"

namespace coppice {

// Equal documents give equal pages.
std::string PageOf(const nlohmann::ordered_json& report);                // Of BuildReport.
std::string DifferencePageOf(const nlohmann::ordered_json& difference);  // Of BuildDifference.

// As `Content-Security-Policy` has it: "'sha256-...'".
std::string PolicyDigest(const std::string& text);

// JSON that no HTML parser ends early, whatever its texts hold; bytes that are no UTF-8 are
// replaced.
std::string ScriptSafeJson(const nlohmann::ordered_json& json);

}  // namespace coppice
