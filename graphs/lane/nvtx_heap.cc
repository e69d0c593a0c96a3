// The memory extension of NVTX, where the CUDA Toolkit has it.

#include "graphs/lane/nvtx_heap.h"

#if COPPICE_HAVE_NVTX && __has_include(<nvtx3/nvToolsExtMem.h>)
#include <mutex>

#include <nvtx3/nvToolsExtMem.h>

#include "graphs/lane/nvtx.h"

namespace coppice::internal {
namespace {

nvtxDomainHandle_t Domain() {
  return nvtx3::domain::get<NvtxDomain>();
}

nvtxMemVirtualRangeDesc_t RangeOf(DeviceAddress base, int64_t bytes) {
  nvtxMemVirtualRangeDesc_t range{};
  range.size = static_cast<size_t>(bytes);
  range.ptr = reinterpret_cast<const void*>(static_cast<uintptr_t>(base));
  return range;
}

// The first call of the extension looks for a tool and fills a table that every later call reads;
// NVTX puts nothing in between that would order the two. A heap's other calls follow its own
// registration, so ordering the registrations orders them all.
nvtxMemHeapHandle_t Register(const nvtxMemHeapDesc_t& heap) {
  static std::mutex registrations;
  const std::lock_guard lock(registrations);
  return nvtxMemHeapRegister(Domain(), &heap);
}

template <typename Batch>
Batch MakeBatch() {
  Batch batch{};
  batch.extCompatID = NVTX_EXT_COMPATID_MEM;
  batch.structSize = sizeof(Batch);
  return batch;
}

}  // namespace

NvtxHeap::NvtxHeap(const std::string& name, DeviceAddress base, int64_t bytes) : base_(base) {
  const nvtxMemVirtualRangeDesc_t range = RangeOf(base, bytes);
  auto heap = MakeBatch<nvtxMemHeapDesc_t>();
  heap.usage = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR;
  heap.type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
  heap.typeSpecificDescSize = sizeof(range);
  heap.typeSpecificDesc = &range;
  heap.messageType = NVTX_MESSAGE_TYPE_ASCII;
  heap.message.ascii = name.c_str();
  heap_ = Register(heap);
}

NvtxHeap::~NvtxHeap() {
  Resize(0);
  if (heap_ != nullptr) nvtxMemHeapUnregister(Domain(), static_cast<nvtxMemHeapHandle_t>(heap_));
}

void NvtxHeap::Resize(int64_t mapped) {
  if (heap_ == nullptr || mapped == mapped_) return;
  const nvtxMemVirtualRangeDesc_t range = RangeOf(base_, mapped);
  if (mapped == 0) {
    nvtxMemRegionRef_t region{};
    region.pointer = range.ptr;
    auto batch = MakeBatch<nvtxMemRegionsUnregisterBatch_t>();
    batch.refType = NVTX_MEM_REGION_REF_TYPE_POINTER;
    batch.refCount = 1;
    batch.refElementSize = sizeof(region);
    batch.refElements = &region;
    nvtxMemRegionsUnregister(Domain(), &batch);
  } else if (mapped_ == 0) {
    nvtxMemRegionHandle_t unused = nullptr;
    auto batch = MakeBatch<nvtxMemRegionsRegisterBatch_t>();
    batch.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
    batch.heap = static_cast<nvtxMemHeapHandle_t>(heap_);
    batch.regionCount = 1;
    batch.regionDescElementSize = sizeof(range);
    batch.regionDescElements = &range;
    batch.regionHandleElementsOut = &unused;
    nvtxMemRegionsRegister(Domain(), &batch);
  } else {
    auto batch = MakeBatch<nvtxMemRegionsResizeBatch_t>();
    batch.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
    batch.regionDescCount = 1;
    batch.regionDescElementSize = sizeof(range);
    batch.regionDescElements = &range;
    nvtxMemRegionsResize(Domain(), &batch);
  }
  mapped_ = mapped;
}

}  // namespace coppice::internal

#else

namespace coppice::internal {

NvtxHeap::NvtxHeap(const std::string&, DeviceAddress base, int64_t) : base_(base) {}
NvtxHeap::~NvtxHeap() = default;
void NvtxHeap::Resize(int64_t mapped) {
  mapped_ = mapped;
}

}  // namespace coppice::internal

#endif
