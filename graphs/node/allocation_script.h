// The allocation script of a program at one bucket: what a run allocates, frees and puts out, in
// order. Private to graphs/.
//
// A warm-up writes the script; the script becomes lifetimes, the lifetimes a plan; the recording
// answers the same requests, in the same order, from the plan.
//
// An output may be an alias of an input. If the run stages that input, the output is a copy of it,
// else it needs no memory: what a run requests depends on its layout, and the script on none.
//
// Units: bytes. Threads: plain values.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "coppice/allocator/plan.h"

#include "graphs/node/input_layout.h"
#include "graphs/node/region.h"
#include "graphs/node/surroundings.h"
#include "graphs/program/program.h"

namespace coppice::internal {

struct ScriptEvent {
  enum class Kind : uint8_t { kAllocate, kOutput, kAlias, kFree, kFreeInput, kBreak };
  Kind kind = Kind::kAllocate;
  int buffer = 0;       // Index in order of allocation; unused for kFreeInput and kBreak.
  int output = -1;      // For kOutput and kAlias.
  int input = -1;       // For kAlias and kFreeInput: of the spec.
  int64_t bytes = 0;    // Rounded up to kBufferAlignment; 0 for what allocates nothing.
  std::string label{};  // Of kAllocate: what the program calls the bytes.
};

// Bytes of the window that hold something at the start, up to an event of the script.
struct Donation {
  Region region;
  int64_t until = 0;  // The event; one behind the last: to the end.
};

struct AllocationScript {
  std::vector<ScriptEvent> events;
  int buffer_count = 0;
  std::vector<Donation> donations;
};

// The requests of a run with this layout: aliases of what it stages are outputs like others, the
// rest is left out. Aliases are the last to be noted, so that other buffers keep their index.
AllocationScript ScriptOf(const AllocationScript& warmed, const InputLayout& layout);

// The event of `script` before which the run reads its input `input` for the last time; one behind
// its last if it is never freed, or `warmed` makes an output of it that keeps its bytes.
int64_t LastReadOf(const AllocationScript& warmed, const AllocationScript& script, int input);

// What inputs in place have of each donated region, in whole units of kBufferAlignment, until the
// script frees the last of them. Padding behind them is nobody's, and no kernel touches it.
// `in_place` has their offsets per copied input, or -1; `warmed` the aliases that keep theirs.
std::vector<Donation> DonationsOf(const AllocationScript& warmed,
                                  const AllocationScript& script,
                                  const Program& program,
                                  const InputLayout& layout,
                                  const Surroundings& surroundings);

// Appends donations, fixed where they are.
void AppendDonations(const std::vector<Donation>& donations, std::vector<Buffer>& buffers);

// What people call each buffer of a script: its label, or the name of the output that it is.
std::vector<std::string> LabelsOf(const AllocationScript& script, const ProgramSpec& spec);

// The buffers of a script without aliases, then its donations, with lifetimes in units of
// its events: right where the graph is a chain, because a buffer's kernels are launched between its
// allocation and its release.
std::vector<Buffer> BuffersOf(const AllocationScript& script);

// Buffers of a recording, what people call them, and where they lie.
struct PlannedBuffers {
  std::span<const Buffer> buffers;      // As they were planned, donations last.
  std::span<const std::string> labels;  // As LabelsOf; donations have none.
  const Plan& plan;
  DeviceAddress base = 0;  // Of the window that offsets count in.
};

// Of each buffer which output lies in it and lives to its end; -1 if none does.
std::vector<int> OutputsIn(const OutputTable& outputs, const PlannedBuffers& planned);

}  // namespace coppice::internal
