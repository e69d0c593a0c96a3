// Programs whose steps are known without running them. Private to graphs/.
//
// A callable is traced by running it. A source tells what it is about to do: it makes the same
// requests for memory, through the same context, but hands its launches to a sink, with the bytes
// that each touches. What is behind the sink decides what becomes of them:
//
//   nothing      the requests alone: the allocation script, so that no warm-up is needed
//   a stream     an eager run
//   a graph      a recording, node by node, with the edges that the touched bytes ask for
//
// Units: bytes. Threads: one run per sink and context; a source may be run by several at once.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

#include "coppice/graphs/program.h"
#include "coppice/runtime/driver.h"
#include "coppice/runtime/launch.h"
#include "coppice/runtime/package.h"

#include "graphs/program/variant_choices.h"

namespace coppice::internal {

// Bytes that a step reads, or writes and perhaps reads.
struct Touch {
  DeviceAddress begin = 0;
  int64_t bytes = 0;
  bool writes = false;
};

struct KernelLaunch {
  Kernel kernel;
  LaunchShape shape;           // No dimension of the grid is 0.
  ArgumentPointers arguments;  // Valid during the call, as is
  // where their values lie, with zeros between them: equal launches have equal bytes.
  std::span<const std::byte> bytes;
  int choice = -1;  // Index of the kernel among VariantChoices::kernels; -1: not there.
};

struct MemoryFill {
  DeviceAddress target = 0;
  uint32_t value = 0;
  int32_t width = 1;  // Bytes of an element: 1 or 4.
  int64_t count = 0;  // Elements, at least 1.
  friend bool operator==(const MemoryFill&, const MemoryFill&) = default;
};

struct MemoryCopy {
  DeviceAddress target = 0;
  DeviceAddress source = 0;
  int64_t bytes = 0;  // At least 1.
  friend bool operator==(const MemoryCopy&, const MemoryCopy&) = default;
};

// Work of a library: launches on the stream, which may capture, and nowhere else.
struct LibraryWork {
  absl::Status operator()(CuStream stream) const { return run(stream); }

  absl::FunctionRef<absl::Status(CuStream stream)> run;
  bool may_be_nothing = false;  // One of its tensors has no elements.
};

// Where steps go, in an order in which they may run. Each says all bytes that it shares with
// another step; constants, staged inputs that nobody writes and the parameter block need no saying.
class StepSink {
 public:
  virtual ~StepSink() = default;
  // Whether it looks at no step, so that a source may leave out to say them, but no request.
  virtual bool drops() const { return false; }
  virtual absl::Status Launch(const KernelLaunch& launch, std::span<const Touch> touched) = 0;
  virtual absl::Status Fill(const MemoryFill& fill, std::span<const Touch> touched) = 0;
  virtual absl::Status Copy(const MemoryCopy& copy, std::span<const Touch> touched) = 0;
  virtual absl::Status Work(LibraryWork work, std::span<const Touch> touched) = 0;
};

class StepSource {
 public:
  virtual ~StepSource() = default;

  // Makes the requests of a run at the context's extents, and hands its steps to `sink`. Equal
  // extents and scalars give equal requests and steps, once variants are chosen for them. Looks at
  // no address but to pass it on. Errors: kInvalidArgument arithmetic of the program without a
  // value there; the context's and the sink's.
  virtual absl::Status Run(CallContext& context, StepSink& sink) const = 0;
  // The same with these variants of kernels.
  virtual absl::Status RunWith(const VariantChoice& choice,
                               CallContext& context,
                               StepSink& sink) const = 0;

  // Hands a copy that is none of the steps to `sink`, as it hands theirs.
  virtual absl::Status Copy(const MemoryCopy& copy, StepSink& sink) const = 0;

  // A text that sources share only if they are the same program, in every process. Allocates.
  virtual std::string Identity() const = 0;
  // Where it comes from.
  struct Origin {
    const package::Package& package;
    std::string_view program;  // Its name there.
  };
  virtual Origin origin() const = 0;
  // Which variants of its kernels it launches.
  virtual VariantChoices& variants() const = 0;
};

}  // namespace coppice::internal
