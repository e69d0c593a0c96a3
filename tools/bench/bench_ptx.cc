// Whole kernels, as a compiler made them, in processor time: with checks and without, in turns.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"

#include "runtime/emulator/ptx/launch.h"
#include "runtime/emulator/ptx/program.h"
#include "tools/bench/bench.h"
#include "tools/bench/reference_loop.h"
#include "tools/ptx/kernel_memory.h"
#include "tools/support/console.h"
#include "tools/support/progress.h"
#include "tools/support/statistics.h"
#include "tools/support/text_table.h"

extern "C" const char coppice_ptx_elementwise[];
extern "C" const char coppice_ptx_softmax[];
extern "C" const char coppice_ptx_matmul[];

namespace coppice {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kPtxTexts = {coppice_ptx_elementwise, coppice_ptx_softmax, coppice_ptx_matmul};
constexpr int kBuildsPerSample = 5;  // Of each text: one is over in milliseconds.

constexpr int kMatrixRows = 512;  // Of every matrix ...
constexpr int kMatrixColumns = 1024;
constexpr int kMatmulExtent = 512;  // ... but those that are multiplied.
constexpr float kSiluScale = 0.75F;

// Numbers that look random, the same on every machine.
class Numbers {
 public:
  uint32_t Next() { return (state_ = state_ * 1664525 + 1013904223) >> 8; }
  float Float() { return static_cast<float>(Next()) / static_cast<float>(1 << 22) - 2; }

 private:
  uint32_t state_ = 1;
};

float HalfToFloat(uint16_t half) {
  const int exponent = half >> 10 & 0x1f;
  const int fraction = half & 0x3ff;
  const float value = exponent == 0
                          ? std::ldexp(static_cast<float>(fraction), -24)
                          : std::ldexp(static_cast<float>(fraction | 0x400), exponent - 25);
  return half >> 15 == 0 ? value : -value;
}

// Whole numbers from -2 to 2, of which sums of products are exact.
constexpr std::array<uint16_t, 5> kSmallHalves = {0xc000, 0xbc00, 0x0000, 0x3c00, 0x4000};

// A kernel, what it works on, and whether its result is right.
class PtxCase {
 public:
  static absl::StatusOr<PtxCase> Create(const char* name, const char* text, const char* kernel) {
    PtxCase one;
    one.name_ = name;
    COPPICE_ASSIGN_OR_RETURN(one.program_, ptx::Program::Build(text));
    one.launch_.kernel = one.program_->FindKernel(kernel);
    if (one.launch_.kernel == nullptr)
      return MakeError(absl::StatusCode::kInternal, "bench ptx: there is no kernel {}", kernel);
    return one;
  }

  template <typename T>
  std::span<T> AddArray(int count) {
    const std::span<std::byte> bytes =
        memory_.Add(count * static_cast<int64_t>(sizeof(T)), /*writable=*/true);
    AddValue(reinterpret_cast<uint64_t>(bytes.data()));
    return {reinterpret_cast<T*>(bytes.data()), static_cast<size_t>(count)};
  }

  template <typename T>
  void AddValue(T value) {
    const ptx::Place& place = launch_.kernel->code->parameters[added_++];
    parameters_.resize(static_cast<size_t>(launch_.kernel->parameter_bytes));
    std::memcpy(parameters_.data() + place.offset, &value, sizeof(value));
  }

  void SetShape(std::array<unsigned, 3> grid, unsigned block) {
    launch_.grid = grid;
    launch_.block = {block, 1, 1};
  }
  void SetCheck(std::function<bool()> is_right) { is_right_ = std::move(is_right); }

  // Milliseconds of a run.
  double Run(bool checks) {
    ptx::Launch launch = launch_;
    launch.parameters = parameters_;
    const ptx::Environment environment = {.memory = memory_.ranges(),
                                          .checks = ptx::Checks::All(checks)};
    const double start_ms = ThreadMs();
    const ptx::Outcome outcome = ptx::Run(launch, environment);
    const double ms = ThreadMs() - start_ms;
    lane_instructions_ = outcome.counts.lane_instructions;
    findings_ += std::ssize(outcome.findings) + (outcome.fault ? 1 : 0);
    return ms;
  }

  const std::string& name() const { return name_; }
  int64_t lane_instructions() const { return lane_instructions_; }
  int64_t findings() const { return findings_; }
  bool IsRight() const { return is_right_(); }

 private:
  std::string name_;
  std::unique_ptr<ptx::Program> program_;
  KernelMemory memory_;
  ptx::Launch launch_;
  std::vector<std::byte> parameters_;
  size_t added_ = 0;
  std::function<bool()> is_right_;
  int64_t lane_instructions_ = 0;  // Of the last run.
  int64_t findings_ = 0;           // Of all.
};

bool IsNear(float value, double wanted) {
  return std::abs(value - wanted) <= 1e-5 * std::max(1e-3, std::abs(wanted));
}

absl::StatusOr<PtxCase> MakeElementwise() {
  COPPICE_ASSIGN_OR_RETURN(PtxCase one,
                           PtxCase::Create("elementwise", coppice_ptx_elementwise, "BiasSilu"));
  const std::span<float> x = one.AddArray<float>(kMatrixRows * kMatrixColumns);
  const std::span<float> bias = one.AddArray<float>(kMatrixColumns);
  const std::span<float> y = one.AddArray<float>(kMatrixRows * kMatrixColumns);
  one.AddValue(kSiluScale);
  one.AddValue(kMatrixRows);
  one.AddValue(kMatrixColumns);
  one.SetShape({256, 1, 1}, 256);
  Numbers numbers;
  for (float& value : x)
    value = numbers.Float();
  for (float& value : bias)
    value = numbers.Float();
  one.SetCheck([x, bias, y] {
    for (size_t i = 0; i < x.size(); ++i) {
      const double value = double{x[i]} * double{kSiluScale} + double{bias[i % kMatrixColumns]};
      if (!IsNear(y[i], value / (1 + std::exp(-value)))) return false;
    }
    return true;
  });
  return one;
}

absl::StatusOr<PtxCase> MakeSoftmax() {
  COPPICE_ASSIGN_OR_RETURN(PtxCase one,
                           PtxCase::Create("softmax", coppice_ptx_softmax, "RowSoftmax"));
  const std::span<float> x = one.AddArray<float>(kMatrixRows * kMatrixColumns);
  const std::span<float> y = one.AddArray<float>(kMatrixRows * kMatrixColumns);
  one.AddValue(kMatrixColumns);
  one.SetShape({kMatrixRows, 1, 1}, 256);
  Numbers numbers;
  for (float& value : x)
    value = numbers.Float();
  one.SetCheck([x, y] {
    for (size_t row = 0; row < x.size(); row += kMatrixColumns) {
      double total = 0;
      for (size_t i = row; i < row + kMatrixColumns; ++i)
        total += std::exp(double{x[i]});
      for (size_t i = row; i < row + kMatrixColumns; ++i)
        if (!IsNear(y[i], std::exp(double{x[i]}) / total)) return false;
    }
    return true;
  });
  return one;
}

absl::StatusOr<PtxCase> MakeMatmul() {
  constexpr int kTile = 64;
  COPPICE_ASSIGN_OR_RETURN(PtxCase one, PtxCase::Create("matmul", coppice_ptx_matmul, "Matmul"));
  const std::span<uint16_t> a = one.AddArray<uint16_t>(kMatmulExtent * kMatmulExtent);
  const std::span<uint16_t> b = one.AddArray<uint16_t>(kMatmulExtent * kMatmulExtent);
  const std::span<uint16_t> c = one.AddArray<uint16_t>(kMatmulExtent * kMatmulExtent);
  one.AddValue(kMatmulExtent);
  one.AddValue(kMatmulExtent);
  one.SetShape({kMatmulExtent / kTile, kMatmulExtent / kTile, 1}, 128);
  Numbers numbers;
  for (const std::span<uint16_t> matrix : {a, b})
    for (uint16_t& value : matrix)
      value = kSmallHalves[numbers.Next() % kSmallHalves.size()];
  one.SetCheck([a, b, c] {
    // A row of each tile, and no two the same: the others differ in their addresses alone.
    for (size_t row = 0; row < kMatmulExtent; row += kTile + 1) {
      std::vector<float> sums(kMatmulExtent);
      for (size_t k = 0; k < kMatmulExtent; ++k)
        for (size_t column = 0; column < kMatmulExtent; ++column)
          sums[column] +=
              HalfToFloat(a[row * kMatmulExtent + k]) * HalfToFloat(b[k * kMatmulExtent + column]);
      for (size_t column = 0; column < kMatmulExtent; ++column)
        if (HalfToFloat(c[row * kMatmulExtent + column]) != sums[column]) return false;
    }
    return true;
  });
  return one;
}

struct PtxKernelFigures {
  std::string name;
  int64_t lane_instructions = 0;
  int64_t findings = 0;
  bool right = false;
  std::vector<double> off_ms;  // Without checks ...
  std::vector<double> on_ms;   // ... and with all of them.

  double per_second() const {
    return static_cast<double>(lane_instructions) / (Median(off_ms) * 1e-3);
  }
  double checks_ratio() const { return Median(on_ms) / Median(off_ms); }
};

struct PtxFigures {
  std::vector<PtxKernelFigures> kernels;
  int64_t lines = 0;
  std::vector<double> build_ms;  // Of all of them.
  double reference_ms = 0;

  double lines_per_second() const { return static_cast<double>(lines) / (Median(build_ms) * 1e-3); }
};

absl::StatusOr<double> BuildMs() {
  const double start_ms = ThreadMs();
  for (int i = 0; i < kBuildsPerSample; ++i)
    for (const char* text : kPtxTexts)
      COPPICE_RETURN_IF_ERROR(ptx::Program::Build(text).status());
  return (ThreadMs() - start_ms) / kBuildsPerSample;
}

absl::StatusOr<PtxFigures> MeasurePtx(int64_t samples, const Console& console) {
  Progress progress(console.err, /*enabled=*/true, "bench ptx");
  PtxFigures figures = {.reference_ms = ReferenceLoopMs()};
  for (const char* text : kPtxTexts) {
    const std::string_view view = text;
    figures.lines += std::count(view.begin(), view.end(), '\n');
  }
  std::vector<PtxCase> cases;
  for (const auto make : {&MakeElementwise, &MakeSoftmax, &MakeMatmul}) {
    COPPICE_ASSIGN_OR_RETURN(cases.emplace_back(), make());
  }
  figures.kernels.resize(cases.size());
  for (int64_t sample = 0; sample < samples && !console.stopped(); ++sample) {
    for (size_t i = 0; i < cases.size(); ++i) {
      figures.kernels[i].off_ms.push_back(cases[i].Run(/*checks=*/false));
      figures.kernels[i].on_ms.push_back(cases[i].Run(/*checks=*/true));
    }
    COPPICE_ASSIGN_OR_RETURN(figures.build_ms.emplace_back(), BuildMs());
    progress.Update(sample + 1, samples);
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    PtxKernelFigures& kernel = figures.kernels[i];
    kernel.name = cases[i].name();
    kernel.lane_instructions = cases[i].lane_instructions();
    kernel.findings = cases[i].findings();
    kernel.right = kernel.off_ms.empty() || cases[i].IsRight();
  }
  return figures;
}

Json ToJson(const PtxFigures& figures) {
  Json kernels = Json::array();
  for (const PtxKernelFigures& kernel : figures.kernels) {
    kernels.push_back({{"name", kernel.name},
                       {"lane_instructions", kernel.lane_instructions},
                       {"lane_instructions_per_second", kernel.per_second()},
                       {"checks_off_ms", Median(kernel.off_ms)},
                       {"checks_on_ms", Median(kernel.on_ms)},
                       {"checks_ratio", kernel.checks_ratio()},
                       {"findings", kernel.findings},
                       {"right", kernel.right}});
  }
  return {{"kernels", kernels},
          {"matmul_extent", kMatmulExtent},
          {"matmul_ms", Median(figures.kernels.back().off_ms)},
          {"lines", figures.lines},
          {"build_ms", Median(figures.build_ms)},
          {"lines_per_second", figures.lines_per_second()},
          {"samples", figures.build_ms.size()},
          {"reference_ms", figures.reference_ms}};
}

std::string Format(const PtxFigures& figures) {
  TextTable table("lrrrrr", {"kernel", "lane instructions", "unchecked", "per second", "checked",
                             "/ unchecked"});
  for (const PtxKernelFigures& kernel : figures.kernels) {
    table.Add({kernel.name, fmt::format("{}", kernel.lane_instructions),
               fmt::format("{:.1f} ms", Median(kernel.off_ms)),
               fmt::format("{:.2f} G", kernel.per_second() * 1e-9),
               fmt::format("{:.1f} ms", Median(kernel.on_ms)),
               fmt::format("{:.2f}", kernel.checks_ratio())});
  }
  return fmt::format(
      "{}\n  parse and decode  {} lines in {:.1f} ms, {:.2f} M lines per second\n"
      "  reference loop    {:.2f} ms\n",
      table.Format(), figures.lines, Median(figures.build_ms), figures.lines_per_second() * 1e-6,
      figures.reference_ms);
}

}  // namespace

absl::StatusOr<BenchReport> BenchPtx(const BenchOptions& options, const Console& console) {
  COPPICE_ASSIGN_OR_RETURN(const PtxFigures figures, MeasurePtx(options.repetitions, console));
  BenchReport report{.json = ToJson(figures), .text = Format(figures)};
  for (const PtxKernelFigures& kernel : figures.kernels) {
    if (!kernel.right || kernel.findings > 0)
      report.wrong.push_back(fmt::format("{}: {}, and the result is {}", kernel.name,
                                         Counted(kernel.findings, "finding"),
                                         kernel.right ? "right" : "wrong"));
  }
  return report;
}

}  // namespace coppice
