// Goal: each device of CUDA is its own, by coppice.h: tensors of another are refused, and a call
// leaves the thread's current context as it was. Method: the emulated libcuda.so.1 with two
// devices, whose current context is asked for by the driver's own functions.

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coppice/runtime/driver.h"

#include "tests/capi/c_fixture.h"

namespace coppice {
namespace {

using testing::Each;

// Another copy of it than coppice's own, over the same library.
const DriverTable& Cuda() {
  static const Driver driver = *Driver::LoadCuda();
  return driver.table();
}
CuContext CurrentContext() {
  CuContext context = nullptr;
  EXPECT_EQ(Cuda().CtxGetCurrent(&context), CuResult::kSuccess);
  return context;
}
void MakeCurrent(CuContext context) {
  EXPECT_EQ(Cuda().CtxSetCurrent(context), CuResult::kSuccess);
}

// Memory of the driver, and the contexts that were current when it was asked for and given back.
struct Provider {
  std::vector<CuContext> contexts;

  coppice_memory_provider provider() {
    coppice_memory_provider made = {.struct_size = sizeof(made)};
    made.user = this;
    made.allocate = [](void* user, int64_t bytes, void*, uint64_t* address) -> coppice_status {
      static_cast<Provider*>(user)->contexts.push_back(CurrentContext());
      CuDeviceAddress made_at = 0;
      const CuResult result = Cuda().MemAlloc(&made_at, static_cast<size_t>(bytes));
      *address = made_at;
      return result == CuResult::kSuccess ? COPPICE_OK : COPPICE_RESOURCE_EXHAUSTED;
    };
    made.free = [](void* user, uint64_t address, int64_t) {
      static_cast<Provider*>(user)->contexts.push_back(CurrentContext());
      EXPECT_EQ(Cuda().MemFree(address), CuResult::kSuccess);
    };
    return made;
  }
};

// A device of CUDA, and y = 5 x on it.
class Opened {
 public:
  explicit Opened(int32_t ordinal, const coppice_memory_provider* provider = nullptr)
      : ordinal_(ordinal) {
    coppice_device_options options = {.struct_size = sizeof(options)};
    options.kind = COPPICE_DEVICE_CUDA;
    options.ordinal = ordinal;
    options.provider = provider;
    EXPECT_C_OK(coppice_device_open(&options, &device));
    EXPECT_C_OK(coppice_device_make_current(device));
    context = CurrentContext();
    MakeCurrent(nullptr);
  }
  ~Opened() { Release(); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  void Load() {
    package::PackageBuilder builder = package::SmallKernels();
    builder.manifest["programs"]["main"] = DiamondProgram();
    const std::string zip = builder.Zip();
    coppice_package_options options = {.struct_size = sizeof(options)};
    options.allow_ptx = 1;
    EXPECT_C_OK(coppice_package_load_memory(device, zip.data(), static_cast<int64_t>(zip.size()),
                                            "test.zip", &options, &package));
  }
  void Register() {
    EXPECT_C_OK(coppice_session_create(device, nullptr, &session));
    EXPECT_C_OK(coppice_register_package(session, package, "main", nullptr, &program));
  }
  void Upload(int64_t count) {
    size = count;
    const std::vector<float> values(static_cast<size_t>(count), 3);
    const auto bytes = count * static_cast<int64_t>(sizeof(float));
    EXPECT_C_OK(coppice_memory_allocate(device, bytes, &address));
    EXPECT_C_OK(coppice_copy_to_device(device, address, values.data(), bytes, stream));
  }
  DLTensor x() {
    return {.data = reinterpret_cast<void*>(address),
            .device = {kDLCUDA, ordinal_},
            .ndim = 1,
            .dtype = {kDLFloat, 32, 1},
            .shape = &size,
            .strides = nullptr,
            .byte_offset = 0};
  }
  coppice_status Run(const DLTensor& input, const DLTensor* target = nullptr) {
    const DLTensor* const inputs[] = {&input};
    coppice_call call = {.struct_size = sizeof(call)};
    call.program = program;
    call.inputs = inputs;
    call.input_count = 1;
    call.stream = stream;
    if (target != nullptr) {
      call.targets = &target;
      call.target_count = 1;
      call.output_mode = COPPICE_WRITE_INTO;
    }
    return coppice_run(session, &call, &lease);
  }
  std::vector<float> Read() {
    std::vector<float> values(static_cast<size_t>(size));
    coppice_read* scope = nullptr;
    EXPECT_C_OK(coppice_lease_read(lease, stream, &scope));
    coppice_view view = {.struct_size = sizeof(view)};
    EXPECT_C_OK(coppice_read_output(scope, 0, &view));
    EXPECT_EQ(view.tensor.device.device_type, kDLCUDA);
    EXPECT_EQ(view.tensor.device.device_id, ordinal_);
    EXPECT_C_OK(coppice_copy_to_host(device, values.data(),
                                     reinterpret_cast<uint64_t>(view.tensor.data),
                                     size * static_cast<int64_t>(sizeof(float)), stream));
    coppice_read_end(scope);
    return values;
  }
  int32_t Kind() const {
    coppice_lease_info info = {.struct_size = sizeof(info)};
    EXPECT_C_OK(coppice_lease_describe(lease, &info));
    return info.kind;
  }
  void End() { coppice_lease_release(std::exchange(lease, nullptr)); }
  void Release() {
    End();
    coppice_session_release(std::exchange(session, nullptr));
    coppice_package_release(std::exchange(package, nullptr));
    coppice_device_release(std::exchange(device, nullptr));
  }

  coppice_device* device = nullptr;
  CuContext context = nullptr;
  void* stream = nullptr;
  coppice_package* package = nullptr;
  coppice_session* session = nullptr;
  coppice_program* program = nullptr;
  coppice_lease* lease = nullptr;
  uint64_t address = 0;
  int64_t size = 0;

 private:
  const int32_t ordinal_;
};

TEST(CudaDevicesTest, EachRunsOnItsOwnAndRefusesWhatLiesOnTheOther) {
  Opened first(0);
  Opened second(1);
  for (Opened* const on : {&first, &second}) {
    EXPECT_C_OK(coppice_stream_create(on->device, &on->stream));
    on->Load();
    on->Register();
    on->Upload(7);
  }
  std::vector<int32_t> kinds;
  for (int call = 0; call < 4; ++call) {
    for (Opened* const on : {&first, &second}) {
      EXPECT_C_OK(on->Run(on->x()));
      kinds.push_back(on->Kind());
      EXPECT_THAT(on->Read(), Each(5 * 3.0F));
      on->End();
    }
  }
  EXPECT_EQ(std::ranges::count(kinds, COPPICE_RUN_REPLAY), 6);
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT,
                 "input 0: is on device 1 of type 2, but the session is on device 0 of type 2",
                 first.Run(second.x()));
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT,
                 "input 0: is on device 0 of type 2, but the session is on device 1 of type 2",
                 second.Run(first.x()));
  const DLTensor target = first.x();
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "target 0: is on device 0 of type 2",
                 second.Run(second.x(), &target));
  DLTensor managed = second.x();  // Which every device reaches, whoever made it.
  managed.device = {kDLCUDAManaged, 0};
  EXPECT_C_OK(second.Run(managed));
}

TEST(CudaDevicesTest, ACallLeavesTheContextThatWasCurrent) {
  Opened other(1);
  for (const CuContext before : {other.context, CuContext()}) {
    Provider provider;
    const coppice_memory_provider given = provider.provider();
    Opened own(0, &given);
    MakeCurrent(before);
    std::string left;  // By what another context was left.
    const auto run = [&](const char* name, const std::function<void()>& call) {
      call();
      if (CurrentContext() != before) left += std::string(name) + " ";
      MakeCurrent(before);
    };
    run("stream_create", [&] { EXPECT_C_OK(coppice_stream_create(own.device, &own.stream)); });
    run("package_load", [&] { own.Load(); });
    run("session_create and register", [&] { own.Register(); });
    run("memory_allocate and copy", [&] { own.Upload(7); });
    for (int call = 0; call < 3; ++call) {
      run("run", [&] { EXPECT_C_OK(own.Run(own.x())); });
      run("read", [&] { EXPECT_THAT(own.Read(), Each(5 * 3.0F)); });
      run("lease_release", [&] { own.End(); });
    }
    run("detach", [&] {
      EXPECT_C_OK(own.Run(own.x()));
      DLManagedTensorVersioned* tensor = nullptr;
      EXPECT_C_OK(coppice_lease_detach(own.lease, own.stream, &tensor, 1));
      if (tensor != nullptr) tensor->deleter(tensor);
    });
    run("stream_synchronize",
        [&] { EXPECT_C_OK(coppice_stream_synchronize(own.device, own.stream)); });
    run("device_synchronize", [&] { EXPECT_C_OK(coppice_device_synchronize(own.device)); });
    run("memory_free", [&] { EXPECT_C_OK(coppice_memory_free(own.device, own.address)); });
    run("stream_destroy", [&] { EXPECT_C_OK(coppice_stream_destroy(own.device, own.stream)); });
    run("releases", [&] { own.Release(); });
    EXPECT_EQ(left, "");
    EXPECT_GE(provider.contexts.size(), 2U);
    EXPECT_THAT(provider.contexts, Each(own.context));
  }
}

TEST(CudaDevicesTest, OpeningGivesAContextToAThreadThatHasNone) {
  coppice_device_options options = {.struct_size = sizeof(options)};
  options.kind = COPPICE_DEVICE_CUDA;
  Opened other(1);
  for (const CuContext before : {other.context, CuContext()}) {
    MakeCurrent(before);
    coppice_device* device = nullptr;
    EXPECT_C_OK(coppice_device_open(&options, &device));
    EXPECT_EQ(CurrentContext() == before, before != nullptr);
    coppice_device_release(device);
  }
}

}  // namespace
}  // namespace coppice
