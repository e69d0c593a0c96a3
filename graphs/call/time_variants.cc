// Runs of a program's steps that are only timed.

#include "graphs/call/time_variants.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

#include "coppice/base/status.h"

#include "graphs/call/eager.h"
#include "graphs/call/stage.h"
#include "graphs/program/variant_choices.h"
#include "graphs/record/recorder.h"
#include "graphs/steps/timing_sink.h"

namespace coppice::internal {
namespace {

constexpr int kTimedRuns = 5;  // Of each variant.

// The timed runs of one bucket.
class VariantTrial {
 public:
  VariantTrial(const SessionParts& parts, const Request& request, Lane& lane)
      : parts_(parts),
        request_(request),
        lane_(lane),
        program_(*request.call.program),
        choices_(program_.steps->variants()),
        sink_(parts.driver, request.call.stream) {}
  ~VariantTrial() {
    for (const DeviceAddress address : stand_ins_)
      lane_.memory().FreeEager(address);
  }
  VariantTrial(const VariantTrial&) = delete;
  VariantTrial& operator=(const VariantTrial&) = delete;

  // Lays the runs out, and stages zeros.
  absl::Status Prepare();
  absl::StatusOr<VariantTimes> Time();

 private:
  // Puts other memory in the place of a static input that the program writes.
  absl::Status StandIn(Tensor& tensor);
  absl::Status RunOnce(const VariantChoice& choice);

  const SessionParts& parts_;
  const Request& request_;
  Lane& lane_;
  const Program& program_;
  const VariantChoices& choices_;
  TimingSink sink_;
  InputLayout layout_;
  std::vector<DeviceAddress> stand_ins_;
  std::vector<MemoryCopy> copies_;  // Before each run.
};

absl::Status VariantTrial::StandIn(Tensor& tensor) {
  const int64_t bytes = tensor.span() * SizeOf(tensor.dtype);
  if (bytes == 0) return absl::OkStatus();
  COPPICE_ASSIGN_OR_RETURN(const DeviceAddress address, lane_.memory().AllocateEager(bytes));
  stand_ins_.push_back(address);
  copies_.push_back({.target = address, .source = tensor.data, .bytes = bytes});
  tensor.data = address;
  return absl::OkStatus();
}

absl::Status VariantTrial::Prepare() {
  layout_ = LayOutInputs(program_, request_.call.binding, request_.statics, /*in_place=*/{},
                         request_.shape.padded, BasesOf(lane_));
  COPPICE_RETURN_IF_ERROR(ReserveStaging(program_, layout_.bytes, lane_));
  for (size_t i = 0; i < program_.layout.statics.size(); ++i) {
    if (!program_.static_input(i).mutated) continue;
    COPPICE_RETURN_IF_ERROR(
        StandIn(layout_.inputs[static_cast<size_t>(program_.layout.statics[i])]));
  }
  return absl::OkStatus();
}

absl::Status VariantTrial::RunOnce(const VariantChoice& choice) {
  const Call& call = request_.call;
  ApplyZeros(call.binding, layout_.sources, *layout_.staging);
  std::copy_n(request_.shape.padded.begin(), program_.spec.symbols.size(),
              layout_.staging->header().words);
  COPPICE_RETURN_IF_ERROR(parts_.staging->Launch(call.stream, *layout_.staging));
  for (const MemoryCopy& copy : copies_)
    COPPICE_RETURN_IF_ERROR(sink_.Copy(copy, {}));
  EagerContext context(parts_.driver, lane_.memory(),
                       RunRequestOf(parts_, call, request_.shape.padded, layout_, call.stream),
                       Phase::kWarmUp,
                       /*script=*/nullptr);
  return program_.steps->RunWith(choice, context, sink_);
}

double MedianOf(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

absl::StatusOr<VariantTimes> VariantTrial::Time() {
  const std::span<const KernelChoices> kernels = choices_.kernels();
  size_t variants_max = 0;
  std::vector<std::vector<std::vector<double>>> samples;
  for (const KernelChoices& kernel : kernels) {
    variants_max = std::max(variants_max, kernel.variants.size());
    samples.emplace_back(kernel.variants.size());
  }
  for (int run = 0; run <= kTimedRuns; ++run) {
    for (size_t turn = 0; turn < variants_max; ++turn) {
      VariantChoice choice;
      for (const KernelChoices& kernel : kernels)
        choice.push_back(static_cast<int>(turn % kernel.variants.size()));
      COPPICE_RETURN_IF_ERROR(RunOnce(choice));
      COPPICE_ASSIGN_OR_RETURN(const std::vector<double> times, sink_.TakeTimes(kernels.size()));
      if (run == 0) continue;  // Loads code, warms caches.
      for (size_t i = 0; i < kernels.size(); ++i)
        samples[i][static_cast<size_t>(choice[i])].push_back(times[i]);
    }
  }
  VariantTimes medians;
  for (std::vector<std::vector<double>>& kernel : samples) {
    std::vector<double>& times = medians.emplace_back();
    for (std::vector<double>& variant : kernel)
      times.push_back(MedianOf(std::move(variant)));
  }
  return medians;
}

// Whether the session times kernels at all.
bool Times(const SessionParts& parts) {
  if (parts.options.ranks.vote) return false;  // All ranks must choose alike.
  switch (parts.options.variant_timing) {
    case VariantTiming::kOnDevice:
      return parts.driver.kind() != DriverKind::kEmulator;
    case VariantTiming::kAlways:
      return true;
    case VariantTiming::kNever:
      return false;
  }
  return false;
}

absl::StatusOr<VariantTimes> TimeOf(const SessionParts& parts, const Request& request, Lane& lane) {
  VariantTrial trial(parts, request, lane);
  // Whatever happens, nothing runs any more when its memory goes.
  const absl::Cleanup wait = [&] {
    (void)SynchronizeStream(parts.driver, request.call.stream).ok();
  };
  COPPICE_RETURN_IF_ERROR(trial.Prepare());
  return trial.Time();
}

}  // namespace

absl::Status TimeVariants(const SessionParts& parts, const Request& request, Lane& lane) {
  const Program& program = *request.call.program;
  if (program.steps == nullptr || program.steps->variants().none() || !Times(parts))
    return absl::OkStatus();
  VariantChoices& choices = program.steps->variants();
  const std::span<const int64_t> extents(request.shape.padded);
  if (choices.Has(extents, request.call.scalars)) return absl::OkStatus();
  COPPICE_RETURN_IF_ERROR(lane.order().Enter(request.call.stream));
  absl::StatusOr<VariantTimes> times = TimeOf(parts, request, lane);
  if (times.ok()) {
    VariantChoice choice;
    for (const std::vector<double>& kernel : *times)
      choice.push_back(static_cast<int>(std::ranges::min_element(kernel) - kernel.begin()));
    choices.Set(extents, request.call.scalars, std::move(choice), *std::move(times));
    return absl::OkStatus();
  }
  if (BlamesTheDevice(times.status())) return times.status();
  if (parts.options.log) {
    parts.options.log(
        fmt::format("coppice: program '{}' uses the first variant of each kernel in bucket [{}], "
                    "because the variants could not be timed: {}",
                    program.spec.name, fmt::join(extents.first(program.spec.symbols.size()), ", "),
                    MessageOf(times.status())));
  }
  return absl::OkStatus();
}

void AppendVariants(const Program& program, std::vector<KernelVariant>& variants) {
  const VariantChoices& choices = program.steps->variants();
  for (const VariantChoices::Chosen& chosen : choices.all()) {
    for (size_t i = 0; i < choices.kernels().size(); ++i) {
      const KernelChoices& kernel = choices.kernels()[i];
      KernelVariant& told = variants.emplace_back(
          KernelVariant{.program = program.spec.name,
                        .program_variant = program.spec.variant,
                        .bucket = chosen.extents,
                        .scalars = chosen.scalars,
                        .kernel = kernel.kernel,
                        .variant = kernel.variants[static_cast<size_t>(chosen.choice[i])]});
      for (size_t variant = 0; !chosen.times.empty() && variant < kernel.variants.size(); ++variant)
        told.times_us.emplace_back(kernel.variants[variant], chosen.times[i][variant]);
    }
  }
}

}  // namespace coppice::internal
