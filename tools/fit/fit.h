// `coppice fit`: what a package's graphs take on a card, before there is one.
//
// Buckets are learned from traffic at several prices of a graph. What each choice takes is read
// from the books of a session that records the package on a device without memory, so that it is
// what a session on a card has, to the byte. What executable graphs take is an estimate from a
// table, as everywhere.
//
// Units: bytes; sizes in elements of their symbol; padding is 100 x (padded - real) / real.
// Threads: one at a time per process.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coppice/base/units.h"
#include "coppice/graphs/exact_replay.h"

#include "tools/support/console.h"
#include "tools/tune/step_simulator.h"

namespace coppice {

// What is to be best.
enum class FitGoal : uint8_t {
  kTokens,   // The most bytes for the cache, with no more padding than asked for.
  kPadding,  // The least padding that leaves as many bytes as asked for.
  kGraphs,   // The fewest graphs, with no more padding than asked for.
};

struct FitOptions {
  std::string package;
  std::vector<std::string> trusted_keys;
  std::vector<std::string> traffic;  // Files; at least one.
  std::vector<std::string> sizes;    // "PROGRAM.SYMBOL=COLUMN"; none: those of a decoder.
  std::vector<std::string> at;       // "PROGRAM.SYMBOL=SIZE", of symbols without traffic.
  std::vector<std::string> limits;   // "PROGRAM.SYMBOL=SIZE"; none: what the package allows, or the
                                     // largest size of the traffic where that is less.
  std::vector<std::string> ladders;  // Of other systems, to compare with.
  int64_t memory_bytes = 80 * kGiB;  // Of the card, or of what of it may be used. >= 1.
  int64_t weights_bytes = 0;         // What else the application keeps there.
  int64_t kv_bytes_per_token = 0;    // 0: the cache is not counted in tokens.
  int64_t kv_tokens_min = 0;         // That have to fit.
  int64_t lanes = 1;
  int64_t buckets_max = 64;  // Of a program.
  double padding_max = 10;   // In %.
  double replays_min = 99;   // In % of the calls.
  double prior = 0.05;       // As LearnOptions::prior.
  FitGoal goal = FitGoal::kTokens;
  ExactReplay exact = ExactReplay::kNever;
  SimulatorOptions simulator;  // Of traffic that is requests. 0 sequences or tokens of a
                               // step: what the programs hold.
  std::string write;           // A folder for policies and a profile; empty: none.
  std::string plot;            // A picture, as SVG; empty: none.
  bool check = false;          // Nothing that fits is a mismatch; so it is with `write`.
  bool json = false;
};

// Returns kExitUsage for a package, traffic or options that are wrong, before anything is written;
// with `check` or `write` kExitMismatch if no choice leaves what is asked for; kExitOutput if a
// file cannot be written.
ExitCode Fit(const FitOptions& options, const Console& console);

}  // namespace coppice
