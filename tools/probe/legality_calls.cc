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
    Add(entry, "", call);
  }
  template <typename Function>
  void Add(Function DriverTable::*entry, const char* note, CuResult (*call)(Scene& scene)) {
    calls_.push_back({.entry = DriverLedger::IndexOf(entry), .note = note, .call = call});
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
  list.Add(&DriverTable::PointerGetAttribute, [](Scene& scene) {
    uint64_t id = 0;
    return scene.cu().PointerGetAttribute(&id, CuPointerAttribute::kBufferId, scene.memory);
  });
}

// Work for `stream`: on the idle stream it runs, on the capturing one it becomes a node.
template <CuStream (Scene::*stream)() const>
void AddWork(CallList& list, const char* note) {
  constexpr size_t kWord = sizeof(int64_t);
  list.Add(&DriverTable::MemcpyHtoDAsync, note, [](Scene& scene) {
    return scene.cu().MemcpyHtoDAsync(scene.memory, &scene.host_word, kWord, (scene.*stream)());
  });
  list.Add(&DriverTable::MemcpyDtoHAsync, note, [](Scene& scene) {
    return scene.cu().MemcpyDtoHAsync(&scene.host_word, scene.memory, kWord, (scene.*stream)());
  });
  list.Add(&DriverTable::MemcpyDtoDAsync, note, [](Scene& scene) {
    return scene.cu().MemcpyDtoDAsync(scene.memory + kWord, scene.memory, kWord, (scene.*stream)());
  });
  list.Add(&DriverTable::MemsetD8Async, note, [](Scene& scene) {
    return scene.cu().MemsetD8Async(scene.memory, 0, kWord, (scene.*stream)());
  });
  list.Add(&DriverTable::MemsetD32Async, note, [](Scene& scene) {
    return scene.cu().MemsetD32Async(scene.memory, 0, 2, (scene.*stream)());
  });
  list.Add(&DriverTable::LaunchHostFunc, note, [](Scene& scene) {
    return scene.cu().LaunchHostFunc((scene.*stream)(), [](void*) {}, nullptr);
  });
  list.Add(&DriverTable::LaunchKernel, note,
           [](Scene& scene) { return scene.stage.Work((scene.*stream)()); });
  list.Add(&DriverTable::LaunchKernelEx, note,
           [](Scene& scene) { return scene.stage.CooperativeWork((scene.*stream)()); });
  list.Add(&DriverTable::GraphLaunch, note,
           [](Scene& scene) { return scene.cu().GraphLaunch(scene.exec, (scene.*stream)()); });
  list.Add(&DriverTable::GraphUpload, note,
           [](Scene& scene) { return scene.cu().GraphUpload(scene.exec, (scene.*stream)()); });
}

// The first launch of a kernel, at which a driver may have to load it.
template <CuStream (Scene::*stream)() const>
CuResult LaunchFirst(Scene& scene) {
  BulkParams params{.target = scene.subject().word_pointer(2)};
  void* arguments[] = {&params};
  return scene.cu().LaunchKernel(scene.function, 1, 1, 1, kProbeThreads, 1, 1, 0, (scene.*stream)(),
                                 arguments, nullptr);
}

void AddVirtualMemoryCalls(CallList& list) {
  list.Add(&DriverTable::MemAddressReserve, [](Scene& scene) {
    return scene.cu().MemAddressReserve(&scene.made_reserved, scene.granule, 0, 0, 0);
  });
  list.Add(&DriverTable::MemAddressFree, [](Scene& scene) {
    return UsedUp(scene.cu().MemAddressFree(scene.reserved, scene.granule), scene.reserved);
  });
  list.Add(&DriverTable::MemCreate, [](Scene& scene) {
    CuMemoryHandle handle = 0;
    return scene.range.Create(scene.granule, &handle);
  });
  list.Add(&DriverTable::MemRelease,
           [](Scene& scene) { return scene.range.Release(scene.unmapped); });
  list.Add(&DriverTable::MemMap, [](Scene& scene) {
    return scene.range.Map(scene.granule, scene.granule, 0, scene.unmapped);
  });
  list.Add(&DriverTable::MemUnmap,
           [](Scene& scene) { return scene.range.Unmap(0, scene.granule); });
  list.Add(&DriverTable::MemSetAccess,
           [](Scene& scene) { return scene.range.SetAccess(0, scene.granule); });
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
  list.Add(&DriverTable::StreamDestroy, [](Scene& scene) { return scene.stage.DestroyOther(); });
  list.Add(&DriverTable::StreamSynchronize,
           [](Scene& scene) { return scene.cu().StreamSynchronize(scene.idle()); });
  list.Add(&DriverTable::StreamSynchronize, "capturing",
           [](Scene& scene) { return scene.cu().StreamSynchronize(scene.capturing()); });
  list.Add(&DriverTable::StreamQuery,
           [](Scene& scene) { return scene.cu().StreamQuery(scene.idle()); });
  list.Add(&DriverTable::StreamQuery, "capturing",
           [](Scene& scene) { return scene.cu().StreamQuery(scene.capturing()); });
  list.Add(&DriverTable::StreamWaitEvent, [](Scene& scene) {
    return scene.cu().StreamWaitEvent(scene.idle(), scene.recorded, 0);
  });
  list.Add(&DriverTable::StreamWaitEvent, "captured", [](Scene& scene) {
    return scene.cu().StreamWaitEvent(scene.idle(), scene.captured(), 0);
  });
  list.Add(&DriverTable::StreamWaitEvent, "capturing, captured", [](Scene& scene) {
    return scene.cu().StreamWaitEvent(scene.capturing(), scene.captured(), 0);
  });
  list.Add(&DriverTable::StreamWaitEvent, "capturing, recorded before", [](Scene& scene) {
    return scene.cu().StreamWaitEvent(scene.capturing(), scene.recorded, 0);
  });
  list.Add(&DriverTable::StreamWaitEvent, "capturing, never recorded", [](Scene& scene) {
    return scene.cu().StreamWaitEvent(scene.capturing(), scene.unrecorded, 0);
  });
}

void AddEventCalls(CallList& list) {
  list.Add(&DriverTable::EventCreate, [](Scene& scene) {
    return scene.cu().EventCreate(&scene.made_event, kEventDisableTiming);
  });
  list.Add(&DriverTable::EventDestroy, [](Scene& scene) {
    return UsedUp(scene.cu().EventDestroy(scene.recorded), scene.recorded);
  });
  list.Add(&DriverTable::EventDestroy, "captured",
           [](Scene& scene) { return scene.stage.DestroyEvent(); });
  list.Add(&DriverTable::EventRecord,
           [](Scene& scene) { return scene.cu().EventRecord(scene.recorded, scene.idle()); });
  list.Add(&DriverTable::EventRecord, "capturing",
           [](Scene& scene) { return scene.cu().EventRecord(scene.recorded, scene.capturing()); });
  list.Add(&DriverTable::EventRecord, "captured",
           [](Scene& scene) { return scene.cu().EventRecord(scene.captured(), scene.idle()); });
  list.Add(&DriverTable::EventQuery,
           [](Scene& scene) { return scene.cu().EventQuery(scene.recorded); });
  list.Add(&DriverTable::EventQuery, "captured",
           [](Scene& scene) { return scene.cu().EventQuery(scene.captured()); });
  list.Add(&DriverTable::EventSynchronize,
           [](Scene& scene) { return scene.cu().EventSynchronize(scene.recorded); });
  list.Add(&DriverTable::EventSynchronize, "captured",
           [](Scene& scene) { return scene.cu().EventSynchronize(scene.captured()); });
  list.Add(&DriverTable::EventElapsedTime, [](Scene& scene) {
    float milliseconds = 0;
    return scene.cu().EventElapsedTime(&milliseconds, scene.recorded, scene.recorded);
  });
}

template <CuStream (Scene::*stream)() const>
CuResult GetCaptureInfo(Scene& scene) {
  CuCaptureStatus status = CuCaptureStatus::kNone;
  uint64_t id = 0;
  CuGraph graph = nullptr;
  const CuGraphNode* nodes = nullptr;
  const CuGraphEdgeData* edges = nullptr;
  size_t count = 0;
  return scene.cu().StreamGetCaptureInfo((scene.*stream)(), &status, &id, &graph, &nodes, &edges,
                                         &count);
}

template <CuStream (Scene::*stream)() const>
CuResult UpdateCaptureDependencies(Scene& scene) {
  CuGraphNode node = scene.captured_node;
  return scene.cu().StreamUpdateCaptureDependencies((scene.*stream)(), &node, nullptr, 1,
                                                    kSetCaptureDependencies);
}

void AddCaptureCalls(CallList& list) {
  // Relaxed, so that the second capture forbids nothing and may end on any thread.
  list.Add(&DriverTable::StreamBeginCapture, [](Scene& scene) {
    return scene.cu().StreamBeginCapture(scene.idle(), CuCaptureMode::kRelaxed);
  });
  list.Add(&DriverTable::StreamBeginCapture, "capturing", [](Scene& scene) {
    return scene.cu().StreamBeginCapture(scene.capturing(), CuCaptureMode::kRelaxed);
  });
  list.Add(&DriverTable::StreamEndCapture, [](Scene& scene) {
    return scene.cu().StreamEndCapture(scene.idle(), &scene.made_graph);
  });
  list.Add(&DriverTable::StreamIsCapturing, [](Scene& scene) {
    CuCaptureStatus status = CuCaptureStatus::kNone;
    return scene.cu().StreamIsCapturing(scene.idle(), &status);
  });
  list.Add(&DriverTable::StreamIsCapturing, "capturing", [](Scene& scene) {
    CuCaptureStatus status = CuCaptureStatus::kNone;
    return scene.cu().StreamIsCapturing(scene.capturing(), &status);
  });
  list.Add(&DriverTable::StreamGetCaptureInfo, &GetCaptureInfo<&Scene::idle>);
  list.Add(&DriverTable::StreamGetCaptureInfo, "capturing", &GetCaptureInfo<&Scene::capturing>);
  list.Add(&DriverTable::StreamUpdateCaptureDependencies, &UpdateCaptureDependencies<&Scene::idle>);
  list.Add(&DriverTable::StreamUpdateCaptureDependencies, "capturing",
           &UpdateCaptureDependencies<&Scene::capturing>);
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
    return scene.cu().LibraryGetKernel(&kernel, scene.library, "Spin");
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
  list.Add(&DriverTable::LaunchKernel, "first launch", &LaunchFirst<&Scene::idle>);
  list.Add(&DriverTable::LaunchKernel, "capturing, first launch", &LaunchFirst<&Scene::capturing>);
}

// Adds a node of `kind` to a graph of the scene.
template <NodeKind kind, bool to_captured>
CuResult AddTo(Scene& scene) {
  CuGraphNode node = nullptr;
  return ResultOf(AddNode(scene.subject(), kind,
                          {.graph = to_captured ? scene.captured_graph : scene.graph.graph.handle(),
                           .child = scene.child.graph.handle()},
                          &node));
}

template <bool of_captured>
CuGraph GraphOf(const Scene& scene) {
  return of_captured ? scene.captured_graph : scene.graph.graph.handle();
}

template <bool of_captured>
CuGraphNode NodeOf(const Scene& scene) {
  return of_captured ? scene.captured_node : scene.graph.nodes[0];
}

// Calls on a graph: on a bystander, or on the one that the capture writes to.
template <bool captured>
void AddGraphEdits(CallList& list, const char* note) {
  list.Add(&DriverTable::GraphAddKernelNode, note, &AddTo<NodeKind::kKernel, captured>);
  list.Add(&DriverTable::GraphAddMemcpyNode, note, &AddTo<NodeKind::kMemcpy, captured>);
  list.Add(&DriverTable::GraphAddMemsetNode, note, &AddTo<NodeKind::kMemset, captured>);
  list.Add(&DriverTable::GraphAddHostNode, note, &AddTo<NodeKind::kHost, captured>);
  list.Add(&DriverTable::GraphAddChildGraphNode, note, &AddTo<NodeKind::kChild, captured>);
  list.Add(&DriverTable::GraphAddEmptyNode, note, &AddTo<NodeKind::kEmpty, captured>);
  list.Add(&DriverTable::GraphGetNodes, note, [](Scene& scene) {
    size_t count = 0;
    return scene.cu().GraphGetNodes(GraphOf<captured>(scene), nullptr, &count);
  });
  list.Add(&DriverTable::GraphGetEdges, note, [](Scene& scene) {
    size_t count = 0;
    return scene.cu().GraphGetEdges(GraphOf<captured>(scene), nullptr, nullptr, nullptr, &count);
  });
  list.Add(&DriverTable::GraphNodeGetType, note, [](Scene& scene) {
    CuGraphNodeType type = CuGraphNodeType::kEmpty;
    return scene.cu().GraphNodeGetType(NodeOf<captured>(scene), &type);
  });
  list.Add(&DriverTable::GraphKernelNodeGetParams, note, [](Scene& scene) {
    CuKernelNodeParams params;
    return scene.cu().GraphKernelNodeGetParams(NodeOf<captured>(scene), &params);
  });
  list.Add(&DriverTable::GraphKernelNodeGetAttribute, note, [](Scene& scene) {
    CuLaunchAttributeValue value;
    return scene.cu().GraphKernelNodeGetAttribute(NodeOf<captured>(scene),
                                                  CuLaunchAttributeId::kCooperative, &value);
  });
  list.Add(&DriverTable::GraphKernelNodeSetAttribute, note, [](Scene& scene) {
    const CuLaunchAttributeValue value = {};
    return scene.cu().GraphKernelNodeSetAttribute(NodeOf<captured>(scene),
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
    const TouchNode changed(scene.subject(), /*chain=*/0, /*value=*/3);
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

template <typename Function>
std::string SymbolOf(Function DriverTable::*entry) {
  return DriverEntryAt(DriverLedger::IndexOf(entry)).symbol;
}

}  // namespace

std::string LegalityCall::Name() const {
  const char* const symbol = DriverEntryAt(entry).symbol;
  return *note == '\0' ? symbol : fmt::format("{}({})", symbol, note);
}

const std::vector<LegalityCall>& LegalityCalls() {
  static const std::vector<LegalityCall>* const calls = [] {
    CallList list;
    AddDeviceCalls(list);
    AddMemoryCalls(list);
    AddWork<&Scene::idle>(list, "");
    AddWork<&Scene::capturing>(list, "capturing");
    AddVirtualMemoryCalls(list);
    AddStreamCalls(list);
    AddEventCalls(list);
    AddCaptureCalls(list);
    AddCodeCalls(list);
    AddGraphCalls(list);
    AddGraphEdits<false>(list, "");
    AddGraphEdits<true>(list, "capturing");
    return new std::vector<LegalityCall>(list.TakeSorted());
  }();
  return *calls;
}

std::vector<UntriedCall> UntriedCalls() {
  constexpr const char* kEnds = "it ends what the row asks about; see the survey orders";
  constexpr const char* kMayCrash = "a driver may crash on a graph that its capture writes to";
  return {
      {SymbolOf(&DriverTable::Init), "a process calls it before anything else"},
      {SymbolOf(&DriverTable::DevicePrimaryCtxRelease), "it takes the context from the capture"},
      {SymbolOf(&DriverTable::StreamEndCapture) + "(capturing)", kEnds},
      {SymbolOf(&DriverTable::StreamDestroy) + "(capturing)", kEnds},
      {SymbolOf(&DriverTable::GraphDestroy) + "(capturing)", kMayCrash},
      {SymbolOf(&DriverTable::GraphInstantiateWithFlags) + "(capturing)", kMayCrash},
  };
}

}  // namespace coppice
