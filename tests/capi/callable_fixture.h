// Callables of C in tests: a spec of one symbol, kernels of one's own, and a function as the body.
//
// Threads: one.

#pragma once

#include "nlohmann/json.hpp"

#include "coppice/coppice.h"

#include "tests/capi/c_fixture.h"

namespace coppice {

// What a callable does in a run; what it expects there is expected of the test.
using Body = std::function<coppice_status(coppice_context* context)>;

class CallableFixture : public CFixture {
 protected:
  void TearDown() override {
    coppice_kernels_release(kernels_);
    CFixture::TearDown();
  }

  // The driver's function of this name.
  template <typename Function>
  Function* Entry(const char* name) {
    coppice_driver_function entry = nullptr;
    EXPECT_C_OK(coppice_driver_entry(device_, name, &entry));
    return reinterpret_cast<Function*>(entry);
  }

  // Loads the small kernels, each of which is launched in blocks of 128.
  void LoadKernels() {
    ASSERT_C_OK(coppice_kernels_load(device_, package::kSmallKernels.data(),
                                     static_cast<int64_t>(package::kSmallKernels.size()),
                                     &kernels_));
  }
  coppice_kernel* KernelCalled(const char* name) {
    coppice_kernel* kernel = nullptr;
    EXPECT_C_OK(coppice_kernel_get(kernels_, name, &kernel));
    return kernel;
  }
  // y[i] = factor * x[i] for `count` elements.
  coppice_status LaunchScale(
      uint64_t x, uint64_t y, uint32_t count, float factor, void* stream) const {
    coppice_kernel* scale = nullptr;
    const coppice_status found = coppice_kernel_get(kernels_, "Scale", &scale);
    if (found != COPPICE_OK) return found;
    void* arguments[] = {&x, &y, &count, &factor};
    coppice_launch_shape shape = {.struct_size = sizeof(shape)};
    shape.grid[0] = (count + 127) / 128;
    shape.block[0] = 128;
    return coppice_launch(scale, &shape, arguments, 4, stream);
  }

  using CFixture::InfoOf;
  static coppice_context_info InfoOf(coppice_context* context) {
    coppice_context_info info = {.struct_size = sizeof(info)};
    EXPECT_C_OK(coppice_context_describe(context, &info));
    return info;
  }
  static uint64_t InputOf(coppice_context* context) {
    coppice_view view = {.struct_size = sizeof(view)};
    EXPECT_C_OK(coppice_context_input(context, 0, &view));
    return AddressOf(view.tensor);
  }
  static uint64_t AddressOf(const DLTensor& tensor) {
    return reinterpret_cast<uint64_t>(tensor.data);
  }
  static uint64_t OutputOf(coppice_context* context, int32_t output = 0) {
    coppice_view view = {.struct_size = sizeof(view)};
    EXPECT_C_OK(coppice_context_output(context, output, &view));
    return AddressOf(view.tensor);
  }
  static uint32_t ExtentOf(coppice_context* context) {
    int64_t extent = 0;
    EXPECT_C_OK(coppice_context_extent(context, 0, &extent));
    return static_cast<uint32_t>(extent);
  }
  // The output is the input times `factor`.
  coppice_status ScaleInput(coppice_context* context, float factor) const {
    return LaunchScale(InputOf(context), OutputOf(context), ExtentOf(context), factor,
                       InfoOf(context).stream);
  }

  // A spec of x[n] and outputs as large, in buckets of powers of two up to 256, whose arrays and
  // texts are its own.
  struct Spec {
    coppice_policy policy = {};
    coppice_symbol_spec symbol = {};
    coppice_tensor_spec x = {};
    std::vector<coppice_tensor_spec> outputs;
    coppice_program_spec program = {};
  };
  using Adjust = std::function<void(Spec& spec)>;

  // Registers `body`, in a session that is made unless there is one.
  coppice_program* RegisterBody(const char* name,
                                Body body,
                                const std::vector<const char*>& outputs = {"y"},
                                const Adjust& adjust = {}) {
    static constexpr const char* kShape[] = {"n"};
    if (session_ == nullptr) {
      EXPECT_C_OK(coppice_session_create(device_, nullptr, &session_));
    }
    Spec spec;
    spec.policy = {.struct_size = sizeof(coppice_policy), .text = "pow2", .maximum = 256};
    spec.symbol = {.struct_size = sizeof(coppice_symbol_spec),
                   .kind = COPPICE_SYMBOL_DYNAMIC,
                   .name = "n",
                   .policy = &spec.policy};
    spec.x = {.struct_size = sizeof(coppice_tensor_spec),
              .dtype = {kDLFloat, 32, 1},
              .name = "x",
              .shape = kShape,
              .rank = 1};
    for (const char* const output : outputs) {
      spec.outputs.push_back(spec.x);
      spec.outputs.back().name = output;
    }
    spec.program = {.struct_size = sizeof(coppice_program_spec),
                    .claim = COPPICE_CLAIM_ANY,
                    .name = name,
                    .symbols = &spec.symbol,
                    .symbol_count = 1,
                    .inputs = &spec.x,
                    .input_count = 1,
                    .outputs = spec.outputs.data(),
                    .output_count = static_cast<int64_t>(outputs.size())};
    if (adjust) adjust(spec);
    coppice_program* program = nullptr;
    EXPECT_C_OK(coppice_register_callable(
        session_, &spec.program,
        [](void* user, coppice_context* context) { return (*static_cast<Body*>(user))(context); },
        new Body(std::move(body)), [](void* user) { delete static_cast<Body*>(user); }, &program));
    return program;
  }

  coppice_kernels* kernels_ = nullptr;
};

}  // namespace coppice
