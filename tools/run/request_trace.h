// Request traces: who asks for how many tokens, and when. Read from a file, or generated.
//
//   arrival_seconds,input_tokens,output_tokens      the header, required; further columns ignored
//   0,374,44                                        seconds since the start, prompt, answer
//   4.315,396,109
//
// If the first field of every row is empty, arrivals are drawn as a Poisson process. The generator
// draws from quantiles of two published traces (trace_quantiles.h), so that it needs no file.
//
// Units: seconds and tokens. Threads: pure functions; equal arguments give equal results.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace coppice {

struct Request {
  double arrival_seconds = 0;  // In [0, kArrivalMax]; never less than the request before.
  int64_t input_tokens = 1;    // In [1, kTokensMax].
  int64_t output_tokens = 1;   // In [1, kTokensMax].
  friend bool operator==(const Request&, const Request&) = default;
};

inline constexpr double kArrivalMax = 1e9;  // Thirty years.
inline constexpr int64_t kTokensMax = 10'000'000;
inline constexpr double kPoissonPerSecond = 5;  // Rate where a trace has no arrivals.

// Parses the text of a trace; `name` stands for the file in messages, `seed` draws the arrivals of
// a trace that has none. Lines end in LF or CRLF.
//
// Errors: kInvalidArgument, `name:line: what; what to do`: no header, no rows, a row whose number
// of fields is not the header's, a field that is not a number or is out of range, arrivals that go
// back in time or are given in some rows only, a NUL byte.
absl::StatusOr<std::vector<Request>> ParseRequestTrace(std::string_view text,
                                                       const std::string& name,
                                                       uint64_t seed);

// Reads and parses a file. Errors: kInvalidArgument as above; also if the file is missing, a
// directory, unreadable or larger than 1 GiB.
absl::StatusOr<std::vector<Request>> ReadRequestTrace(const std::string& path, uint64_t seed);

// What the generator imitates; kMix is both traces side by side, in order of arrival.
enum class TraceKind : uint8_t { kConversation, kCode, kMix };

// Reads `conv`, `code` or `mix`. Errors: kInvalidArgument quoting the text.
absl::StatusOr<TraceKind> ParseTraceKind(const std::string& text);
const char* NameOf(TraceKind kind);  // What ParseTraceKind reads.

// Draws `count` requests whose prompts, answers and gaps between arrivals follow the quantiles of
// the trace, each independent of the others. Requires: count >= 0 (checked).
std::vector<Request> GenerateRequests(TraceKind kind, int64_t count, uint64_t seed);

// Divides lengths by `shrink`, rounding up, then cuts what a context of `context_max` tokens cannot
// hold: first the prompt, then the answer. Returns the number of requests that were cut. The last
// token of an answer is never fed back, so it takes no place. Requires: shrink and context_max >= 1
// (checked).
int64_t FitRequests(int64_t shrink, int64_t context_max, std::vector<Request>& requests);

}  // namespace coppice
