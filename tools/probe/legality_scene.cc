// Sets a scene and clears it.

#include "tools/probe/legality_scene.h"

#include <utility>

#include "coppice/base/status.h"

#include "tools/probe/first_failure.h"

namespace coppice {
namespace {

// Gives `handle` back by the entry that takes it.
template <auto Entry, typename Handle, typename... Rest>
void GiveBack(const Driver& driver, FirstFailure& failure, Handle& handle, Rest... rest) {
  if (handle == Handle{}) return;
  failure.Note(driver.Call<Entry>(std::exchange(handle, Handle{}), rest...));
}

}  // namespace

LegalityScene::LegalityScene(CaptureStage made_stage,
                             VirtualRange made_range,
                             ShapedGraph one_graph,
                             ShapedGraph other_graph)
    : stage(std::move(made_stage)),
      range(std::move(made_range)),
      graph(std::move(one_graph)),
      child(std::move(other_graph)) {}

LegalityScene::~LegalityScene() {
  Clear().IgnoreError();  // Whoever wants to know has cleared it.
}

absl::StatusOr<std::unique_ptr<LegalityScene>> LegalityScene::Create(const Subject& subject) {
  COPPICE_ASSIGN_OR_RETURN(const size_t granule, subject.Granularity(CuMemGranularity::kMinimum));
  COPPICE_ASSIGN_OR_RETURN(CaptureStage stage, CaptureStage::Create(subject));
  COPPICE_ASSIGN_OR_RETURN(VirtualRange range, VirtualRange::Reserve(subject, 2 * granule));
  COPPICE_ASSIGN_OR_RETURN(ShapedGraph graph, MakeGraph(subject, {.value = 1}));
  COPPICE_ASSIGN_OR_RETURN(ShapedGraph child, MakeGraph(subject, {.value = 2}));
  std::unique_ptr<LegalityScene> scene(
      new LegalityScene(std::move(stage), std::move(range), std::move(graph), std::move(child)));
  scene->granule = granule;
  COPPICE_RETURN_IF_ERROR(scene->MakeBystanders());
  return scene;
}

absl::Status LegalityScene::MakeBystanders() {
  const Driver& driver = subject().driver();
  COPPICE_RETURN_IF_ERROR(range.Fill(0, granule));
  COPPICE_RETURN_IF_ERROR(subject().Check(range.Create(granule, &unmapped), "cuMemCreate"));
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::MemAddressReserve>(
      &reserved, granule, size_t{0}, CuDeviceAddress{0}, 0ULL));
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::MemAlloc>(&memory, kBytes));
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::EventCreate>(&recorded, kEventDefault));
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::EventCreate>(&unrecorded, kEventDisableTiming));
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::GraphCreate>(&spare_graph, 0U));
  COPPICE_RETURN_IF_ERROR(
      driver.Call<&DriverTable::GraphInstantiateWithFlags>(&exec, graph.graph.handle(), 0ULL));
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::LibraryLoadData>(
      &library, subject().image(), nullptr, nullptr, 0U, nullptr, nullptr, 0U));
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::LibraryGetKernel>(&kernel, library, "Touch"));
  CuKernel bulk = nullptr;
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::LibraryGetKernel>(&bulk, library, "Bulk"));
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::KernelGetFunction>(&function, bulk));
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::GraphLaunch>(exec, idle()));
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::EventRecord>(recorded, idle()));
  return driver.Call<&DriverTable::StreamSynchronize>(idle());
}

absl::Status LegalityScene::Begin(CuCaptureMode mode) {
  COPPICE_RETURN_IF_ERROR(stage.Begin(mode));
  const Driver& driver = subject().driver();
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::EventRecord>(captured(), capturing()));
  CuCaptureStatus status = CuCaptureStatus::kNone;
  uint64_t id = 0;
  const CuGraphNode* nodes = nullptr;
  const CuGraphEdgeData* edges = nullptr;
  size_t count = 0;
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::StreamGetCaptureInfo>(
      capturing(), &status, &id, &captured_graph, &nodes, &edges, &count));
  if (count != 1)
    return MakeError(absl::StatusCode::kInternal,
                     "LegalityScene::Begin: the capture's tail has {} nodes instead of 1; report "
                     "the driver",
                     count);
  captured_node = nodes[0];
  return absl::OkStatus();
}

absl::Status LegalityScene::Clear() {
  const Driver& driver = subject().driver();
  FirstFailure failure;
  failure.Note(stage.Close());  // Waits, because queued copies use the scene's host word.
  GiveBack<&DriverTable::StreamDestroy>(driver, failure, made_stream);
  GiveBack<&DriverTable::EventDestroy>(driver, failure, made_event);
  GiveBack<&DriverTable::EventDestroy>(driver, failure, recorded);
  GiveBack<&DriverTable::EventDestroy>(driver, failure, unrecorded);
  GiveBack<&DriverTable::GraphExecDestroy>(driver, failure, made_exec);
  GiveBack<&DriverTable::GraphExecDestroy>(driver, failure, exec);
  GiveBack<&DriverTable::GraphDestroy>(driver, failure, made_graph);
  GiveBack<&DriverTable::GraphDestroy>(driver, failure, spare_graph);
  GiveBack<&DriverTable::LibraryUnload>(driver, failure, made_library);
  GiveBack<&DriverTable::LibraryUnload>(driver, failure, library);
  GiveBack<&DriverTable::MemFree>(driver, failure, made_memory);
  GiveBack<&DriverTable::MemFree>(driver, failure, memory);
  GiveBack<&DriverTable::MemAddressFree>(driver, failure, made_reserved, granule);
  GiveBack<&DriverTable::MemAddressFree>(driver, failure, reserved, granule);
  if (std::exchange(made_retain, false))
    failure.Note(driver.Call<&DriverTable::DevicePrimaryCtxRelease>(subject().context().device()));
  return failure.status();
}

}  // namespace coppice
