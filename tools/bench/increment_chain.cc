// The first kernel reads the input, every other one what the one before it wrote.

#include "tools/bench/increment_chain.h"

#include "coppice/base/status.h"
#include "coppice/base/units.h"

#include "tools/bench/bench_params.h"

namespace coppice {

// NOLINTBEGIN(performance-no-int-to-ptr): the driver's addresses are integers.
Callable IncrementChain(Kernel kernel, int64_t kernels) {
  return [kernel, kernels](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    IncrementParams params = {.source = reinterpret_cast<const float*>(context.input(0).data),
                              .target = reinterpret_cast<float*>(y.data),
                              .count = y.element_count()};
    const auto grid = static_cast<unsigned>(CeilDivide(params.count, kernel.block_threads));
    for (int64_t i = 0; i < kernels; ++i) {
      COPPICE_RETURN_IF_ERROR(Launch(context.driver(), kernel, context.stream(), params, grid));
      params.source = params.target;
    }
    return absl::OkStatus();
  };
}
// NOLINTEND(performance-no-int-to-ptr)

}  // namespace coppice
