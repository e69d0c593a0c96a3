// What tests of lifetimes share: programs of several outputs of 1 KiB each, on the emulator.
//
//   forward    output i is i + 1 times the input
//   backward   output i is twice input i, which is freed as soon as it was read
//
// Threads: one test at a time.

#pragma once

#include "tests/graphs/session_fixture.h"

namespace coppice {

inline constexpr int64_t kTensorElements = 256;  // Of every tensor: 1 KiB.
inline constexpr int64_t kTensorBytes = kTensorElements * static_cast<int64_t>(sizeof(float));

class LifetimesTest : public SessionFixture {
 protected:
  static ProgramSpec SpecOf(std::string name, int inputs, int outputs) {
    ProgramSpec spec{.name = std::move(name), .claim = std::nullopt, .one_stream = true};
    for (int i = 0; i < inputs; ++i)
      spec.inputs.push_back({.name = fmt::format("x{}", i), .dims = {Dim::Fixed(kTensorElements)}});
    for (int i = 0; i < outputs; ++i)
      spec.outputs.push_back(
          {.name = fmt::format("y{}", i), .dims = {Dim::Fixed(kTensorElements)}});
    return spec;
  }

  // Output i is i + 1 times the input; the last has this role.
  const Program* AddForward(Session& session, int outputs, OutputRole last = OutputRole::kPool) {
    ProgramSpec spec = SpecOf("forward", 1, outputs);
    spec.outputs.back().role = last;
    return *session.Register(
        std::move(spec), [this, outputs](CallContext& context) -> absl::Status {
          for (int i = 0; i < outputs; ++i) {
            COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(i));
            COPPICE_RETURN_IF_ERROR(
                Scale(context, context.input(0).data, y.data, static_cast<float>(i + 1)));
          }
          return absl::OkStatus();
        });
  }

  // Output i is twice input i, which is freed as soon as it was read.
  const Program* AddBackward(Session& session, int count) {
    return *session.Register(
        SpecOf("backward", count, count), [this, count](CallContext& context) -> absl::Status {
          for (int i = 0; i < count; ++i) {
            const DeviceAddress x = context.input(i).data;
            COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(i));
            COPPICE_RETURN_IF_ERROR(Scale(context, x, y.data, 2));
            COPPICE_RETURN_IF_ERROR(context.Free(x));
          }
          return absl::OkStatus();
        });
  }

  absl::Status Scale(CallContext& context, DeviceAddress x, DeviceAddress y, float factor) const {
    return LaunchScale(context, x, y, kTensorElements, factor);
  }

  Tensor Upload(float value) {
    uploads_.push_back(*device_.Upload(std::vector<float>(kTensorElements, value)));
    return FloatsAt(uploads_.back().address(), kTensorElements);
  }
  coppice::Call CallOf(const Program* program, std::span<const Tensor> inputs) const {
    return {.program = program, .inputs = inputs, .stream = device_.stream()};
  }

  // Output `index` of a lease, as a tensor to pass on.
  Tensor OutputOf(const Lease& lease, int index) const {
    absl::StatusOr<ReadScope> scope = lease.Read(device_.stream());
    EXPECT_OK(scope);
    return scope.ok() ? scope->output(index) : Tensor();
  }
  std::vector<Tensor> OutputsOf(const std::vector<Lease>& parts) const {
    std::vector<Tensor> tensors;
    for (const Lease& part : parts)
      tensors.push_back(OutputOf(part, part.part()));
    return tensors;
  }
  void ExpectValues(const Lease& lease, int index, float value) {
    const Tensor tensor = OutputOf(lease, index);
    EXPECT_EQ(device_.Download<float>(tensor.data, kTensorElements),
              std::vector<float>(kTensorElements, value))
        << "output " << index;
  }

  // The last graph of the program.
  static NodeInfo NodeOf(const Session& session, const std::string& program) {
    NodeInfo found;
    for (const NodeInfo& node : session.nodes())
      if (node.program == program && node.recorded) found = node;
    return found;
  }

  // Runs the program until it replays, and returns that call's lease.
  Lease Replayed(Session& session, const coppice::Call& call) {
    for (int i = 0; i < 2; ++i)
      EXPECT_OK(session.Run(call));
    absl::StatusOr<Lease> lease = session.Run(call);
    EXPECT_OK(lease);
    EXPECT_EQ(lease->kind(), RunKind::kReplay);
    return *std::move(lease);
  }

  std::unique_ptr<Session> session_ = MakeSession();
};

}  // namespace coppice
