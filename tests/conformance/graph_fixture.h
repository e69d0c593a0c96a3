// What the suites about graphs share: nodes of every type, added one line each.
//
// Units: bytes. Threads: the test's own.

#pragma once

#include "tests/conformance/virtual_memory_fixture.h"

namespace coppice {

using Nodes = std::vector<CuGraphNode>;

class GraphTest : public VirtualMemoryTest {
 protected:
  template <typename Params>
  CuGraphNode AddKernel(CuGraph graph, const Nodes& after, const char* name, Params params) {
    void* arguments[] = {&params};
    const CuKernelNodeParams node_params{
        .function = Function(name), .block_x = kTestThreads, .kernel_params = arguments};
    CuGraphNode node = nullptr;
    EXPECT_CU(kSuccess,
              cu.GraphAddKernelNode(&node, graph, after.data(), after.size(), &node_params));
    return node;
  }

  // A node that stores `value` at `address`.
  CuGraphNode AddStore(CuGraph graph, const Nodes& after, DeviceAddress address, int64_t value) {
    return AddKernel(graph, after, "Store",
                     StoreParams{.target = PointerAt<int64_t>(address), .value = value});
  }

  // A node that copies the word at `source` to `target`.
  CuGraphNode AddMove(CuGraph graph,
                      const Nodes& after,
                      DeviceAddress target,
                      DeviceAddress source) {
    const CuMemcpyParams params{
        .source_device = source, .target_device = target, .width_bytes = sizeof(int64_t)};
    CuGraphNode node = nullptr;
    EXPECT_CU(kSuccess,
              cu.GraphAddMemcpyNode(&node, graph, after.data(), after.size(), &params, context));
    return node;
  }

  CuGraphNode AddEmpty(CuGraph graph, const Nodes& after) {
    CuGraphNode node = nullptr;
    EXPECT_CU(kSuccess, cu.GraphAddEmptyNode(&node, graph, after.data(), after.size()));
    return node;
  }

  CuGraphNode AddChild(CuGraph graph, const Nodes& after, CuGraph child) {
    CuGraphNode node = nullptr;
    EXPECT_CU(kSuccess, cu.GraphAddChildGraphNode(&node, graph, after.data(), after.size(), child));
    return node;
  }

  CuGraphNode AddHost(CuGraph graph, const Nodes& after, CuHostFunction function, void* data) {
    const CuHostNodeParams params{.function = function, .user_data = data};
    CuGraphNode node = nullptr;
    EXPECT_CU(kSuccess, cu.GraphAddHostNode(&node, graph, after.data(), after.size(), &params));
    return node;
  }

  // A node that writes the byte `value` to `bytes` bytes at `target`.
  CuGraphNode AddFill(
      CuGraph graph, const Nodes& after, DeviceAddress target, unsigned value, size_t bytes) {
    const CuMemsetNodeParams params{.target = target, .value = value, .width = bytes};
    CuGraphNode node = nullptr;
    EXPECT_CU(kSuccess,
              cu.GraphAddMemsetNode(&node, graph, after.data(), after.size(), &params, context));
    return node;
  }
};

}  // namespace coppice
