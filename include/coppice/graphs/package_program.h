// Programs of kernel packages, and the options with which they are registered.
//
//   auto loaded = *package::LoadedPackage::Load(context, std::move(package), {});
//   const Program* decode = *session->Register(*loaded, "decode", {});
//   Lease lease = *session->Run({.program = decode, .inputs = inputs, .stream = stream});
//
// A package says what a program does at any sizes, so no warm-up is needed: the first call of a
// bucket records it, node by node, and independent kernels may overlap. Everything else is as for a
// callable: symbols, guards, keys, leases, padding, and statics (bound in the order in which the
// package names them).
//
// Threads: plain values; functions run on the thread that called the session.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"

#include "coppice/base/padding_claim.h"
#include "coppice/base/tensor.h"
#include "coppice/graphs/exact_replay.h"
#include "coppice/padding/joint_policy.h"
#include "coppice/padding/padding_policy.h"
#include "coppice/runtime/driver.h"

namespace coppice {

using FunctionOptions = std::map<std::string, std::variant<int64_t, std::string>>;

// The arguments of a host function that a `call` step names.
struct FunctionCall {
  const Driver& driver;
  CuStream stream = nullptr;  // Launch here and nowhere else; it may capture.
  std::span<const Tensor> inputs;
  std::span<const Tensor> outputs;  // The function writes these; no input shares bytes with an
                                    // output unless the package says so.
  const FunctionOptions& options;
};

// Runs once per recording of a bucket, and in each run without a graph, including runs that time
// variants. Values that it reads on the host are frozen when it is recorded. Several threads may
// call it at once.
using StepFunction = std::function<absl::Status(const FunctionCall& call)>;

struct PackageProgramOptions {
  std::string name;     // Name of the registered program; empty: as in the package.
  std::string variant;  // Distinguishes programs with the same name.
  // By symbol; replaces the package's own buckets. A symbol without a policy and without buckets is
  // never padded.
  std::map<std::string, PaddingPolicy> policies;
  // By the two symbols that a bucket names first and second; replaces the package's own buckets of
  // both. See JointSpec.
  std::map<std::pair<std::string, std::string>, JointPolicy> joint;
  // By symbol, as SymbolSpec::observe_half_life.
  std::map<std::string, double> observe_half_lives;
  // By symbol; replaces the package's claim. nullopt: the symbol is never padded.
  std::map<std::string, std::optional<PaddingClaim>> claims;
  ExactReplay exact = ExactReplay::kNever;  // As ProgramSpec::exact.
  // By name; the constants whose data is not in the package. Their memory must stay valid as long
  // as the program.
  std::map<std::string, Tensor> constants;
  std::map<std::string, StepFunction> functions;  // By name; `gemm` is there already.
};

}  // namespace coppice
