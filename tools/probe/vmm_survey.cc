// The survey `vmm`: granularity, costs by size, what one call for many mappings saves, misuses,
// and how often setting access and unmapping wait for running work.

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "fmt/format.h"

#include "coppice/base/status.h"
#include "coppice/base/units.h"

#include "tools/probe/first_failure.h"
#include "tools/probe/probe_kernels.h"
#include "tools/probe/survey.h"
#include "tools/probe/virtual_range.h"
#include "tools/probe/vmm_misuse.h"
#include "tools/support/stopwatch.h"

namespace coppice {
namespace {

constexpr int64_t kSizesMib[] = {2, 16, 64, 256, 1024};
constexpr int64_t kSmallMappings = 256;
constexpr double kSpinUs = 10'000;
constexpr int64_t kSpinIterationsMax = int64_t{1} << 32;

constexpr const char* kSteps[] = {"create", "map", "set access", "unmap", "release"};

// The five calls in the life of one mapping.
absl::StatusOr<std::array<double, 5>> TimeMapping(const Subject& subject, size_t bytes) {
  COPPICE_ASSIGN_OR_RETURN(VirtualRange range, VirtualRange::Reserve(subject, bytes));
  FirstFailure failure;
  CuMemoryHandle handle = 0;
  std::array<double, 5> laps = {};
  Stopwatch watch;
  failure.Note(subject.Check(range.Create(bytes, &handle), "cuMemCreate"));
  laps[0] = watch.Lap();
  failure.Note(subject.Check(range.Map(0, bytes, 0, handle), "cuMemMap"));
  laps[1] = watch.Lap();
  failure.Note(subject.Check(range.SetAccess(0, bytes), "cuMemSetAccess"));
  laps[2] = watch.Lap();
  failure.Note(subject.Check(range.Unmap(0, bytes), "cuMemUnmap"));
  laps[3] = watch.Lap();
  failure.Note(subject.Check(range.Release(handle), "cuMemRelease"));
  laps[4] = watch.Lap();
  COPPICE_RETURN_IF_ERROR(failure.status());
  return laps;
}

absl::Status FillCosts(const SurveyRun& run) {
  for (size_t i = 0; i < std::size(kSizesMib); ++i) {
    run.progress.Update(static_cast<int64_t>(i), std::size(kSizesMib));
    const int64_t bytes = kSizesMib[i] * kMiB;
    const std::string size = fmt::format("{} MiB", kSizesMib[i]);
    COPPICE_ASSIGN_OR_RETURN(const int64_t free_bytes, run.subject.FreeBytes());
    if (bytes > free_bytes) {
      run.table.Comment(
          fmt::format("{} left out: {} MiB of device memory are free", size, free_bytes / kMiB));
      continue;
    }
    COPPICE_ASSIGN_OR_RETURN(const auto medians, MediansOf(run.options.repetitions, [&] {
                               return TimeMapping(run.subject, static_cast<size_t>(bytes));
                             }));
    for (size_t step = 0; step < medians.size(); ++step)
      run.table.Row(kSteps[step], size, medians[step], "us");
  }
  return absl::OkStatus();
}

// Maps all of `handles` side by side, opens them by one call and unmaps them: each step's time.
absl::StatusOr<std::array<double, 3>> TimeSmall(const Subject& subject,
                                                VirtualRange& range,
                                                const std::vector<CuMemoryHandle>& handles,
                                                size_t granule) {
  FirstFailure failure;
  std::array<double, 3> laps = {};
  Stopwatch watch;
  for (size_t i = 0; i < handles.size(); ++i)
    failure.Note(subject.Check(range.Map(i * granule, granule, 0, handles[i]), "cuMemMap"));
  laps[0] = watch.Lap() / static_cast<double>(handles.size());
  failure.Note(subject.Check(range.SetAccess(0, handles.size() * granule), "cuMemSetAccess"));
  laps[1] = watch.Lap();
  for (size_t i = handles.size(); i-- > 0;)
    failure.Note(subject.Check(range.Unmap(i * granule, granule), "cuMemUnmap"));
  laps[2] = watch.Lap() / static_cast<double>(handles.size());
  COPPICE_RETURN_IF_ERROR(failure.status());
  return laps;
}

absl::Status FillSmall(const SurveyRun& run, size_t granule) {
  COPPICE_ASSIGN_OR_RETURN(const int64_t free_bytes, run.subject.FreeBytes());
  const int64_t count = std::min(kSmallMappings, free_bytes / static_cast<int64_t>(granule) / 2);
  if (count < 1) {
    run.table.Comment(fmt::format("many small mappings left out: {} MiB of device memory are free",
                                  free_bytes / kMiB));
    return absl::OkStatus();
  }
  COPPICE_ASSIGN_OR_RETURN(
      VirtualRange range, VirtualRange::Reserve(run.subject, static_cast<size_t>(count) * granule));
  std::vector<CuMemoryHandle> handles(static_cast<size_t>(count));
  FirstFailure failure;
  for (CuMemoryHandle& handle : handles)
    failure.Note(run.subject.Check(range.Create(granule, &handle), "cuMemCreate"));
  COPPICE_RETURN_IF_ERROR(failure.status());
  COPPICE_ASSIGN_OR_RETURN(const auto medians, MediansOf(run.options.repetitions, [&] {
                             return TimeSmall(run.subject, range, handles, granule);
                           }));
  const std::string mappings = fmt::format("{} granules", count);
  run.table.Row("map each of", mappings, medians[0], "us");
  run.table.Row("set access on all of", mappings, medians[1], "us");
  run.table.Row("unmap each of", mappings, medians[2], "us");
  return absl::OkStatus();
}

absl::Status FillMisuses(const SurveyRun& run, size_t granule) {
  FirstFailure failure;
  for (const VmmMisuse& misuse : VmmMisuses()) {
    COPPICE_ASSIGN_OR_RETURN(VirtualRange range,
                             VirtualRange::Reserve(run.subject, VmmMisuse::kGranules * granule));
    const absl::StatusOr<CuResult> result = misuse.attempt(range, granule);
    failure.Note(result.status());
    if (result.ok()) {
      run.table.Row("misuse", misuse.name, static_cast<int>(*result), "CUresult");
    } else {
      run.table.Comment(fmt::format("before {}: {}", misuse.name, MessageOf(result.status())));
    }
  }
  return failure.status();
}

absl::Status Spin(const Subject& subject, int64_t iterations) {
  return Launch(subject.driver(), subject.spin(), subject.stream(),
                SpinParams{.target = subject.word_pointer(0), .iterations = iterations}, 1);
}

// How many iterations keep the device busy for kSpinUs, and for how long they really do.
struct SpinLength {
  int64_t iterations = 1024;
  double microseconds = 0;
};

absl::StatusOr<SpinLength> CalibrateSpin(const Subject& subject) {
  SpinLength length;
  while (true) {
    Stopwatch watch;
    COPPICE_RETURN_IF_ERROR(Spin(subject, length.iterations));
    COPPICE_RETURN_IF_ERROR(subject.Synchronize());
    length.microseconds = watch.Lap();
    if (length.microseconds >= kSpinUs || length.iterations >= kSpinIterationsMax) return length;
    length.iterations *= 2;
  }
}

// A call that may wait for work, on memory that a running kernel does not use.
struct CallBeside {
  const char* name;
  CuResult (*call)(VirtualRange& range, size_t granule);
};

constexpr CallBeside kCallsBeside[] = {
    {"set access", [](VirtualRange& range, size_t granule) { return range.SetAccess(0, granule); }},
    {"unmap", [](VirtualRange& range, size_t granule) { return range.Unmap(0, granule); }}};

// What became of its repetitions.
struct TimesBeside {
  std::vector<double> us;
  int64_t waits = 0;
  CuResult result = CuResult::kSuccess;   // The last.
  CuResult queried = CuResult::kSuccess;  // Of the kernel's stream, directly after it.
};

// Makes each of them once, in this order, beside a kernel of its own.
absl::Status TimeBeside(const Subject& subject,
                        const SpinLength& spin,
                        size_t granule,
                        std::span<TimesBeside> all) {
  COPPICE_ASSIGN_OR_RETURN(VirtualRange range, VirtualRange::Reserve(subject, granule));
  CuMemoryHandle handle = 0;
  COPPICE_RETURN_IF_ERROR(subject.Check(range.Create(granule, &handle), "cuMemCreate"));
  COPPICE_RETURN_IF_ERROR(subject.Check(range.Map(0, granule, 0, handle), "cuMemMap"));
  for (size_t i = 0; i < all.size(); ++i) {
    TimesBeside& times = all[i];
    COPPICE_RETURN_IF_ERROR(Spin(subject, spin.iterations));
    Stopwatch watch;
    times.result = kCallsBeside[i].call(range, granule);
    times.us.push_back(watch.Lap());
    times.queried = subject.cu().StreamQuery(subject.stream());
    times.waits += times.us.back() > spin.microseconds / 2 ? 1 : 0;
    COPPICE_RETURN_IF_ERROR(subject.Synchronize());
  }
  return absl::OkStatus();
}

absl::Status FillBeside(const SurveyRun& run, size_t granule) {
  COPPICE_ASSIGN_OR_RETURN(const SpinLength spin, CalibrateSpin(run.subject));
  std::array<TimesBeside, std::size(kCallsBeside)> all;
  for (int64_t i = 0; i < run.options.repetitions; ++i)
    COPPICE_RETURN_IF_ERROR(TimeBeside(run.subject, spin, granule, all));
  for (size_t i = 0; i < all.size(); ++i) {
    const TimesBeside& times = all[i];
    const char* const name = kCallsBeside[i].name;
    const std::string what = fmt::format("{} while a kernel runs", name);
    run.table.Row(what, "kernel alone", spin.microseconds, "us");
    run.table.Row(what, name, Median(times.us), "us");
    run.table.Row(what, name, static_cast<int>(times.result), "CUresult");
    run.table.Row(what, "stream query after it", static_cast<int>(times.queried), "CUresult");
    run.table.Row(what, "waits", times.waits, fmt::format("of {}", times.us.size()));
    run.table.Row(what, "waited", 2 * times.waits > std::ssize(times.us) ? "yes" : "no",
                  "yes or no");
  }
  return absl::OkStatus();
}

// The last line of the survey: where the copy is accepted and faults, the device is lost.
absl::Status FillCopyToReserved(const SurveyRun& run, size_t granule) {
  const Subject& subject = run.subject;
  COPPICE_ASSIGN_OR_RETURN(const VirtualRange range, VirtualRange::Reserve(subject, granule));
  const int64_t word = 0;
  const CuResult copied =
      subject.cu().MemcpyHtoDAsync(range.address(), &word, sizeof(word), subject.stream());
  const CuResult finished = subject.cu().StreamSynchronize(subject.stream());
  run.table.Row("misuse", "copy to reserved memory", static_cast<int>(copied), "CUresult");
  run.table.Row("misuse", "synchronize after that copy", static_cast<int>(finished), "CUresult");
  return absl::OkStatus();
}

}  // namespace

absl::Status FillVmm(const SurveyRun& run) {
  run.table.Comment(fmt::format("times are medians of {}, on the host", run.options.repetitions));
  run.table.Comment("CUresult 0 is success; a misuse that returns it is allowed");
  run.table.Columns({"what", "of", "value", "unit"});
  COPPICE_ASSIGN_OR_RETURN(const size_t granule,
                           run.subject.Granularity(CuMemGranularity::kMinimum));
  COPPICE_ASSIGN_OR_RETURN(const size_t recommended,
                           run.subject.Granularity(CuMemGranularity::kRecommended));
  run.table.Row("granularity", "minimum", granule, "bytes");
  run.table.Row("granularity", "recommended", recommended, "bytes");
  FirstFailure failure;
  failure.Note(FillCosts(run));
  failure.Note(FillSmall(run, granule));
  failure.Note(FillMisuses(run, granule));
  failure.Note(FillBeside(run, granule));
  failure.Note(FillCopyToReserved(run, granule));
  return failure.status();
}

}  // namespace coppice
