// hello_graph: embeds a batch of token rows that has another size with every call. Sizes share
// buckets, and each bucket is recorded once as a CUDA graph.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "fmt/format.h"

#include "coppice/base/status.h"
#include "coppice/graphs/session.h"
#include "coppice/runtime/kernel_library.h"
#include "coppice/runtime/stream.h"

#include "copies.h"
#include "embed.h"
#include "open_driver.h"

namespace samples {
namespace {

using coppice::Dim;
using coppice::DType;
using coppice::PaddingPolicy;
using coppice::Tensor;

constexpr int64_t kRowsMax = 100;
constexpr int64_t kTokens = 4;  // Per row.
constexpr int64_t kVocabulary = 128;
constexpr int64_t kFeatures = 16;

Tensor Rows(DType dtype, const coppice::DeviceMemory& memory, int64_t rows, int64_t columns) {
  const int64_t dims[] = {rows, columns};
  return Tensor::Dense(memory.address(), dtype, dims);
}

absl::Status RunSample(const coppice::Driver& driver) {
  COPPICE_ASSIGN_OR_RETURN(const auto context, coppice::Context::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(const auto stream, coppice::Stream::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(const auto library, coppice::KernelLibrary::Load(driver, embed_image));
  COPPICE_ASSIGN_OR_RETURN(const coppice::Kernel kernel, library.Get("Embed"));

  // Row r has token r four times; token t is embedded as t, in every feature.
  std::vector<int32_t> token_values(kRowsMax * kTokens);
  for (size_t i = 0; i < token_values.size(); ++i)
    token_values[i] = static_cast<int32_t>(i / kTokens);
  std::vector<float> table_values(kVocabulary * kFeatures);
  for (size_t i = 0; i < table_values.size(); ++i)
    table_values[i] = static_cast<float>(i / kFeatures);
  COPPICE_ASSIGN_OR_RETURN(const auto memory, Upload(driver, stream, token_values));
  COPPICE_ASSIGN_OR_RETURN(const auto table, Upload(driver, stream, table_values));

  COPPICE_ASSIGN_OR_RETURN(const auto session, coppice::Session::Create(context, {}));

  // Host code that launches kernels on the stream it is given. A replay does not run it.
  const auto embed = [&](coppice::CallContext& call) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, call.AllocateOutput(0));
    const EmbedParams params{.tokens = reinterpret_cast<const int32_t*>(call.input(0).data),
                             .table = reinterpret_cast<const float*>(table.address()),
                             .y = reinterpret_cast<float*>(y.data),
                             .length = kTokens,
                             .vocabulary = kVocabulary,
                             .features = kFeatures};
    const auto rows = static_cast<unsigned>(call.extent(0));  // Of the bucket.
    return coppice::Launch(call.driver(), kernel, call.stream(), params, rows);
  };

  // The last row of y, and how the call ran.
  const auto print = [&](int64_t rows, const coppice::Lease& lease) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const coppice::ReadScope scope, lease.Read(stream.handle()));
    const Tensor y = scope.output(0);  // At the call's own extents.
    const coppice::DeviceAddress last = y.data + (rows - 1) * y.strides[0] * sizeof(float);
    COPPICE_ASSIGN_OR_RETURN(const float value, Download(driver, stream, last));
    fmt::print("rows {:3}  {:8} {:20} y[{}] = {}\n", rows, NameOf(lease.kind()),
               NameOf(lease.reason()), rows - 1, value);
    return absl::OkStatus();
  };

  coppice::ProgramSpec spec{.name = "embed", .claim = coppice::PaddingContents::kRowIndependent};
  const auto batch = Dim::Symbol(spec.AddSymbol("batch", *PaddingPolicy::Ramp(1, 8, 64)));
  spec.inputs = {{.name = "tokens", .dtype = DType::kInt32, .dims = {batch, Dim::Fixed(kTokens)}}};
  spec.outputs = {{.name = "y", .dims = {batch, Dim::Fixed(kFeatures)}}};
  COPPICE_ASSIGN_OR_RETURN(const auto* program, session->Register(std::move(spec), embed));
  for (const int64_t rows : {5, 7, 6, 20, 8, 18, 100, 23}) {
    const Tensor tokens[] = {Rows(DType::kInt32, memory, rows, kTokens)};
    COPPICE_ASSIGN_OR_RETURN(
        const coppice::Lease lease,
        session->Run({.program = program, .inputs = tokens, .stream = stream.handle()}));
    COPPICE_RETURN_IF_ERROR(print(rows, lease));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace samples

int main() {
  std::unique_ptr<coppice::Emulator> emulator;
  const auto driver = samples::OpenDriver(samples::embed_image, emulator);
  const absl::Status status = driver.ok() ? samples::RunSample(*driver) : driver.status();
  return samples::Finish("hello_graph", status, emulator);
}
