// What the counterparts of PyTorch's tests share: one session, programs of one kernel over tensors
// of kCount floats, and an account at the end. Each such tensor is one unit of the pool's
// alignment, so that plans and live bytes can be counted in outputs.
//
// After every test the session gives up all graphs, and neither nodes nor live bytes nor handles of
// the driver may be left; a TestDevice then checks the rest. A test's leases go before that,
// because they are local to it.
//
// Threads: one test at a time.

#pragma once

#include <initializer_list>

#include "tests/graphs/session_fixture.h"

namespace coppice {

// What a call has beside its program and inputs.
struct RestOfCall {
  const Binding* binding = nullptr;
  std::vector<int64_t> scalars{};
  CuStream stream = nullptr;  // Null: the device's.
  OutputMode output_mode = OutputMode::kBorrow;
  std::vector<Tensor> targets{};
};

class TorchFixture : public SessionFixture {
 protected:
  static constexpr int64_t kCount = 64;
  static_assert(kCount * static_cast<int64_t>(sizeof(float)) == kBufferAlignment);

  using Floats = std::vector<float>;

  TorchFixture()
      : SessionFixture(DriverLedger::Options{.trace = true}),
        side_(*Stream::Create(device_.driver())) {
    Open();
  }

  void TearDown() override {
    if (session_ == nullptr) return;
    session_->WaitForRecordings();
    EXPECT_OK(session_->Evict(nullptr));
    EXPECT_TRUE(Recorded().empty()) << "nodes are left though nobody holds a lease";
    EXPECT_EQ(session_->memory().usage().eager_live, 0) << "live bytes without a lease";
    Close();
  }

  // Makes the test's session anew; its log goes to `lines_`.
  void Open(SessionOptions options = {}) {
    if (session_ != nullptr) Close();
    options.log = [this](const std::string& line) { lines_.push_back(line); };
    session_ = MakeSession(options);
  }

  // Ends the session, after which nothing of it may be left on the device.
  void Close() {
    session_.reset();
    const Emulator::Live live = device_.emulator().live();
    EXPECT_EQ(live.handles, 0);
    EXPECT_EQ(live.mapped_bytes, 0);
    EXPECT_EQ(live.graphs, 0);
    EXPECT_EQ(live.execs, 0);
    EXPECT_EQ(live.captures, 0);
  }

  // A program of the inputs "x", "x1", ... that pads by `policy`, and one output "y" like them.
  static ProgramSpec SpecOf(std::string name,
                            int inputs = 1,
                            PaddingPolicy policy = *PaddingPolicy::Exact(kCount)) {
    const std::optional<PaddingContents> claim =
        policy.is_exact() ? std::nullopt : std::optional(PaddingContents::kRowIndependent);
    ProgramSpec spec{.name = std::move(name), .claim = claim};
    const int n = spec.AddSymbol("n", std::move(policy));
    for (int i = 0; i < inputs; ++i) {
      spec.inputs.push_back(
          {.name = i == 0 ? "x" : fmt::format("x{}", i), .dims = {Dim::Symbol(n)}});
    }
    spec.outputs = {{.name = "y", .dims = {Dim::Symbol(n)}}};
    return spec;
  }

  // The same with a static input "w" of kCount floats behind the others.
  static ProgramSpec WeightedSpec(std::string name) {
    ProgramSpec spec = SpecOf(std::move(name));
    spec.inputs.push_back({.name = "w", .dims = {Dim::Fixed(kCount)}, .role = InputRole::kStatic});
    return spec;
  }

  const Program* Add(ProgramSpec spec, Callable callable) {
    const absl::StatusOr<const Program*> program =
        session_->Register(std::move(spec), std::move(callable));
    EXPECT_OK(program);
    return program.ok() ? *program : nullptr;
  }

  // y = factor * x; counts its runs in `runs_`.
  const Program* AddScale(const std::string& name, float factor) {
    return Add(SpecOf(name), [this, name, factor](CallContext& context) -> absl::Status {
      ++runs_[name];
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
      return Scale(context, context.input(0).data, y.data, factor);
    });
  }

  // y = x + w; counts its runs in `runs_`.
  const Program* AddWeighted(const std::string& name) {
    return Add(WeightedSpec(name), [this, name](CallContext& context) -> absl::Status {
      ++runs_[name];
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
      return AddOnto(context, context.input(0).data, context.input(1).data, y.data,
                     context.extent(0));
    });
  }

  // target = factor * source on the context's stream, over the extent of its first symbol.
  absl::Status Scale(CallContext& context,
                     DeviceAddress source,
                     DeviceAddress target,
                     float factor,
                     CuStream stream = nullptr) const {
    return ScaleOn(stream == nullptr ? context.stream() : stream, source, target, factor,
                   context.extent(0));
  }
  absl::Status ScaleOn(CuStream stream,
                       DeviceAddress source,
                       DeviceAddress target,
                       float factor,
                       int64_t count = kCount) const {
    return Launch(device_.driver(), kernels_.scale, stream,
                  ScaleParams{.x = PointerAt<float>(source),
                              .y = PointerAt<float>(target),
                              .count = count,
                              .factor = factor},
                  GridFor(count));
  }

  static Floats Constant(float value, int64_t count = kCount) {
    return Floats(static_cast<size_t>(count), value);
  }

  // A tensor of the caller's own with these values, in memory kept until the test ends.
  Tensor Upload(const Floats& values) {
    uploads_.push_back(*device_.Upload(values));
    return FloatsAt(uploads_.back().address(), std::ssize(values));
  }
  Tensor Upload(float value) { return Upload(Constant(value)); }

  static Tensor FloatsAt(DeviceAddress address, int64_t count = kCount) {
    return coppice::FloatsAt(address, count);
  }

  const Binding* Bind(const Program* program, const std::vector<Tensor>& statics) {
    const absl::StatusOr<const Binding*> binding = session_->Bind(*program, statics);
    EXPECT_OK(binding);
    return binding.ok() ? *binding : nullptr;
  }

  coppice::Call CallOf(const Program* program,
                       const std::vector<Tensor>& inputs,
                       const RestOfCall& rest) const {
    return {.program = program,
            .binding = rest.binding,
            .inputs = inputs,
            .scalars = rest.scalars,
            .stream = rest.stream == nullptr ? device_.stream() : rest.stream,
            .output_mode = rest.output_mode,
            .targets = rest.targets};
  }

  absl::StatusOr<Lease> TryRun(const Program* program,
                               const std::vector<Tensor>& inputs,
                               const RestOfCall& rest = {}) {
    return session_->Run(CallOf(program, inputs, rest));
  }

  // The lease of a call that has to succeed.
  Lease Run(const Program* program,
            const std::vector<Tensor>& inputs,
            const RestOfCall& rest = {}) {
    absl::StatusOr<Lease> lease = TryRun(program, inputs, rest);
    EXPECT_OK(lease);
    return lease.ok() ? *std::move(lease) : Lease();
  }

  // The paths of `count` such calls whose leases are dropped at once.
  std::vector<RunKind> Paths(int count,
                             const Program* program,
                             const std::vector<Tensor>& inputs,
                             const RestOfCall& rest = {}) {
    std::vector<RunKind> paths;
    for (int i = 0; i < count; ++i)
      paths.push_back(Run(program, inputs, rest).kind());
    return paths;
  }

  // An output as it is handed on to another call; needs its lease, no scope.
  Tensor At(const Lease& lease, int output = 0) {
    const absl::StatusOr<ReadScope> scope = lease.Read(device_.stream());
    EXPECT_OK(scope);
    return scope.ok() ? scope->output(output) : Tensor{};
  }

  // The elements of a dense output.
  template <typename T = float>
  std::vector<T> ValuesOf(const Lease& lease, int output = 0) {
    const absl::StatusOr<ReadScope> scope = lease.Read(device_.stream());
    EXPECT_OK(scope);
    if (!scope.ok()) return {};
    const Tensor tensor = scope->output(output);
    return device_.Download<T>(tensor.data, tensor.element_count());
  }

  bool Readable(const Lease& lease) { return lease.Read(device_.stream()).ok(); }

  // How many of these leases can be read.
  int Live(std::initializer_list<const Lease*> leases) {
    int live = 0;
    for (const Lease* lease : leases)
      live += Readable(*lease) ? 1 : 0;
    return live;
  }

  // Outputs that live in the eager window, in units of kCount floats.
  int64_t LiveEager() const { return session_->memory().usage().eager_live / kBufferAlignment; }

  std::vector<NodeInfo> Recorded() const {
    std::vector<NodeInfo> recorded;
    for (NodeInfo& node : session_->nodes()) {
      if (node.recorded) recorded.push_back(std::move(node));
    }
    return recorded;
  }

  // For each recorded graph of the program, how many outputs of kCount floats it was planned
  // around, in order of creation.
  std::vector<int64_t> AroundOf(const std::string& program) const {
    std::vector<int64_t> around;
    for (const NodeInfo& node : Recorded()) {
      if (node.program == program) around.push_back(node.around_bytes / kBufferAlignment);
    }
    return around;
  }

  int64_t Count(Reason reason) const {
    return session_->stats().reasons[static_cast<size_t>(reason)];
  }
  int64_t Count(RunKind path) const { return session_->stats().runs[static_cast<size_t>(path)]; }

  // Log lines that contain all of `parts`.
  int Lines(std::initializer_list<std::string> parts) const {
    int count = 0;
    for (const std::string& line : lines_) {
      bool has_all = true;
      for (const std::string& part : parts)
        has_all &= line.find(part) != std::string::npos;
      count += has_all ? 1 : 0;
    }
    return count;
  }

  Stream side_;  // Lives longer than the session, as a stream given to a lane must.
  std::unique_ptr<Session> session_;
  std::vector<std::string> lines_;
  std::map<std::string, int> runs_;
};

}  // namespace coppice
