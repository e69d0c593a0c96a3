// expressions: joins two inputs of any lengths without a gap, as often as the call asks for, and
// sums up each page of 16 elements. The lengths of what comes out are computed from those of the
// inputs; how often is a size that no input has. Graphs are padded, so the kernel reads from the
// parameter block where x ends and y begins.

#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "absl/status/status.h"
#include "fmt/format.h"

#include "coppice/base/status.h"
#include "coppice/graphs/session.h"
#include "coppice/runtime/kernel_library.h"
#include "coppice/runtime/launch.h"
#include "coppice/runtime/stream.h"

#include "copies.h"
#include "join.h"
#include "open_driver.h"

namespace samples {
namespace {

using coppice::Dim;
using coppice::PaddingPolicy;
using coppice::Tensor;

constexpr int64_t kLengthMax = 100;
constexpr int64_t kPage = 16;

// The sizes of one call.
struct Sizes {
  int64_t n;
  int64_t m;
  int64_t rows;
};

coppice::ProgramSpec JoinSpec() {
  coppice::ProgramSpec spec{.name = "join", .claim = coppice::PaddingContents::kAny};
  const auto n = Dim::Symbol(spec.AddSymbol("n", *PaddingPolicy::Pow2(64)));
  const auto m = Dim::Symbol(spec.AddSymbol("m", *PaddingPolicy::Pow2(64)));
  const auto rows = Dim::Symbol(spec.AddSymbol("rows", *PaddingPolicy::Pow2(8)));
  spec.symbols.back().given = true;  // It comes in Call::extents.
  const Dim both = spec.AddExtent("n + m");
  const Dim pages = spec.AddExtent(fmt::format("ceildiv(n + m, {})", kPage));
  spec.inputs = {{.name = "x", .dims = {n}}, {.name = "y", .dims = {m}}};
  spec.outputs = {{.name = "joined", .dims = {rows, both}},
                  {.name = "sums", .dims = {rows, pages}}};
  return spec;
}

// Host code of the program: one launch, a block per page and row of the bucket.
absl::Status RunJoin(coppice::CallContext& call, const coppice::Kernel& join) {
  COPPICE_ASSIGN_OR_RETURN(const Tensor joined, call.AllocateOutput(0));
  COPPICE_ASSIGN_OR_RETURN(const Tensor sums, call.AllocateOutput(1));
  const JoinParams params{.x = reinterpret_cast<const float*>(call.input(0).data),
                          .y = reinterpret_cast<const float*>(call.input(1).data),
                          .joined = reinterpret_cast<float*>(joined.data),
                          .sums = reinterpret_cast<float*>(sums.data),
                          .extents = reinterpret_cast<const int64_t*>(call.parameters()),
                          .x_length = call.extent(0),
                          .y_length = call.extent(1),
                          .page = kPage};
  const auto rows = static_cast<unsigned>(sums.sizes[0]);
  const auto pages = static_cast<unsigned>(sums.sizes[1]);
  return coppice::Launch(call.driver(), join, call.stream(), params,
                         {.grid = {pages, rows}, .shared_bytes = kPage * sizeof(float)});
}

// What the program computes, on the host.
struct Joined {
  std::vector<float> joined;
  std::vector<float> sums;
};

Joined JoinOnHost(const Sizes& sizes) {
  Joined result;
  for (int64_t row = 1; row <= sizes.rows; ++row) {
    for (int64_t i = 0; i < sizes.n + sizes.m; ++i) {
      const int64_t number = i < sizes.n ? i : i - sizes.n;
      result.joined.push_back(static_cast<float>(row * number));
      if (i % kPage == 0) result.sums.push_back(0);
      result.sums.back() += result.joined.back();
    }
  }
  return result;
}

absl::Status RunSample(const coppice::Driver& driver) {
  COPPICE_ASSIGN_OR_RETURN(const auto context, coppice::Context::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(const auto stream, coppice::Stream::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(const auto library, coppice::KernelLibrary::Load(driver, join_image));
  COPPICE_ASSIGN_OR_RETURN(const coppice::Kernel join, library.Get("Join"));

  std::vector<float> numbers(kLengthMax);  // 0, 1, 2 and so on.
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  COPPICE_ASSIGN_OR_RETURN(const auto memory, Upload(driver, stream, numbers));

  COPPICE_ASSIGN_OR_RETURN(const auto session, coppice::Session::Create(context, {}));
  COPPICE_ASSIGN_OR_RETURN(const auto* program,
                           session->Register(JoinSpec(), [&](coppice::CallContext& call) {
                             return RunJoin(call, join);
                           }));

  // Compares every element with the host's, and prints how the call ran.
  const auto check = [&](const Sizes& sizes, const coppice::Lease& lease) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const coppice::ReadScope scope, lease.Read(stream.handle()));
    const Tensor joined = scope.output(0);  // At the call's own extents.
    const Tensor sums = scope.output(1);
    const Joined expected = JoinOnHost(sizes);
    COPPICE_ASSIGN_OR_RETURN(const auto joined_values, Download(driver, stream, joined));
    COPPICE_ASSIGN_OR_RETURN(const auto sum_values, Download(driver, stream, sums));
    if (joined_values != expected.joined || sum_values != expected.sums)
      return absl::InternalError("the host computes something else");
    fmt::print("n {:3}  m {:2}  rows {}  {:8} {:20} joined [{}, {}]  sums [{}, {}]\n", sizes.n,
               sizes.m, sizes.rows, NameOf(lease.kind()), NameOf(lease.reason()), joined.sizes[0],
               joined.sizes[1], sums.sizes[0], sums.sizes[1]);
    return absl::OkStatus();
  };

  for (const Sizes& sizes :
       {Sizes{5, 20, 3}, {7, 30, 4}, {6, 17, 3}, {8, 32, 4}, {100, 20, 3}, {5, 32, 3}}) {
    const Tensor inputs[] = {
        Tensor::Dense(memory.address(), coppice::DType::kFloat32, {&sizes.n, 1}),
        Tensor::Dense(memory.address(), coppice::DType::kFloat32, {&sizes.m, 1})};
    const coppice::Call call{.program = program,
                             .inputs = inputs,
                             .extents = {&sizes.rows, 1},  // One per symbol that is given.
                             .stream = stream.handle()};
    COPPICE_ASSIGN_OR_RETURN(const coppice::Lease lease, session->Run(call));
    COPPICE_RETURN_IF_ERROR(check(sizes, lease));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace samples

int main() {
  std::unique_ptr<coppice::Emulator> emulator;
  const auto driver = samples::OpenDriver(samples::join_image, emulator);
  const absl::Status status = driver.ok() ? samples::RunSample(*driver) : driver.status();
  return samples::Finish("expressions", status, emulator);
}
