// Programs of kernel packages: what a package leaves to whoever registers one.
//
//   auto loaded = *package::LoadedPackage::Load(driver, std::move(package), {});
//   const Program* decode = *session->Register(*loaded, "decode", {});
//   Lease lease = *session->Run({.program = decode, .inputs = inputs, .stream = stream});
//
// A package says what a program does at any sizes, so that nothing is run to learn it: the first
// call of a bucket records it, node by node, and independent kernels may overlap. Everything else
// is as for a callable: symbols, guards, keys, leases, padding, statics (bound in the order in
// which the package names them).
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
#include "coppice/padding/joint_policy.h"
#include "coppice/padding/padding_policy.h"
#include "coppice/runtime/driver.h"

namespace coppice {

using FunctionOptions = std::map<std::string, std::variant<int64_t, std::string>>;

// What a `call` step asks of a function of the host.
struct FunctionCall {
  const Driver& driver;
  CuStream stream = nullptr;  // Launch here and nowhere else; it may capture.
  std::span<const Tensor> inputs;
  std::span<const Tensor> outputs;  // To be written; no input shares bytes with one unless the
                                    // package says so.
  const FunctionOptions& options;
};

// Runs once per recording of a bucket, and in each run without a graph, those that time variants
// included: what it reads on the host
// is frozen when it is recorded. May be called by several threads at once.
using StepFunction = std::function<absl::Status(const FunctionCall& call)>;

struct PackageProgramOptions {
  std::string name;     // Of the registered program; empty: as in the package.
  std::string variant;  // Tells programs of one name apart.
  // By symbol, in place of the package's own buckets. A symbol with neither is never padded.
  std::map<std::string, PaddingPolicy> policies;
  // By the two symbols that a bucket names first and second, in place of the package's own buckets
  // of both; see JointSpec.
  std::map<std::pair<std::string, std::string>, JointPolicy> joint;
  // By symbol, as SymbolSpec::observe_half_life.
  std::map<std::string, double> observe_half_lives;
  // By symbol, in place of what the package claims; none: it is never padded.
  std::map<std::string, std::optional<PaddingClaim>> claims;
  // By name, those that the package has no data of. Must stay where they are as long as the
  // program.
  std::map<std::string, Tensor> constants;
  std::map<std::string, StepFunction> functions;  // By name; `gemm` is there already.
};

}  // namespace coppice
