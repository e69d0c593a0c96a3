// Runs of callables. Private to capi/.
//
// Threads: a run belongs to the thread that it is on.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_set>

#include "absl/status/status.h"

#include "coppice/coppice.h"
#include "coppice/graphs/program.h"

#include "capi/handles.h"
#include "capi/here.h"
#include "capi/tensors.h"

// One run of a callable.
struct coppice_context {
  static constexpr const char* kName = "context";
  coppice::CallContext& context;
  const size_t symbols;
  const size_t scalars;
  const size_t inputs;
  const size_t outputs;
  const size_t ragged;
  const std::string& program;  // Its name.
  coppice_session& session;
  coppice::capi::ProgramNeeds& needs;
  // Blocks of coppice_external_allocate that are left, and what went wrong when one was freed.
  std::unordered_set<uint64_t> blocks{};
  absl::Status free_failure{};

  coppice::capi::ShownTensor Shown(const coppice::Tensor& tensor) const {
    return {.tensor = tensor, .device = session.device->dl()};
  }
};

namespace coppice::capi {

// Counts the blocks of a run whose callable has returned.
void CountLeftBlocks(const coppice_context& run);

}  // namespace coppice::capi
