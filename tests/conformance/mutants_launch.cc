// Wrong drivers: attributes of launches and functions, and the kernels of a library.

#include <vector>

#include "tests/conformance/mutation.h"

namespace coppice::mutation {
namespace {

using enum CuResult;

// The launch as `change` makes it.
template <typename ChangeConfig>
CuResult LaunchAs(const CuLaunchConfig* config,
                  CuFunction function,
                  void** params,
                  void** extra,
                  ChangeConfig change) {
  if (config == nullptr) return right.LaunchKernelEx(config, function, params, extra);
  CuLaunchConfig changed = *config;
  change(changed);
  return right.LaunchKernelEx(&changed, function, params, extra);
}

// Launches without the attributes called `id`.
template <CuLaunchAttributeId id>
CuResult LaunchWithout(const CuLaunchConfig* config,
                       CuFunction function,
                       void** params,
                       void** extra) {
  std::vector<CuLaunchAttribute> kept;
  return LaunchAs(config, function, params, extra, [&](CuLaunchConfig& changed) {
    if (changed.attributes == nullptr) return;
    for (unsigned i = 0; i < changed.attribute_count; ++i)
      if (changed.attributes[i].id != id) kept.push_back(changed.attributes[i]);
    changed.attributes = kept.data();
    changed.attribute_count = static_cast<unsigned>(kept.size());
  });
}

CuResult LaunchFlat(const CuLaunchConfig* config,
                    CuFunction function,
                    void** params,
                    void** extra) {
  return LaunchAs(config, function, params, extra, [](CuLaunchConfig& changed) {
    if (changed.grid_z > 1 && changed.grid_z < 65536) changed.grid_z = 1;
  });
}

// Gives every function leave for all shared memory that there is.
CuResult LaunchWithLeave(const CuLaunchConfig* config,
                         CuFunction function,
                         void** params,
                         void** extra) {
  int limit = 0;
  right.DeviceGetAttribute(&limit, CuDeviceAttribute::kMaxSharedMemoryPerBlockOptin, 0);
  Relaxed([&] {
    return right.FuncSetAttribute(function, CuFunctionAttribute::kMaxDynamicSharedBytes, limit);
  });
  return right.LaunchKernelEx(config, function, params, extra);
}

CuResult LaunchWithoutList(const CuLaunchConfig* config,
                           CuFunction function,
                           void** params,
                           void** extra) {
  return LaunchAs(config, function, params, extra, [](CuLaunchConfig& changed) {
    if (changed.attributes == nullptr) changed.attribute_count = 0;
  });
}

CuResult LaunchExtraEx(const CuLaunchConfig* config,
                       CuFunction function,
                       void** params,
                       void** extra) {
  return right.LaunchKernelEx(config, function, params, params != nullptr ? nullptr : extra);
}

// What `graph` has, whether or not the caller has room for the data of its edges.
CuResult GetEdgesLossily(
    CuGraph graph, CuGraphNode* from, CuGraphNode* to, CuGraphEdgeData* data, size_t* count) {
  if (graph == nullptr || count == nullptr || from == nullptr || to == nullptr || data != nullptr)
    return right.GraphGetEdges(graph, from, to, data, count);
  std::vector<CuGraphEdgeData> spare(*count);
  return right.GraphGetEdges(graph, from, to, spare.data(), count);
}

CuResult CountOneLess(unsigned* count, CuLibrary library) {
  const CuResult result = right.LibraryGetKernelCount(count, library);
  if (result == kSuccess) --*count;
  return result;
}

}  // namespace

std::vector<Mutant> LaunchMutants() {
  using Id = CuLaunchAttributeId;
  return {
      {"cooperative_is_ignored", "A cooperative grid has to fit: 720.",
       Change<&T::LaunchKernelEx, LaunchWithout<Id::kCooperative>>},
      {"cluster_is_ignored", "Clusters divide the grid.",
       Change<&T::LaunchKernelEx, LaunchWithout<Id::kClusterDimension>>},
      {"programmatic_is_ignored", "A captured programmatic launch has a programmatic edge.",
       Change<&T::LaunchKernelEx, LaunchWithout<Id::kProgrammaticStreamSerialization>>},
      {"flat_grid", "A grid has blocks one behind the other.",
       Change<&T::LaunchKernelEx, LaunchFlat>},
      {"shared_memory_without_leave", "Shared memory beyond the default needs a leave.",
       Change<&T::LaunchKernelEx, LaunchWithLeave>},
      {"attributes_without_list", "Attributes that are counted are there: 1.",
       Change<&T::LaunchKernelEx, LaunchWithoutList>},
      {"attributes_and_arguments_in_two_ways", "A launch with attributes takes arguments one way.",
       Change<&T::LaunchKernelEx, LaunchExtraEx>},
      {"leave_without_limit", "A leave ends at the device's limit.",
       Misreport<&T::FuncSetAttribute, kInvalidValue>},
      {"attribute_of_any_node", "Only kernel nodes have attributes.",
       Misreport<&T::GraphKernelNodeGetAttribute, kInvalidValue>},
      {"attribute_is_not_set", "A node has the attribute that it was given.",
       Skip<&T::GraphKernelNodeSetAttribute>},
      {"attribute_set_of_any_node", "Only kernel nodes can be given attributes.",
       Misreport<&T::GraphKernelNodeSetAttribute, kInvalidValue>},
      {"map_of_anything", "A tensor map has limits.",
       Misreport<&T::TensorMapEncodeTiled, kInvalidValue>},
      {"map_is_not_written", "A tensor map is of its tensor.", Skip<&T::TensorMapEncodeTiled>},
      {"edges_lose_data", "Edges with data cannot be asked for without.",
       Change<&T::GraphGetEdges, GetEdgesLossily>},
      {"kernels_beyond_the_room", "A library lists as many kernels as there is room for.",
       Pass<&T::LibraryEnumerateKernels, 1, [](unsigned capacity) { return capacity + 1; }>},
      {"kernel_is_not_counted", "A library counts all its kernels.",
       Change<&T::LibraryGetKernelCount, CountOneLess>},
  };
}

}  // namespace coppice::mutation
