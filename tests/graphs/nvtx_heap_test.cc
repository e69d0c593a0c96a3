// Goal: a tool that watches memory through NVTX hears of exactly the bytes that may be touched, and
// of none that were given back.
// Method: a tool linked into the test writes down what it is told; without the memory extension of
// NVTX there is nothing to be told, and the test says so.

#include "graphs/lane/nvtx_heap.h"

#if COPPICE_HAVE_NVTX && __has_include(<nvtx3/nvToolsExtMem.h>)
#define NVTX_NO_IMPL  // The test is the tool: it needs the types only.
#include <nvtx3/nvToolsExtMem.h>

#include "tests/support/test.h"

namespace {

std::vector<std::string>& Told() {
  static std::vector<std::string> told;
  return told;
}
bool attached = true;
int heap_object = 0;

const auto& RangeAt(const void* range) {
  return *static_cast<const nvtxMemVirtualRangeDesc_t*>(range);
}
void Tell(const char* what, const nvtxMemVirtualRangeDesc_t& range) {
  Told().push_back(
      fmt::format("{} {:#x} {}", what, reinterpret_cast<uintptr_t>(range.ptr), range.size));
}

nvtxMemHeapHandle_t HeapRegister(nvtxDomainHandle_t, const nvtxMemHeapDesc_t* heap) {
  if (!attached) return nullptr;
  EXPECT_EQ(heap->structSize, sizeof(nvtxMemHeapDesc_t));
  EXPECT_EQ(heap->typeSpecificDescSize, sizeof(nvtxMemVirtualRangeDesc_t));
  Tell(heap->message.ascii, RangeAt(heap->typeSpecificDesc));
  return reinterpret_cast<nvtxMemHeapHandle_t>(&heap_object);
}
void HeapUnregister(nvtxDomainHandle_t, nvtxMemHeapHandle_t heap) {
  EXPECT_EQ(heap, reinterpret_cast<nvtxMemHeapHandle_t>(&heap_object));
  Told().push_back("heap ends");
}
void RegionsRegister(nvtxDomainHandle_t, const nvtxMemRegionsRegisterBatch_t* batch) {
  EXPECT_EQ(batch->heap, reinterpret_cast<nvtxMemHeapHandle_t>(&heap_object));
  EXPECT_EQ(batch->regionCount, 1U);
  Tell("region", RangeAt(batch->regionDescElements));
}
void RegionsResize(nvtxDomainHandle_t, const nvtxMemRegionsResizeBatch_t* batch) {
  Tell("resize", RangeAt(batch->regionDescElements));
}
void RegionsUnregister(nvtxDomainHandle_t, const nvtxMemRegionsUnregisterBatch_t* batch) {
  EXPECT_EQ(batch->refType, static_cast<uint32_t>(NVTX_MEM_REGION_REF_TYPE_POINTER));
  Told().push_back(
      fmt::format("region ends {:#x}", reinterpret_cast<uintptr_t>(batch->refElements[0].pointer)));
}

int Attach(nvtxExtModuleInfo_t* module) {
  if (module->moduleId != NVTX_EXT_MODULEID_MEM) return 0;
  intptr_t* slots = module->segments[0].functionSlots;
  slots[NVTX3EXT_CBID_nvtxMemHeapRegister] = reinterpret_cast<intptr_t>(&HeapRegister);
  slots[NVTX3EXT_CBID_nvtxMemHeapUnregister] = reinterpret_cast<intptr_t>(&HeapUnregister);
  slots[NVTX3EXT_CBID_nvtxMemRegionsRegister] = reinterpret_cast<intptr_t>(&RegionsRegister);
  slots[NVTX3EXT_CBID_nvtxMemRegionsResize] = reinterpret_cast<intptr_t>(&RegionsResize);
  slots[NVTX3EXT_CBID_nvtxMemRegionsUnregister] = reinterpret_cast<intptr_t>(&RegionsUnregister);
  return 1;
}

}  // namespace

// Where NVTX looks for a tool that is linked in.
extern "C" {
NvtxExtInitializeInjectionFunc_t InitializeInjectionNvtxExtension_fnptr = &Attach;
}

namespace coppice::internal {
namespace {

class NvtxHeapTest : public testing::Test {
 protected:
  NvtxHeapTest() { Told().clear(); }
  ~NvtxHeapTest() override { attached = true; }
};

TEST_F(NvtxHeapTest, ToolHearsOfExactlyWhatMayBeTouched) {
  {
    NvtxHeap heap("lane 0", 0x700000000000, int64_t{1} << 36);
    heap.Resize(4096);
    heap.Resize(4096);
    heap.Resize((int64_t{1} << 33) + 256);
    heap.Resize(0);
    heap.Resize(512);
  }
  EXPECT_THAT(Told(),
              ElementsAre("lane 0 0x700000000000 68719476736", "region 0x700000000000 4096",
                          "resize 0x700000000000 8589934848", "region ends 0x700000000000",
                          "region 0x700000000000 512", "region ends 0x700000000000", "heap ends"));
}

TEST_F(NvtxHeapTest, NoHeapOfAToolIsNeverTakenForTheWholeProcess) {
  attached = false;
  {
    NvtxHeap heap("lane 0", 0x700000000000, 1 << 20);
    heap.Resize(4096);
  }
  EXPECT_THAT(Told(), IsEmpty());
}

}  // namespace
}  // namespace coppice::internal

#else

TEST(NvtxHeapTest, ToolHearsOfExactlyWhatMayBeTouched) {
  GTEST_SKIP() << "this build has no memory extension of NVTX";
}

#endif
