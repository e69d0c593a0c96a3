// One line per row where that is possible.

#include "tools/probe/legality_calls.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"

#include "tools/ledger/driver_ledger.h"
#include "tools/probe/probe_kernels.h"

namespace coppice {
namespace {

using Scene = LegalityScene;

class CallList {
 public:
  template <typename Function>
  void Add(Function DriverTable::*entry, CuResult (*call)(Scene& scene)) {
    calls_.push_back({.entry = DriverLedger::IndexOf(entry), .call = call});
  }

  std::vector<LegalityCall> TakeSorted() {
    std::stable_sort(calls_.begin(), calls_.end(),
                     [](const auto& a, const auto& b) { return a.entry < b.entry; });
    return std::move(calls_);
  }

 private:
  std::vector<LegalityCall> calls_;
};

// Sets what a successful call used up to null.
template <typename Handle>
CuResult UsedUp(CuResult result, Handle& handle) {
  if (result == CuResult::kSuccess) handle = {};
  return result;
}

CuResult ResultOf(const absl::Status& status) {
  return status.ok() ? CuResult::kSuccess : CuResultOf(status).value_or(CuResult::kUnknown);
}

CuDevice DeviceOf(const Scene& scene) {
  return scene.subject().context().device();
}

void AddDeviceCalls(CallList& list) {
  list.Add(&DriverTable::GetErrorName, [](Scene& scene) {
    const char* text = nullptr;
    return scene.cu().GetErrorName(CuResult::kInvalidValue, &text);
  });
  list.Add(&DriverTable::DriverGetVersion, [](Scene& scene) {
    int version = 0;
    return scene.cu().DriverGetVersion(&version);
  });
  list.Add(&DriverTable::DeviceGetCount, [](Scene& scene) {
    int count = 0;
    return scene.cu().DeviceGetCount(&count);
  });
  list.Add(&DriverTable::DeviceGet, [](Scene& scene) {
    CuDevice device = 0;
    return scene.cu().DeviceGet(&device, 0);
  });
  list.Add(&DriverTable::DeviceGetName, [](Scene& scene) {
    char name[64] = {};
    return scene.cu().DeviceGetName(name, sizeof(name), DeviceOf(scene));
  });
  list.Add(&DriverTable::DeviceTotalMem, [](Scene& scene) {
    size_t bytes = 0;
    return scene.cu().DeviceTotalMem(&bytes, DeviceOf(scene));
  });
  list.Add(&DriverTable::DeviceGetAttribute, [](Scene& scene) {
    int value = 0;
    return scene.cu().DeviceGetAttribute(&value, CuDeviceAttribute::kMultiprocessorCount,
                                         DeviceOf(scene));
  });
  list.Add(&DriverTable::DevicePrimaryCtxRetain, [](Scene& scene) {
    CuContext context = nullptr;
    const CuResult result = scene.cu().DevicePrimaryCtxRetain(&context, DeviceOf(scene));
    scene.made_retain = result == CuResult::kSuccess;
    return result;
  });
  list.Add(&DriverTable::CtxSetCurrent, [](Scene& scene) {
    return scene.cu().CtxSetCurrent(scene.subject().context().handle());
  });
  list.Add(&DriverTable::CtxGetCurrent, [](Scene& scene) {
    CuContext context = nullptr;
    return scene.cu().CtxGetCurrent(&context);
  });
  list.Add(&DriverTable::CtxSynchronize, [](Scene& scene) { return scene.cu().CtxSynchronize(); });
}

void AddMemoryCalls(CallList& list) {
  list.Add(&DriverTable::MemGetInfo, [](Scene& scene) {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    return scene.cu().MemGetInfo(&free_bytes, &total_bytes);
  });
  list.Add(&DriverTable::MemAlloc,
           [](Scene& scene) { return scene.cu().MemAlloc(&scene.made_memory, Scene::kBytes); });
  list.Add(&DriverTable::MemFree,
           [](Scene& scene) { return UsedUp(scene.cu().MemFree(scene.memory), scene.memory); });
  list.Add(&DriverTable::MemHostAlloc, [](Scene& scene) {
    return scene.cu().MemHostAlloc(&scene.made_host, Scene::kBytes, 0);
  });
  list.Add(&DriverTable::MemFreeHost,
           [](Scene& scene) { return UsedUp(scene.cu().MemFreeHost(scene.host), scene.host); });
  list.Add(&DriverTable::PointerGetAttribute, [](Scene& scene) {
    uint64_t id = 0;
    return scene.cu().PointerGetAttribute(&id, CuPointerAttribute::kBufferId, scene.memory);
  });
}

CuResult CooperativeWork(Scene& scene) {
  TouchParams params = {.target = scene.subject().word_pointer(1)};
  void* arguments[] = {&params};
  const Kernel& touch = scene.subject().touch();
  CuLaunchAttribute cooperative{.id = CuLaunchAttributeId::kCooperative};
  cooperative.value.cooperative = 1;
  const CuLaunchConfig config{.block_x = touch.block_threads,
                              .stream = scene.idle,
                              .attributes = &cooperative,
                              .attribute_count = 1};
  return scene.cu().LaunchKernelEx(&config, touch.function, arguments, nullptr);
}

// Work for a stream that does not capture.
void AddWork(CallList& list) {
  constexpr size_t kWord = sizeof(int64_t);
  list.Add(&DriverTable::MemcpyHtoDAsync, [](Scene& scene) {
    return scene.cu().MemcpyHtoDAsync(scene.memory, &scene.host_word, kWord, scene.idle);
  });
  list.Add(&DriverTable::MemcpyDtoHAsync, [](Scene& scene) {
    return scene.cu().MemcpyDtoHAsync(&scene.host_word, scene.memory, kWord, scene.idle);
  });
  list.Add(&DriverTable::MemcpyDtoDAsync, [](Scene& scene) {
    return scene.cu().MemcpyDtoDAsync(scene.memory + kWord, scene.memory, kWord, scene.idle);
  });
  list.Add(&DriverTable::MemsetD8Async, [](Scene& scene) {
    return scene.cu().MemsetD8Async(scene.memory, 0, kWord, scene.idle);
  });
  list.Add(&DriverTable::MemsetD32Async,
           [](Scene& scene) { return scene.cu().MemsetD32Async(scene.memory, 0, 2, scene.idle); });
  list.Add(&DriverTable::LaunchHostFunc, [](Scene& scene) {
    return scene.cu().LaunchHostFunc(
        scene.idle, [](void*) {}, nullptr);
  });
  list.Add(&DriverTable::LaunchKernel, [](Scene& scene) { return scene.Work(scene.idle); });
  list.Add(&DriverTable::LaunchKernelEx, [](Scene& scene) { return CooperativeWork(scene); });
  list.Add(&DriverTable::GraphLaunch,
           [](Scene& scene) { return scene.cu().GraphLaunch(scene.exec, scene.idle); });
  list.Add(&DriverTable::GraphUpload,
           [](Scene& scene) { return scene.cu().GraphUpload(scene.exec, scene.idle); });
}

void AddVirtualMemoryCalls(CallList& list) {
  list.Add(&DriverTable::MemAddressReserve, [](Scene& scene) {
    return scene.cu().MemAddressReserve(&scene.made_reserved, scene.granule, 0, 0, 0);
  });
  list.Add(&DriverTable::MemAddressFree, [](Scene& scene) {
    return UsedUp(scene.cu().MemAddressFree(scene.reserved, scene.granule), scene.reserved);
  });
  list.Add(&DriverTable::MemCreate, [](Scene& scene) {
    const CuMemAllocationProperties properties = scene.subject().memory_properties();
    return scene.cu().MemCreate(&scene.made_handle, scene.granule, &properties, 0);
  });
  list.Add(&DriverTable::MemRelease, [](Scene& scene) {
    return UsedUp(scene.cu().MemRelease(scene.unmapped), scene.unmapped);
  });
  list.Add(&DriverTable::MemMap, [](Scene& scene) {
    const CuResult result =
        scene.cu().MemMap(scene.range + scene.granule, scene.granule, 0, scene.unmapped, 0);
    scene.second_is_mapped = result == CuResult::kSuccess;
    return result;
  });
  list.Add(&DriverTable::MemUnmap, [](Scene& scene) {
    const CuResult result = scene.cu().MemUnmap(scene.range, scene.granule);
    scene.first_is_mapped = result != CuResult::kSuccess;
    return result;
  });
  list.Add(&DriverTable::MemSetAccess, [](Scene& scene) {
    const CuMemAccessDescriptor access = scene.subject().memory_access();
    return scene.cu().MemSetAccess(scene.range, scene.granule, &access, 1);
  });
  list.Add(&DriverTable::MemGetAllocationGranularity, [](Scene& scene) {
    const CuMemAllocationProperties properties = scene.subject().memory_properties();
    size_t bytes = 0;
    return scene.cu().MemGetAllocationGranularity(&bytes, &properties, CuMemGranularity::kMinimum);
  });
}

void AddStreamCalls(CallList& list) {
  list.Add(&DriverTable::StreamCreate, [](Scene& scene) {
    return scene.cu().StreamCreate(&scene.made_stream, kStreamNonBlocking);
  });
  list.Add(&DriverTable::StreamDestroy,
           [](Scene& scene) { return UsedUp(scene.cu().StreamDestroy(scene.idle), scene.idle); });
  list.Add(&DriverTable::StreamSynchronize,
           [](Scene& scene) { return scene.cu().StreamSynchronize(scene.idle); });
  list.Add(&DriverTable::StreamQuery,
           [](Scene& scene) { return scene.cu().StreamQuery(scene.idle); });
  list.Add(&DriverTable::StreamWaitEvent,
           [](Scene& scene) { return scene.cu().StreamWaitEvent(scene.idle, scene.recorded, 0); });
}

void AddEventCalls(CallList& list) {
  list.Add(&DriverTable::EventCreate, [](Scene& scene) {
    return scene.cu().EventCreate(&scene.made_event, kEventDisableTiming);
  });
  list.Add(&DriverTable::EventDestroy, [](Scene& scene) {
    return UsedUp(scene.cu().EventDestroy(scene.recorded), scene.recorded);
  });
  list.Add(&DriverTable::EventRecord,
           [](Scene& scene) { return scene.cu().EventRecord(scene.recorded, scene.idle); });
  list.Add(&DriverTable::EventQuery,
           [](Scene& scene) { return scene.cu().EventQuery(scene.recorded); });
  list.Add(&DriverTable::EventSynchronize,
           [](Scene& scene) { return scene.cu().EventSynchronize(scene.recorded); });
  list.Add(&DriverTable::EventElapsedTime, [](Scene& scene) {
    float milliseconds = 0;
    return scene.cu().EventElapsedTime(&milliseconds, scene.recorded, scene.recorded);
  });
}

CuResult GetCaptureInfo(Scene& scene) {
  CuCaptureStatus status = CuCaptureStatus::kNone;
  uint64_t id = 0;
  CuGraph graph = nullptr;
  const CuGraphNode* nodes = nullptr;
  const CuGraphEdgeData* edges = nullptr;
  size_t count = 0;
  return scene.cu().StreamGetCaptureInfo(scene.idle, &status, &id, &graph, &nodes, &edges, &count);
}

CuResult UpdateCaptureDependencies(Scene& scene) {
  CuGraphNode node = scene.graph.nodes[0];
  return scene.cu().StreamUpdateCaptureDependencies(scene.idle, &node, nullptr, 1,
                                                    kSetCaptureDependencies);
}

void AddCaptureCalls(CallList& list) {
  // Relaxed, so that the second capture forbids nothing and may end on any thread.
  list.Add(&DriverTable::StreamBeginCapture, [](Scene& scene) {
    return scene.cu().StreamBeginCapture(scene.idle, CuCaptureMode::kRelaxed);
  });
  list.Add(&DriverTable::StreamEndCapture,
           [](Scene& scene) { return scene.cu().StreamEndCapture(scene.idle, &scene.made_graph); });
  list.Add(&DriverTable::StreamIsCapturing, [](Scene& scene) {
    CuCaptureStatus status = CuCaptureStatus::kNone;
    return scene.cu().StreamIsCapturing(scene.idle, &status);
  });
  list.Add(&DriverTable::StreamGetCaptureInfo, &GetCaptureInfo);
  list.Add(&DriverTable::StreamUpdateCaptureDependencies, &UpdateCaptureDependencies);
  list.Add(&DriverTable::ThreadExchangeStreamCaptureMode, [](Scene& scene) {
    CuCaptureMode mode = CuCaptureMode::kRelaxed;
    const CuResult result = scene.cu().ThreadExchangeStreamCaptureMode(&mode);
    // Back to what it was, because the thread goes on to the next row.
    return result == CuResult::kSuccess ? scene.cu().ThreadExchangeStreamCaptureMode(&mode)
                                        : result;
  });
}

void AddCodeCalls(CallList& list) {
  list.Add(&DriverTable::LibraryLoadData, [](Scene& scene) {
    return scene.cu().LibraryLoadData(&scene.made_library, scene.subject().image(), nullptr,
                                      nullptr, 0, nullptr, nullptr, 0);
  });
  list.Add(&DriverTable::LibraryUnload, [](Scene& scene) {
    return UsedUp(scene.cu().LibraryUnload(scene.library), scene.library);
  });
  list.Add(&DriverTable::LibraryGetKernel, [](Scene& scene) {
    CuKernel kernel = nullptr;
    return scene.cu().LibraryGetKernel(&kernel, scene.library, "Bulk");
  });
  list.Add(&DriverTable::KernelGetFunction, [](Scene& scene) {
    CuFunction function = nullptr;
    return scene.cu().KernelGetFunction(&function, scene.kernel);
  });
  list.Add(&DriverTable::FuncGetName, [](Scene& scene) {
    const char* name = nullptr;
    return scene.cu().FuncGetName(&name, scene.function);
  });
  list.Add(&DriverTable::FuncGetParamInfo, [](Scene& scene) {
    size_t offset = 0;
    size_t bytes = 0;
    return scene.cu().FuncGetParamInfo(scene.function, 0, &offset, &bytes);
  });
  list.Add(&DriverTable::TensorMapEncodeTiled, [](Scene& scene) {
    constexpr uint64_t kDims[] = {64};
    constexpr unsigned kBox[] = {16};
    constexpr unsigned kElementStrides[] = {1};
    CuTensorMap map;
    return scene.cu().TensorMapEncodeTiled(
        &map, CuTensorMapDataType::kFloat32, 1,
        reinterpret_cast<void*>(scene.memory),  // NOLINT(performance-no-int-to-ptr)
        kDims, nullptr, kBox, kElementStrides, CuTensorMapInterleave::kNone,
        CuTensorMapSwizzle::kNone, CuTensorMapL2Promotion::kNone, CuTensorMapFloatOobFill::kNone);
  });
  list.Add(&DriverTable::LibraryGetKernelCount, [](Scene& scene) {
    unsigned count = 0;
    return scene.cu().LibraryGetKernelCount(&count, scene.library);
  });
  list.Add(&DriverTable::LibraryEnumerateKernels, [](Scene& scene) {
    CuKernel kernel = nullptr;
    return scene.cu().LibraryEnumerateKernels(&kernel, 1, scene.library);
  });
  list.Add(&DriverTable::FuncGetAttribute, [](Scene& scene) {
    int bytes = 0;
    return scene.cu().FuncGetAttribute(&bytes, CuFunctionAttribute::kMaxDynamicSharedBytes,
                                       scene.function);
  });
  list.Add(&DriverTable::FuncSetAttribute, [](Scene& scene) {
    constexpr int kBytes = 1024;
    return scene.cu().FuncSetAttribute(scene.function, CuFunctionAttribute::kMaxDynamicSharedBytes,
                                       kBytes);
  });
}

// Adds a node of `kind` to a graph of the scene.
template <NodeKind kind>
CuResult AddTo(Scene& scene) {
  CuGraphNode node = nullptr;
  return ResultOf(
      AddNode(scene.subject(), kind,
              {.graph = scene.graph.graph.handle(), .child = scene.child.graph.handle()}, &node));
}

void AddGraphEdits(CallList& list) {
  list.Add(&DriverTable::GraphAddKernelNode, &AddTo<NodeKind::kKernel>);
  list.Add(&DriverTable::GraphAddMemcpyNode, &AddTo<NodeKind::kMemcpy>);
  list.Add(&DriverTable::GraphAddMemsetNode, &AddTo<NodeKind::kMemset>);
  list.Add(&DriverTable::GraphAddHostNode, &AddTo<NodeKind::kHost>);
  list.Add(&DriverTable::GraphAddChildGraphNode, &AddTo<NodeKind::kChild>);
  list.Add(&DriverTable::GraphAddEmptyNode, &AddTo<NodeKind::kEmpty>);
  list.Add(&DriverTable::GraphGetNodes, [](Scene& scene) {
    size_t count = 0;
    return scene.cu().GraphGetNodes(scene.graph.graph.handle(), nullptr, &count);
  });
  list.Add(&DriverTable::GraphGetEdges, [](Scene& scene) {
    size_t count = 0;
    return scene.cu().GraphGetEdges(scene.graph.graph.handle(), nullptr, nullptr, nullptr, &count);
  });
  list.Add(&DriverTable::GraphNodeGetType, [](Scene& scene) {
    CuGraphNodeType type = CuGraphNodeType::kEmpty;
    return scene.cu().GraphNodeGetType(scene.graph.nodes[0], &type);
  });
  list.Add(&DriverTable::GraphKernelNodeGetParams, [](Scene& scene) {
    CuKernelNodeParams params;
    return scene.cu().GraphKernelNodeGetParams(scene.graph.nodes[0], &params);
  });
  list.Add(&DriverTable::GraphKernelNodeGetAttribute, [](Scene& scene) {
    CuLaunchAttributeValue value;
    return scene.cu().GraphKernelNodeGetAttribute(scene.graph.nodes[0],
                                                  CuLaunchAttributeId::kCooperative, &value);
  });
  list.Add(&DriverTable::GraphKernelNodeSetAttribute, [](Scene& scene) {
    const CuLaunchAttributeValue value = {};
    return scene.cu().GraphKernelNodeSetAttribute(scene.graph.nodes[0],
                                                  CuLaunchAttributeId::kCooperative, &value);
  });
}

void AddGraphCalls(CallList& list) {
  list.Add(&DriverTable::GraphCreate,
           [](Scene& scene) { return scene.cu().GraphCreate(&scene.made_graph, 0); });
  list.Add(&DriverTable::GraphDestroy, [](Scene& scene) {
    return UsedUp(scene.cu().GraphDestroy(scene.spare_graph), scene.spare_graph);
  });
  list.Add(&DriverTable::GraphInstantiateWithFlags, [](Scene& scene) {
    return scene.cu().GraphInstantiateWithFlags(&scene.made_exec, scene.graph.graph.handle(), 0);
  });
  list.Add(&DriverTable::GraphExecKernelNodeSetParams, [](Scene& scene) {
    const TouchNode changed(scene.subject(), /*value=*/3);
    return scene.cu().GraphExecKernelNodeSetParams(scene.exec, scene.graph.nodes[0],
                                                   &changed.params());
  });
  list.Add(&DriverTable::GraphExecUpdate, [](Scene& scene) {
    CuGraphExecUpdateResultInfo info;
    return scene.cu().GraphExecUpdate(scene.exec, scene.child.graph.handle(), &info);
  });
  list.Add(&DriverTable::GraphExecDestroy, [](Scene& scene) {
    return UsedUp(scene.cu().GraphExecDestroy(scene.exec), scene.exec);
  });
}

}  // namespace

const std::vector<LegalityCall>& LegalityCalls() {
  static const std::vector<LegalityCall>* const calls = [] {
    CallList list;
    AddDeviceCalls(list);
    AddMemoryCalls(list);
    AddWork(list);
    AddVirtualMemoryCalls(list);
    AddStreamCalls(list);
    AddEventCalls(list);
    AddCaptureCalls(list);
    AddCodeCalls(list);
    AddGraphCalls(list);
    AddGraphEdits(list);
    return new std::vector<LegalityCall>(list.TakeSorted());
  }();
  return *calls;
}

}  // namespace coppice
