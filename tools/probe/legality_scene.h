// What one row of the legality table happens among: a stream that captures, and bystanders of every
// kind that take no part in the capture.
//
// Each row has a scene of its own, because a call may use up what it is given. What a call uses up
// is set to null; what it makes is put into a `made_` member. Calls return the driver's result as
// it is: the probe is here to learn it.
//
// Threads: the thread that made it, but for the one call of the row.

#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/runtime/driver.h"

#include "tools/probe/graph_shape.h"
#include "tools/probe/subject.h"

namespace coppice {

struct LegalityScene {
  static constexpr size_t kBytes = 4096;

  // Makes the bystanders. `subject` must outlive the scene.
  static absl::StatusOr<std::unique_ptr<LegalityScene>> Create(const Subject& subject);
  LegalityScene(const LegalityScene&) = delete;
  LegalityScene& operator=(const LegalityScene&) = delete;
  ~LegalityScene();

  // Begins a capture and records one node.
  absl::Status Begin(CuCaptureMode mode);

  // Of the capture: "none", "active" or "invalidated"; "unknown" if the driver does not say.
  const char* CaptureStatus() const;

  // Ends what captures, waits for the device and gives everything back. Errors: the first refusal.
  absl::Status Clear();

  // Adds a node to `stream`, or launches there.
  CuResult Work(CuStream stream) const;

  const Subject& subject() const { return *subject_; }
  const DriverTable& cu() const { return subject_->cu(); }

  CuStream capturing = nullptr;
  CuStream idle = nullptr;
  ShapedGraph graph;             // One kernel node.
  ShapedGraph child;             // Another.
  size_t granule = 0;            // Bytes.
  CuDeviceAddress range = 0;     // Two granules, reserved.
  CuMemoryHandle mapped = 0;     // One granule, in the first of them ...
  CuMemoryHandle unmapped = 0;   // ... and one that is nowhere.
  bool first_is_mapped = false;  // Of the granules of the range.
  bool second_is_mapped = false;
  int64_t host_word = 0;

  CuEvent recorded = nullptr;    // And complete; with timing.
  CuDeviceAddress memory = 0;    // kBytes of cuMemAlloc.
  void* host = nullptr;          // kBytes of cuMemHostAlloc.
  CuDeviceAddress reserved = 0;  // One granule, nothing mapped.
  CuGraph spare_graph = nullptr;
  CuGraphExec exec = nullptr;     // Of `graph`, launched once.
  CuLibrary library = nullptr;    // No kernel of it has run.
  CuKernel kernel = nullptr;      // "Touch" of it.
  CuFunction function = nullptr;  // "Bulk" of it.

  CuStream made_stream = nullptr;
  CuEvent made_event = nullptr;
  CuDeviceAddress made_memory = 0;
  void* made_host = nullptr;
  CuDeviceAddress made_reserved = 0;  // One granule.
  CuMemoryHandle made_handle = 0;
  CuLibrary made_library = nullptr;
  CuGraph made_graph = nullptr;
  CuGraphExec made_exec = nullptr;
  bool made_retain = false;  // One more reference to the context.

 private:
  LegalityScene(const Subject& subject, ShapedGraph one_graph, ShapedGraph other_graph);
  absl::Status MakeBystanders();
  void EndCapture(CuStream stream) const;

  const Subject* subject_;
};

}  // namespace coppice
