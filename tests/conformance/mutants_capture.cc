// Wrong drivers: what a capture records, how it begins and ends, and what it tells.

#include <algorithm>
#include <vector>

#include "tests/conformance/mutation.h"

namespace coppice::mutation {
namespace {

using enum CuResult;

constexpr auto kNothing = [](void* /*data*/) {};

void BeginLeavesARoot(T& cu) {
  cu.StreamBeginCapture = [](CuStream stream, CuCaptureMode mode) {
    const CuResult result = right.StreamBeginCapture(stream, mode);
    if (result == kSuccess) right.LaunchHostFunc(stream, kNothing, nullptr);
    return result;
  };
}

void EndOfUnjoinedSucceeds(T& cu) {
  cu.StreamEndCapture = [](CuStream stream, CuGraph* graph) {
    const CuResult result = right.StreamEndCapture(stream, graph);
    return result == kStreamCaptureUnjoined ? right.GraphCreate(graph, 0) : result;
  };
}

void EndOnAnyThreadSucceeds(T& cu) {
  cu.StreamEndCapture = [](CuStream stream, CuGraph* graph) {
    const CuResult result = right.StreamEndCapture(stream, graph);
    return result == kStreamCaptureWrongThread ? right.GraphCreate(graph, 0) : result;
  };
}

template <CuResult when>
void EndLeavesTheResultAlone(T& cu) {
  cu.StreamEndCapture = [](CuStream stream, CuGraph* graph) {
    const CuGraph before = graph == nullptr ? nullptr : *graph;
    const CuResult result = right.StreamEndCapture(stream, graph);
    if (result == when) *graph = before;
    return result;
  };
}

void FailedEndKeepsTheCapture(T& cu) {
  cu.StreamEndCapture = [](CuStream stream, CuGraph* graph) {
    const CuResult result = right.StreamEndCapture(stream, graph);
    if (result == kStreamCaptureInvalidated)
      right.StreamBeginCapture(stream, CuCaptureMode::kThreadLocal);
    return result;
  };
}

void ForkOutlivesTheCapture(T& cu) {
  cu.StreamIsCapturing = [](CuStream stream, CuCaptureStatus* status) {
    const CuResult result = right.StreamIsCapturing(stream, status);
    if (result != kSuccess) return result;
    if (*status == CuCaptureStatus::kActive) notes.seen.insert(stream);
    if (notes.seen.contains(stream)) *status = CuCaptureStatus::kActive;
    return result;
  };
  cu.StreamEndCapture = [](CuStream stream, CuGraph* graph) {
    notes.seen.erase(stream);
    return right.StreamEndCapture(stream, graph);
  };
}

void OrderAfterTheCaptureIsLost(T& cu) {
  cu.StreamEndCapture = [](CuStream stream, CuGraph* graph) {
    notes.seen.insert(stream);
    return right.StreamEndCapture(stream, graph);
  };
  cu.MemcpyDtoDAsync = [](CuDeviceAddress target, CuDeviceAddress source, size_t bytes,
                          CuStream stream) {
    if (notes.seen.erase(stream) == 0) return right.MemcpyDtoDAsync(target, source, bytes, stream);
    return Aside(
        [&](CuStream other) { return right.MemcpyDtoDAsync(target, source, bytes, other); }, true);
  };
}

// What a call records.

CuResult RunAsWell(KernelLaunch launch) {
  if (Captures(launch.stream)) Aside([&](CuStream stream) { return launch.On(stream); }, true);
  return launch.Run();
}

CuResult LoseTheEdges(KernelLaunch launch) {
  if (!Captures(launch.stream)) return launch.Run();
  const CuKernelNodeParams params{.function = launch.function,
                                  .grid_x = launch.grid_x,
                                  .block_x = launch.block_x,
                                  .kernel_params = launch.params};
  CuGraphNode node = nullptr;
  return right.GraphAddKernelNode(&node, CaptureOf(launch.stream).graph, nullptr, 0, &params);
}

// The arguments are read when the capture ends.
CuResult LaunchAtTheEnd(KernelLaunch launch) {
  if (!Captures(launch.stream) || launch.params == nullptr ||
      notes.late_launches.contains(launch.stream))
    return launch.Run();
  notes.late_launches.emplace(launch.stream, launch);
  return kSuccess;
}

void KernelArgumentsAreReadAtTheEnd(T& cu) {
  ChangeLaunch<LaunchAtTheEnd>(cu);
  cu.StreamEndCapture = [](CuStream stream, CuGraph* graph) {
    if (const auto late = notes.late_launches.extract(stream)) late.mapped().Run();
    return right.StreamEndCapture(stream, graph);
  };
}

void CopiesKeepTheHostsBytes(T& cu) {
  cu.MemcpyHtoDAsync = [](CuDeviceAddress target, const void* source, size_t bytes,
                          CuStream stream) {
    if (!Captures(stream)) return right.MemcpyHtoDAsync(target, source, bytes, stream);
    const auto* const first = static_cast<const std::byte*>(source);
    notes.copies.emplace_back(first, first + bytes);
    return right.MemcpyHtoDAsync(target, notes.copies.back().data(), bytes, stream);
  };
}

void FillsRunAtOnce(T& cu) {
  cu.MemsetD8Async = [](CuDeviceAddress target, unsigned char value, size_t count,
                        CuStream stream) {
    const auto fill = [&](CuStream on) { return right.MemsetD8Async(target, value, count, on); };
    return Captures(stream) ? Aside(fill, true) : fill(stream);
  };
}

void HostFunctionsRunAtOnce(T& cu) {
  cu.LaunchHostFunc = [](CuStream stream, CuHostFunction function, void* data) {
    if (!Captures(stream)) return right.LaunchHostFunc(stream, function, data);
    function(data);
    return kSuccess;
  };
}

void RecordsBecomeNodes(T& cu) {
  cu.EventRecord = [](CuEvent event, CuStream stream) {
    CuGraphNode node = nullptr;
    if (Captures(stream)) right.GraphAddEmptyNode(&node, CaptureOf(stream).graph, nullptr, 0);
    return right.EventRecord(event, stream);
  };
}

void JoinsAreLost(T& cu) {
  cu.StreamWaitEvent = [](CuStream stream, CuEvent event, unsigned flags) {
    return Captures(stream) ? kSuccess : right.StreamWaitEvent(stream, event, flags);
  };
}

void ForksAreLost(T& cu) {
  NoteCaptures(cu);
  cu.StreamWaitEvent = [](CuStream stream, CuEvent event, unsigned flags) {
    const bool forks = !Captures(stream) && notes.captured_events.contains(event);
    return forks ? kSuccess : right.StreamWaitEvent(stream, event, flags);
  };
}

CuResult CaptureAnyStream(KernelLaunch launch) {
  if (!notes.captures.empty() && !Captures(launch.stream))
    launch.stream = notes.captures.begin()->first;
  return launch.Run();
}

CuResult RecordOnOneThread(KernelLaunch launch) {
  const auto begun = notes.captures.find(launch.stream);
  if (begun != notes.captures.end() && begun->second.thread != std::this_thread::get_id())
    return kStreamCaptureWrongThread;
  return launch.Run();
}

void AddedNodesMustBeJoined(T& cu) {
  NoteCaptures(cu);
  cu.GraphAddEmptyNode = [](CuGraphNode* node, CuGraph graph, const CuGraphNode* dependencies,
                            size_t dependency_count) {
    notes.seen.insert(graph);
    return right.GraphAddEmptyNode(node, graph, dependencies, dependency_count);
  };
  cu.StreamEndCapture = [](CuStream stream, CuGraph* graph) {
    const CuResult result = right.StreamEndCapture(stream, graph);
    if (result != kSuccess || !notes.seen.contains(*graph)) return result;
    right.GraphDestroy(*graph);
    *graph = nullptr;
    return kStreamCaptureUnjoined;
  };
}

void GraphIsClosedWhileCapturing(T& cu) {
  NoteCaptures(cu);
  cu.GraphAddEmptyNode = [](CuGraphNode* node, CuGraph graph, const CuGraphNode* dependencies,
                            size_t dependency_count) {
    for (const auto& [stream, capture] : notes.captures)
      if (CaptureOf(stream).graph == graph) return kInvalidValue;
    return right.GraphAddEmptyNode(node, graph, dependencies, dependency_count);
  };
}

// What a capture tells. Each changes one thing that the driver has answered.
template <void (*change)(uint64_t& id, CuGraph& graph, size_t& count)>
void ChangeInfo(T& cu) {
  cu.StreamGetCaptureInfo = [](CuStream stream, CuCaptureStatus* status, uint64_t* id,
                               CuGraph* graph, const CuGraphNode** nodes,
                               const CuGraphEdgeData** edges, size_t* count) {
    const CuResult result =
        right.StreamGetCaptureInfo(stream, status, id, graph, nodes, edges, count);
    uint64_t id_given = 0;
    CuGraph graph_given = nullptr;
    size_t count_given = 0;
    change(id != nullptr ? *id : id_given, graph != nullptr ? *graph : graph_given,
           count != nullptr ? *count : count_given);
    return result;
  };
}

void OneId(uint64_t& id, CuGraph& /*graph*/, size_t& /*count*/) {
  id = 1;
}
void NoGraph(uint64_t& /*id*/, CuGraph& graph, size_t& /*count*/) {
  graph = nullptr;
}
void OneNode(uint64_t& /*id*/, CuGraph& /*graph*/, size_t& count) {
  count = count > 0 ? 1 : 0;
}
void NoNodes(uint64_t& /*id*/, CuGraph& /*graph*/, size_t& count) {
  count = 0;
}

// Dependencies.

// Any of `from` is taken for `to`.
template <unsigned from, unsigned to>
CuResult UpdateByOtherFlag(CuStream stream,
                           CuGraphNode* nodes,
                           const CuGraphEdgeData* data,
                           size_t count,
                           unsigned flags) {
  return right.StreamUpdateCaptureDependencies(stream, nodes, data, count,
                                               flags == from ? to : flags);
}
CuResult UpdateByOwnNodesOnly(CuStream stream,
                              CuGraphNode* nodes,
                              const CuGraphEdgeData* data,
                              size_t count,
                              unsigned flags) {
  const CuGraph graph = CaptureOf(stream).graph;
  size_t own_count = 0;
  if (graph != nullptr) right.GraphGetNodes(graph, nullptr, &own_count);
  std::vector<CuGraphNode> own(own_count);
  if (graph != nullptr) right.GraphGetNodes(graph, own.data(), &own_count);
  const bool is_foreign = nodes != nullptr && count == 1 && graph != nullptr &&
                          std::find(own.begin(), own.end(), *nodes) == own.end();
  return is_foreign ? kSuccess
                    : right.StreamUpdateCaptureDependencies(stream, nodes, data, count, flags);
}
CuResult UpdateAllStreams(CuStream stream,
                          CuGraphNode* nodes,
                          const CuGraphEdgeData* data,
                          size_t count,
                          unsigned flags) {
  for (const auto& [origin, capture] : notes.captures)
    if (origin != stream && CaptureOf(origin).id == CaptureOf(stream).id)
      right.StreamUpdateCaptureDependencies(origin, nodes, data, count, flags);
  return right.StreamUpdateCaptureDependencies(stream, nodes, data, count, flags);
}
CuResult AddNoChildToCaptures(CuGraphNode* node,
                              CuGraph graph,
                              const CuGraphNode* dependencies,
                              size_t count,
                              CuGraph child) {
  const bool captures =
      std::any_of(notes.captures.begin(), notes.captures.end(), [graph](const auto& capture) {
        return graph != nullptr && CaptureOf(capture.first).graph == graph;
      });
  return captures ? right.GraphAddEmptyNode(node, graph, dependencies, count)
                  : right.GraphAddChildGraphNode(node, graph, dependencies, count, child);
}

}  // namespace

std::vector<Mutant> CaptureMutants() {
  return {
      {"begin_twice", "A stream that captures cannot begin a capture: 401.",
       Misreport<&T::StreamBeginCapture, kIllegalState>},
      {"begin_on_legacy_stream", "The legacy stream cannot capture: 900.",
       Misreport<&T::StreamBeginCapture, kStreamCaptureUnsupported, kInvalidHandle>},
      {"begin_in_unknown_mode", "An unknown capture mode is an invalid value.",
       [](T& cu) {
         cu.StreamBeginCapture = [](CuStream stream, CuCaptureMode mode) {
           return right.StreamBeginCapture(
               stream, mode > CuCaptureMode::kRelaxed ? CuCaptureMode::kRelaxed : mode);
         };
       }},
      {"begin_leaves_a_root", "A capture begins without nodes.", BeginLeavesARoot},
      {"end_without_begin", "A stream that does not capture cannot end a capture: 401.",
       Misreport<&T::StreamEndCapture, kIllegalState>},
      {"end_on_a_fork", "A capture ends on the stream that began it, else 903.",
       Misreport<&T::StreamEndCapture, kStreamCaptureUnmatched, kIllegalState>},
      {"end_of_unjoined", "A fork that was not joined fails the end of the capture: 904.",
       EndOfUnjoinedSucceeds},
      {"end_on_any_thread", "A capture that is not relaxed ends on its own thread: 908.",
       EndOnAnyThreadSucceeds},
      {"end_of_invalidated", "The end of an invalidated capture reports 901.",
       Misreport<&T::StreamEndCapture, kStreamCaptureInvalidated>},
      {"end_of_invalidated_keeps_the_graph", "The graph of an invalidated capture is null.",
       EndLeavesTheResultAlone<kStreamCaptureInvalidated>},
      {"end_of_unjoined_keeps_the_graph", "The graph of an unjoined capture is null.",
       EndLeavesTheResultAlone<kStreamCaptureUnjoined>},
      {"failed_end_keeps_capturing", "The end of an invalidated capture ends it.",
       FailedEndKeepsTheCapture},
      {"fork_outlives_capture", "The end of a capture frees the streams that joined it.",
       ForkOutlivesTheCapture},
      {"status_hides_invalidation", "An invalidated capture has a status of its own.",
       Then<&T::StreamIsCapturing,
            [](auto, CuCaptureStatus* status) {
              if (*status == CuCaptureStatus::kInvalidated) *status = CuCaptureStatus::kActive;
            }>},
      {"order_after_capture_is_lost",
       "Work after a capture still follows the stream's work from before it.",
       OrderAfterTheCaptureIsLost},
      {"captured_kernels_run", "Nothing runs while it is captured.", ChangeLaunch<RunAsWell>},
      {"captured_kernels_lose_edges", "A captured node depends on what the stream holds.",
       ChangeLaunch<LoseTheEdges>},
      {"captured_arguments_by_reference", "A captured kernel's arguments are copied at the call.",
       KernelArgumentsAreReadAtTheEnd},
      {"captured_copies_read_at_once", "A captured copy reads the host when it runs.",
       CopiesKeepTheHostsBytes},
      {"captured_fills_run", "A captured fill becomes a node.", FillsRunAtOnce},
      {"captured_host_functions_run", "A captured host function becomes a node.",
       HostFunctionsRunAtOnce},
      {"records_become_nodes", "Recording an event in a capture adds no node.", RecordsBecomeNodes},
      {"joins_are_lost", "Waiting inside a capture adds the event's nodes to the dependencies.",
       JoinsAreLost},
      {"forks_are_lost", "A stream that waits for a captured event joins the capture.",
       ForksAreLost},
      {"other_streams_are_captured", "Streams outside the capture run their work.",
       [](T& cu) {
         NoteCaptures(cu);
         ChangeLaunch<CaptureAnyStream>(cu);
       }},
      {"other_threads_may_not_record", "Any thread may put work into a capturing stream.",
       [](T& cu) {
         NoteCaptures(cu);
         ChangeLaunch<RecordOnOneThread>(cu);
       }},
      {"added_nodes_must_be_joined", "Nodes that are added by hand count for no join.",
       AddedNodesMustBeJoined},
      {"graph_is_closed_while_capturing", "Nodes may be added to the graph of an open capture.",
       GraphIsClosedWhileCapturing},
      {"ids_are_reused", "A capture's id is unique in the process.", ChangeInfo<OneId>},
      {"info_without_graph", "Capture information names the graph.", ChangeInfo<NoGraph>},
      {"info_keeps_one_node", "Capture information has every node that the next depends on.",
       ChangeInfo<OneNode>},
      {"info_without_nodes", "Capture information has the last node of the stream.",
       ChangeInfo<NoNodes>},
      {"dependencies_are_never_set", "What a node depends on can be replaced.",
       Change<&T::StreamUpdateCaptureDependencies,
              UpdateByOtherFlag<kSetCaptureDependencies, kAddCaptureDependencies>>},
      {"dependencies_are_never_added", "What a node depends on can be added to.",
       Change<&T::StreamUpdateCaptureDependencies,
              UpdateByOtherFlag<kAddCaptureDependencies, kSetCaptureDependencies>>},
      {"dependencies_with_flags", "An update of dependencies takes no unknown flag.",
       Change<&T::StreamUpdateCaptureDependencies,
              UpdateByOtherFlag<kSetCaptureDependencies + 1, kSetCaptureDependencies>>},
      {"dependencies_of_other_graph", "A captured node depends on nodes of its own graph.",
       Change<&T::StreamUpdateCaptureDependencies, UpdateByOwnNodesOnly>},
      {"dependencies_of_all_streams", "Every stream of a capture has dependencies of its own.",
       [](T& cu) {
         NoteCaptures(cu);
         cu.StreamUpdateCaptureDependencies = UpdateAllStreams;
       }},
      {"dependencies_without_capture", "A stream that does not capture has none: 401.",
       Misreport<&T::StreamUpdateCaptureDependencies, kIllegalState>},
      {"dependencies_after_invalidation", "An invalidated capture takes no dependencies: 901.",
       Misreport<&T::StreamUpdateCaptureDependencies, kStreamCaptureInvalidated>},
      {"child_of_a_capture_is_empty", "A child that is added to a capture runs with it.",
       [](T& cu) {
         NoteCaptures(cu);
         cu.GraphAddChildGraphNode = AddNoChildToCaptures;
       }},
  };
}

}  // namespace coppice::mutation
