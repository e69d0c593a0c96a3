// Work: what one stream operation or graph node does.
//
// Threads: plain values.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "coppice/runtime/cuda_abi.h"

#include "runtime/emulator/access_order.h"
#include "runtime/emulator/kernel_code.h"
#include "runtime/emulator/ptx/launch.h"

namespace coppice::emulator {

// What a launch may say beside its sizes; a graph node keeps it.
struct LaunchAttributes {
  bool cooperative = false;
  bool programmatic = false;  // Whether the edges from kernels that it depends on are programmatic.
  std::array<unsigned, 3> cluster = {0, 0, 0};  // Blocks; zeros: none was asked for.
};

struct KernelWork {
  KernelCode kernel;
  CuFunction function = nullptr;  // As it was launched.
  CuLibrary library = nullptr;
  std::array<unsigned, 3> grid = {1, 1, 1};
  std::array<unsigned, 3> block = {1, 1, 1};
  unsigned shared_bytes = 0;  // Dynamic.
  LaunchAttributes attributes;
  std::vector<std::byte> parameters;
  // What the launch may access; empty: all that is mapped.
  std::vector<ptx::ArgumentRange> bounds;
  // The step of a program that launches it; empty and -1: nobody said so.
  std::string program;
  int step = -1;
};

struct CopyWork {
  void* target = nullptr;
  const void* source = nullptr;
  size_t bytes = 0;
  bool to_host = false;
  bool from_host = false;
};

struct FillWork {
  void* target = nullptr;
  unsigned value = 0;
  unsigned element_size = 1;  // 1, 2 or 4.
  size_t count = 0;           // Elements.
};

struct HostWork {
  CuHostFunction function = nullptr;
  void* user_data = nullptr;
};

struct EmptyWork {};

// Gives memory back, in the order of the stream. No graph has it.
struct ReleaseWork {
  CuDeviceAddress address = 0;
};

struct GraphNode;

// A child graph: a copy of the nodes it had when it was added.
struct ChildWork {
  std::vector<GraphNode> nodes;
};

using Work =
    std::variant<KernelWork, CopyWork, FillWork, HostWork, EmptyWork, ChildWork, ReleaseWork>;

// A node depends on earlier nodes of its graph only, so that graphs have no cycles.
struct GraphNode {
  Work work;
  std::vector<int> dependencies;  // Indices, in the order given.
};

// True if the edge from a node that does `earlier` to one that does `later` lets the later one
// start before the earlier has ended.
bool IsProgrammatic(const Work& earlier, const Work& later);

// Bytes that a piece of work reads or writes.
struct TouchedBytes {
  ByteRange bytes;        // Addresses.
  const char* name = "";  // Of the kernel, or "memcpy" or "memset".
  bool writes = false;
  bool host = false;  // Host memory.
};

// Work that will run, and what it touches.
struct Task {
  explicit Task(Work its_work);

  // Whether all it touches is in `touched`, or will be known once it has run.
  bool is_declared() const;

  Work work;
  std::vector<TouchedBytes> touched;
};

// A sum of what a copy reads; 0 if it cannot be read, which the copy itself will find out.
uint64_t SumOfSource(const CopyWork& copy);

}  // namespace coppice::emulator
