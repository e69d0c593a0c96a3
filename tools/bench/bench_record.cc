// Records one graph per bucket and splits each recording call into the driver's time and ours.

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "fmt/format.h"

#include "coppice/base/status.h"
#include "coppice/graphs/session.h"
#include "coppice/runtime/kernel_library.h"

#include "tools/bench/bench.h"
#include "tools/bench/increment_chain.h"
#include "tools/support/console.h"
#include "tools/support/statistics.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

constexpr int kKernels = 100;
constexpr int64_t kBucketStep = 256;

struct Recordings {
  int64_t nodes = 0;               // Of each graph.
  std::vector<int64_t> record_ns;  // Of each recording, by the session.
  std::vector<int64_t> driver_ns;  // Inside the driver during the call that recorded.
  std::vector<int64_t> own_ns;     // The rest of that call.
  int64_t device_syncs = 0;        // Over all of them ...
  int64_t maybe_syncs = 0;         // ... and calls of which a driver may make one.
};

// Calls that wait for the whole device.
int64_t DeviceSyncs(const DriverLedger& ledger) {
  return ledger.calls(&DriverTable::CtxSynchronize) + ledger.calls(&DriverTable::MemFree);
}

// Calls that may wait for it: the manual leaves it open, and no device has answered yet.
int64_t MaybeSyncs(const DriverLedger& ledger) {
  return ledger.calls(&DriverTable::MemSetAccess) + ledger.calls(&DriverTable::MemUnmap);
}

absl::StatusOr<ProgramSpec> MakeSpec(int64_t buckets) {
  ProgramSpec spec;
  spec.name = "hundred";
  spec.claim = PaddingContents::kRowIndependent;
  COPPICE_ASSIGN_OR_RETURN(PaddingPolicy policy,
                           PaddingPolicy::Linear(kBucketStep, kBucketStep * buckets));
  const Dim rows = Dim::Symbol(spec.AddSymbol("rows", policy));
  spec.inputs = {{.name = "x", .dims = {rows}}};
  spec.outputs = {{.name = "y", .dims = {rows}}};
  return spec;
}

absl::Status RecordBucket(const Device& device,
                          Session& session,
                          const Call& call,
                          Recordings& recordings) {
  COPPICE_RETURN_IF_ERROR(session.Run(call).status());  // Warm-up.
  const int64_t syncs = DeviceSyncs(device.ledger());
  const int64_t maybe_syncs = MaybeSyncs(device.ledger());
  const int64_t driver_ns = device.ledger().driver_ns();
  const auto start = std::chrono::steady_clock::now();
  COPPICE_ASSIGN_OR_RETURN(const Lease lease, session.Run(call));
  const auto end = std::chrono::steady_clock::now();
  if (lease.kind() != RunKind::kRecord) {
    return MakeError(absl::StatusCode::kInternal,
                     "bench record: the second call of a bucket took the path {} instead of record",
                     NameOf(lease.kind()));
  }
  const int64_t call_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count();
  recordings.driver_ns.push_back(device.ledger().driver_ns() - driver_ns);
  recordings.own_ns.push_back(call_ns - recordings.driver_ns.back());
  recordings.device_syncs += DeviceSyncs(device.ledger()) - syncs;
  recordings.maybe_syncs += MaybeSyncs(device.ledger()) - maybe_syncs;
  return absl::OkStatus();
}

absl::StatusOr<Recordings> Record(const Device& device,
                                  int64_t iterations,
                                  const Console& console) {
  const Driver& driver = device.driver();
  COPPICE_ASSIGN_OR_RETURN(const KernelLibrary library, KernelLibrary::Load(driver, bench_image));
  COPPICE_ASSIGN_OR_RETURN(const Kernel kernel, library.Get("Increment"));
  COPPICE_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(
      const DeviceMemory memory,
      DeviceMemory::Create(driver, kBucketStep * iterations * static_cast<int64_t>(sizeof(float))));
  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                           Session::Create(device.context(), {}));
  COPPICE_ASSIGN_OR_RETURN(ProgramSpec spec, MakeSpec(iterations));
  COPPICE_ASSIGN_OR_RETURN(const Program* program,
                           session->Register(std::move(spec), IncrementChain(kernel, kKernels)));
  Recordings recordings;
  for (int64_t i = 1; i <= iterations; ++i) {
    const std::array<int64_t, 1> dims = {kBucketStep * i};
    const std::array<Tensor, 1> inputs = {Tensor::Dense(memory.address(), DType::kFloat32, dims)};
    Call call;
    call.program = program;
    call.inputs = inputs;
    call.stream = stream.handle();
    COPPICE_RETURN_IF_ERROR(RecordBucket(device, *session, call, recordings));
    if (console.stopped()) break;
  }
  COPPICE_RETURN_IF_ERROR(stream.Synchronize());
  for (const NodeInfo& node : session->nodes()) {
    recordings.nodes = node.graph_nodes;
    recordings.record_ns.push_back(node.record_ns);
  }
  return recordings;
}

}  // namespace

absl::StatusOr<BenchReport> BenchRecord(const BenchOptions& options, const Console& console) {
  DriverLedger::Options ledger;
  ledger.time_calls = true;
  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device,
                           Device::Open({.choice = options.device, .seed = 1, .ledger = ledger}));
  COPPICE_ASSIGN_OR_RETURN(const Recordings recordings,
                           Record(*device, options.repetitions, console));
  const double record_us = Median(recordings.record_ns) / 1e3;
  const double driver_us = Median(recordings.driver_ns) / 1e3;
  const double own_us = Median(recordings.own_ns) / 1e3;
  const size_t count = recordings.own_ns.size();
  TextTable table("ll", {});
  table.Add({"device", fmt::format("{}: {}", device->kind(), device->Name())});
  table.Add({"graphs", fmt::format("{} of {} nodes each", count, recordings.nodes)});
  table.Add({"to record one", fmt::format("{:.1f} us (median)", record_us)});
  table.Add({"call that recorded",
             fmt::format("{:.1f} us in the driver, {:.1f} us outside the driver (medians)",
                         driver_us, own_us)});
  table.Add({"device-wide syncs",
             fmt::format("{}, and {} that a driver may make device-wide", recordings.device_syncs,
                         Counted(recordings.maybe_syncs, "call"))});
  return BenchReport{.json = {{"nodes", recordings.nodes},
                              {"record_us_p50", record_us},
                              {"driver_us_p50", driver_us},
                              {"device_syncs", recordings.device_syncs},
                              {"own_us_p50", own_us},
                              {"recordings", count},
                              {"device", device->kind()},
                              {"maybe_syncs", recordings.maybe_syncs}},
                     .text = table.Format()};
}

}  // namespace coppice
