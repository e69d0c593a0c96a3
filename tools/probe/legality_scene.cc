// Sets a scene and clears it.

#include "tools/probe/legality_scene.h"

#include <utility>

#include "coppice/base/status.h"

#include "tools/probe/probe_kernels.h"

namespace coppice {
namespace {

// Gives `handle` back by the entry that takes it.
template <auto Entry, typename Handle, typename... Rest>
void GiveBack(const Driver& driver, absl::Status& failure, Handle& handle, Rest... rest) {
  if (handle == Handle{}) return;
  failure.Update(driver.Call<Entry>(std::exchange(handle, Handle{}), rest...));
}

}  // namespace

LegalityScene::LegalityScene(const Subject& subject, ShapedGraph one_graph, ShapedGraph other_graph)
    : graph(std::move(one_graph)), child(std::move(other_graph)), subject_(&subject) {}

LegalityScene::~LegalityScene() {
  Clear().IgnoreError();  // Whoever wants to know has cleared it.
}

absl::StatusOr<std::unique_ptr<LegalityScene>> LegalityScene::Create(const Subject& subject) {
  COPPICE_ASSIGN_OR_RETURN(ShapedGraph graph, MakeGraph(subject, {.value = 1}));
  COPPICE_ASSIGN_OR_RETURN(ShapedGraph child, MakeGraph(subject, {.value = 2}));
  std::unique_ptr<LegalityScene> scene(
      new LegalityScene(subject, std::move(graph), std::move(child)));
  COPPICE_RETURN_IF_ERROR(scene->MakeBystanders());
  return scene;
}

absl::Status LegalityScene::MakeBystanders() {
  const Driver& driver = subject().driver();
  const CuMemAllocationProperties properties = subject().memory_properties();
  const CuMemAccessDescriptor access = subject().memory_access();
  COPPICE_ASSIGN_OR_RETURN(granule, subject().Granularity(CuMemGranularity::kMinimum));
  for (CuStream* const stream : {&capturing, &idle})
    COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::StreamCreate>(stream, kStreamNonBlocking));
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::MemAddressReserve>(
      &range, 2 * granule, size_t{0}, CuDeviceAddress{0}, 0ULL));
  for (CuMemoryHandle* const handle : {&mapped, &unmapped})
    COPPICE_RETURN_IF_ERROR(
        driver.Call<&DriverTable::MemCreate>(handle, granule, &properties, 0ULL));
  COPPICE_RETURN_IF_ERROR(
      driver.Call<&DriverTable::MemMap>(range, granule, size_t{0}, mapped, 0ULL));
  first_is_mapped = true;
  COPPICE_RETURN_IF_ERROR(
      driver.Call<&DriverTable::MemSetAccess>(range, granule, &access, size_t{1}));
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::MemAddressReserve>(
      &reserved, granule, size_t{0}, CuDeviceAddress{0}, 0ULL));
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::MemAlloc>(&memory, kBytes));
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::MemHostAlloc>(&host, kBytes, 0U));
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::EventCreate>(&recorded, kEventDefault));
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::GraphCreate>(&spare_graph, 0U));
  COPPICE_RETURN_IF_ERROR(
      driver.Call<&DriverTable::GraphInstantiateWithFlags>(&exec, graph.graph.handle(), 0ULL));
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::LibraryLoadData>(
      &library, subject().image(), nullptr, nullptr, 0U, nullptr, nullptr, 0U));
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::LibraryGetKernel>(&kernel, library, "Touch"));
  CuKernel bulk = nullptr;
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::LibraryGetKernel>(&bulk, library, "Bulk"));
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::KernelGetFunction>(&function, bulk));
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::GraphLaunch>(exec, idle));
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::EventRecord>(recorded, idle));
  return driver.Call<&DriverTable::StreamSynchronize>(idle);
}

absl::Status LegalityScene::Begin(CuCaptureMode mode) {
  COPPICE_RETURN_IF_ERROR(
      subject().driver().Call<&DriverTable::StreamBeginCapture>(capturing, mode));
  return subject().Check(Work(capturing), "cuLaunchKernel");
}

CuResult LegalityScene::Work(CuStream stream) const {
  // Streams are not ordered with each other, so each has a word of its own.
  TouchParams params = {.target = subject().word_pointer(stream == capturing ? 0 : 1)};
  void* arguments[] = {&params};
  const Kernel& touch = subject().touch();
  return cu().LaunchKernel(touch.function, 1, 1, 1, touch.block_threads, 1, 1, 0, stream, arguments,
                           nullptr);
}

const char* LegalityScene::CaptureStatus() const {
  CuCaptureStatus status = CuCaptureStatus::kNone;
  if (cu().StreamIsCapturing(capturing, &status) != CuResult::kSuccess) return "unknown";
  return status == CuCaptureStatus::kNone     ? "none"
         : status == CuCaptureStatus::kActive ? "active"
                                              : "invalidated";
}

void LegalityScene::EndCapture(CuStream stream) const {
  CuCaptureStatus status = CuCaptureStatus::kNone;
  if (stream == nullptr || cu().StreamIsCapturing(stream, &status) != CuResult::kSuccess) return;
  CuGraph captured = nullptr;
  if (status != CuCaptureStatus::kNone &&
      cu().StreamEndCapture(stream, &captured) == CuResult::kSuccess && captured != nullptr)
    cu().GraphDestroy(captured);
}

absl::Status LegalityScene::Clear() {
  const Driver& driver = subject().driver();
  EndCapture(capturing);
  EndCapture(idle);
  // Queued copies use the scene's host word.
  absl::Status failure = driver.Call<&DriverTable::CtxSynchronize>();
  for (CuStream* const stream : {&capturing, &idle, &made_stream})
    GiveBack<&DriverTable::StreamDestroy>(driver, failure, *stream);
  for (CuEvent* const event : {&made_event, &recorded})
    GiveBack<&DriverTable::EventDestroy>(driver, failure, *event);
  for (CuGraphExec* const one : {&made_exec, &exec})
    GiveBack<&DriverTable::GraphExecDestroy>(driver, failure, *one);
  for (CuGraph* const one : {&made_graph, &spare_graph})
    GiveBack<&DriverTable::GraphDestroy>(driver, failure, *one);
  for (CuLibrary* const one : {&made_library, &library})
    GiveBack<&DriverTable::LibraryUnload>(driver, failure, *one);
  for (CuDeviceAddress* const one : {&made_memory, &memory})
    GiveBack<&DriverTable::MemFree>(driver, failure, *one);
  for (void** const one : {&made_host, &host})
    GiveBack<&DriverTable::MemFreeHost>(driver, failure, *one);
  if (std::exchange(first_is_mapped, false))
    failure.Update(driver.Call<&DriverTable::MemUnmap>(range, granule));
  if (std::exchange(second_is_mapped, false))
    failure.Update(driver.Call<&DriverTable::MemUnmap>(range + granule, granule));
  for (CuMemoryHandle* const one : {&mapped, &unmapped, &made_handle})
    GiveBack<&DriverTable::MemRelease>(driver, failure, *one);
  for (CuDeviceAddress* const one : {&made_reserved, &reserved})
    GiveBack<&DriverTable::MemAddressFree>(driver, failure, *one, granule);
  GiveBack<&DriverTable::MemAddressFree>(driver, failure, range, 2 * granule);
  if (std::exchange(made_retain, false))
    failure.Update(
        driver.Call<&DriverTable::DevicePrimaryCtxRelease>(subject().context().device()));
  return failure;
}

}  // namespace coppice
