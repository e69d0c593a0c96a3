// What one row of the legality table happens among: a stream that captures, and bystanders of every
// kind that take no part in the capture.
//
// Each row has a scene of its own, because a call may use up what it is given. What a call uses up
// is set to null; what it makes is put into a `made_` member.
//
// Threads: the thread that made it, but for the one call of the row.

#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/runtime/driver.h"

#include "tools/probe/capture_stage.h"
#include "tools/probe/graph_shape.h"
#include "tools/probe/subject.h"
#include "tools/probe/virtual_range.h"

namespace coppice {

struct LegalityScene {
  static constexpr size_t kBytes = 4096;

  // Makes the bystanders. `subject` must outlive the scene.
  static absl::StatusOr<std::unique_ptr<LegalityScene>> Create(const Subject& subject);
  LegalityScene(const LegalityScene&) = delete;
  LegalityScene& operator=(const LegalityScene&) = delete;
  ~LegalityScene();

  // Begins the capture, with one node and one captured event.
  absl::Status Begin(CuCaptureMode mode);

  // Ends the capture and gives everything back. Errors: the first refusal.
  absl::Status Clear();

  const Subject& subject() const { return stage.subject(); }
  const DriverTable& cu() const { return stage.cu(); }
  CuStream capturing() const { return stage.origin(); }
  CuStream idle() const { return stage.other(); }
  CuEvent captured() const { return stage.event(); }

  CaptureStage stage;
  VirtualRange range;                // The first granule is mapped, the second is not.
  ShapedGraph graph;                 // One kernel node.
  ShapedGraph child;                 // Another.
  size_t granule = 0;                // Bytes.
  CuMemoryHandle unmapped = 0;       // One granule.
  CuGraph captured_graph = nullptr;  // Belongs to the capture.
  CuGraphNode captured_node = nullptr;
  int64_t host_word = 0;

  CuEvent recorded = nullptr;    // And complete; with timing.
  CuEvent unrecorded = nullptr;  // Never recorded.
  CuDeviceAddress memory = 0;    // kBytes of cuMemAlloc.
  CuDeviceAddress reserved = 0;  // One granule, nothing mapped.
  CuGraph spare_graph = nullptr;
  CuGraphExec exec = nullptr;     // Of `graph`, launched once.
  CuLibrary library = nullptr;    // No kernel of it has run.
  CuKernel kernel = nullptr;      // "Touch" of it.
  CuFunction function = nullptr;  // "Bulk" of it.

  CuStream made_stream = nullptr;
  CuEvent made_event = nullptr;
  CuDeviceAddress made_memory = 0;
  CuDeviceAddress made_reserved = 0;  // One granule.
  CuLibrary made_library = nullptr;
  CuGraph made_graph = nullptr;
  CuGraphExec made_exec = nullptr;
  bool made_retain = false;  // One more reference to the context.

 private:
  LegalityScene(CaptureStage made_stage,
                VirtualRange made_range,
                ShapedGraph one_graph,
                ShapedGraph other_graph);
  absl::Status MakeBystanders();
};

}  // namespace coppice
