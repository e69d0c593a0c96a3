// A session whose driver and whose host memory may fail at any call, and its onlooker, for whom
// neither ever does.
//
// The session's driver is the ledger, where faults are injected, inside a table that stops counting
// host allocations: the emulator stands for a driver, and a driver keeps its own memory. Inputs are
// uploaded beforehand and outputs read from the emulator directly, so that only what the session
// and its program do can fail.
//
// Every session call is checked: outputs that come out are right, and once a call has returned a
// sticky error every later one returns the same.
//
// Threads: one.

#pragma once

#include <new>

#include "coppice/runtime/loaded_package.h"

#include "tests/graphs/session_fixture.h"
#include "tests/package/small_kernels.h"
#include "tests/support/host_allocations.h"

namespace coppice {

// A driver's entries with host allocations uncounted.
class UncountedTable {
 public:
  static DriverTable Around(const DriverTable& table) {
    inner_ = table;
    DriverTable wrapped;
#define X(member, version, parameters) wrapped.member = &Entry<&DriverTable::member>::Call;
#include "coppice/runtime/driver_entries.inc"
#undef X
    return wrapped;
  }

 private:
  template <auto kMember>
  struct Entry;
  template <typename... Args, CuResult (*DriverTable::*kMember)(Args...)>
  struct Entry<kMember> {
    static CuResult Call(Args... args) {
      const CountingScope uncounted(false);
      return (inner_.*kMember)(args...);
    }
  };

  static inline DriverTable inner_;
};

class FailingWorld : private AffineDevice {
 public:
  static constexpr int64_t kOverLargest = kLargest + 36;

  FailingWorld()
      : driver_(UncountedTable::Around(device_.driver().table()), DriverKind::kEmulator),
        context_(*Context::Create(driver_)),
        side_(*Stream::Create(device_.driver())),
        fork_(*Event::Create(device_.driver())),
        join_(*Event::Create(device_.driver())),
        scratch_(*device_.Upload(std::vector<float>{0})) {
    for (const int64_t n : {int64_t{5}, int64_t{8}, int64_t{20}, int64_t{32}, kOverLargest})
      inputs_.emplace_back(n, *device_.Upload(Ramp(n)));
  }

  DriverLedger& ledger() { return device_.ledger(); }
  Emulator& emulator() { return device_.emulator(); }
  CuStream main_stream() const { return device_.stream(); }
  CuStream side_stream() const { return side_.handle(); }

  // Affine with a temporary of `n` times 256 KiB, so that windows grow with the bucket.
  Callable GrowingCallable() const {
    return AffineCallable([](CallContext& context) -> absl::Status {
      constexpr int64_t kBytesPerElement = int64_t{256} << 10;
      COPPICE_ASSIGN_OR_RETURN(const DeviceAddress large,
                               context.Allocate(context.extent(0) * kBytesPerElement));
      return context.Free(large);
    });
  }

  // Affine that fills one temporary on the side stream while it fills another on its own. Like any
  // callable, it leaves no work unjoined when it fails.
  Callable ForkingCallable() {
    return AffineCallable([this](CallContext& context) -> absl::Status {
      COPPICE_ASSIGN_OR_RETURN(const DeviceAddress forked, context.Allocate(sizeof(float)));
      COPPICE_ASSIGN_OR_RETURN(const DeviceAddress beside, context.Allocate(sizeof(float)));
      COPPICE_RETURN_IF_ERROR(Order(context, fork_, context.stream(), side_stream()));
      absl::Status status = Fill(context, side_stream(), forked);
      if (status.ok()) status = Fill(context, context.stream(), beside);
      if (status.ok()) status = Order(context, join_, side_stream(), context.stream());
      if (!status.ok() && context.phase() != Phase::kRecord) SynchronizeRaw(side_stream());
      COPPICE_RETURN_IF_ERROR(status);
      COPPICE_RETURN_IF_ERROR(context.Free(forked));
      return context.Free(beside);
    });
  }

  // Makes the session, registers affine and binds it. With `callable`, affine runs that.
  absl::Status Open(const SessionOptions& options = {}, Callable callable = nullptr) {
    if (!callable) callable = AffineCallable();
    poison_ = absl::OkStatus();
    return Attempt([&]() -> absl::Status {
      COPPICE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                               Session::Create(context_, options));
      ProgramSpec spec = AffineSpec();
      spec.symbols[0].observe_half_life = 1000;
      COPPICE_ASSIGN_OR_RETURN(program_, session->Register(std::move(spec), std::move(callable)));
      COPPICE_ASSIGN_OR_RETURN(binding_,
                               session->Bind(*program_, AffineStatics(counter_.address())));
      COPPICE_ASSIGN_OR_RETURN(scratch_binding_,
                               session->Bind(*program_, AffineStatics(scratch_.address())));
      session_ = std::move(session);
      return absl::OkStatus();
    });
  }

  // The same with a program of a package that gives what affine gives, without statics and scalars,
  // and replays at the sizes of calls.
  absl::Status OpenExact() {
    poison_ = absl::OkStatus();
    package::PackageBuilder builder = package::SmallKernels();
    builder.manifest["programs"]["main"] = DiamondProgram("1");
    zip_ = builder.Zip();
    return Attempt([&]() -> absl::Status {
      COPPICE_ASSIGN_OR_RETURN(
          package::Package opened,
          package::Package::FromMemory(package::BytesOf(zip_), "diamond.zip", {}));
      COPPICE_ASSIGN_OR_RETURN(loaded_,
                               package::LoadedPackage::Load(context_, std::move(opened), {}));
      COPPICE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Create(context_, {}));
      COPPICE_ASSIGN_OR_RETURN(
          program_, session->Register(*loaded_, "main",
                                      {.policies = {{"n", *PaddingPolicy::Pow2(kLargest)}},
                                       .exact = ExactReplay::kAlways}));
      session_ = std::move(session);
      return absl::OkStatus();
    });
  }

  bool is_open() const { return session_ != nullptr; }

  // Closes the session. A driver that refuses everything has nothing in flight.
  void Close(bool driver_is_dead = false) {
    if (driver_is_dead) SynchronizeRaw(nullptr);
    const CountingScope counted(true);
    leases_.clear();
    session_.reset();
  }

  // Runs affine on 1, 2, ... n, for which there is an input; keeps the lease. Reads the outputs on
  // `reader`.
  absl::Status Run(int64_t n, int lane, CuStream stream, CuStream reader) {
    const auto input = std::ranges::find(inputs_, n, &std::pair<int64_t, DeviceMemory>::first);
    const Tensor x = FloatsAt(input->second.address(), n);
    Lease& lease = leases_.emplace_back();
    absl::Status status = Attempt([&]() -> absl::Status {
      COPPICE_ASSIGN_OR_RETURN(lease, session_->Run({.program = program_,
                                                     .binding = binding_,
                                                     .inputs = {&x, 1},
                                                     .scalars = scalars(),
                                                     .stream = stream,
                                                     .lane = lane}));
      return absl::OkStatus();
    });
    if (status.ok()) {
      (void)Guarded([&] { return ExpectOutputs(lease, n, reader); }).ok();
    } else {
      SynchronizeRaw(stream);  // What ran of it counts on a counter that all lanes share.
    }
    return status;
  }
  absl::Status Run(int64_t n) { return Run(n, 0, main_stream(), main_stream()); }

  // Runs affine twice in a chain, which keeps both outputs side by side.
  void RunChained(int64_t n) {
    std::optional<ChainScope> chain;
    (void)Attempt([&]() -> absl::Status {
      COPPICE_ASSIGN_OR_RETURN(ChainScope opened, session_->Chain());
      chain.emplace(std::move(opened));
      return absl::OkStatus();
    }).ok();
    (void)Run(n).ok();
    (void)Run(n).ok();
  }

  // Ends affine's binding and binds it again, so that its graphs go.
  absl::Status BindAgain() {
    if (!poison_.ok()) return poison_;  // A session without a device may still forget a binding.
    return Attempt([&]() -> absl::Status {
      COPPICE_RETURN_IF_ERROR(session_->Unbind(*binding_));
      return session_->Bind(*program_, AffineStatics(counter_.address())).status();
    });
  }

  absl::Status Warm(const std::vector<std::vector<int64_t>>& buckets) {
    return Attempt([&] {
      return session_->warming().Warm(*program_, binding_, buckets, scalars(),
                                      {.scratch = scratch_binding_});
    });
  }

  absl::Status SetBuckets(const std::vector<int64_t>& buckets) {
    return Attempt([&]() -> absl::Status {
      COPPICE_ASSIGN_OR_RETURN(PaddingPolicy policy, PaddingPolicy::List(buckets, kLargest));
      return session_->policies().SetPolicy(*program_, 0, std::move(policy));
    });
  }
  // Learns from the calls so far, and keeps a bucket of 16.
  absl::Status Rebucket() {
    return Attempt([&] {
      const RelearnOptions relearn{.learn = {.limit = kLargest, .count = 4, .forced = {16}}};
      return session_->policies()
          .Rebucket(*program_, 0,
                    {.relearn = relearn,
                     .period = 0,
                     .now_ns = [] { return 0; },
                     .binding = binding_,
                     .scratch = scratch_binding_})
          .status();
    });
  }

  absl::Status Trim() {
    return Attempt([&] { return session_->memory().Trim(); });
  }

  absl::Status Suspend() {
    return Attempt([&] { return session_->memory().Suspend({}); });
  }
  // Expects afterwards, if it succeeds, that what is leased is as it was.
  absl::Status Resume() {
    if (session_ == nullptr) return absl::OkStatus();
    absl::Status status = Attempt([&] { return session_->memory().Resume(); });
    if (status.ok() && !leases_.empty())
      (void)Guarded([&] { return ExpectOutputs(leases_.back(), 8, main_stream()); }).ok();
    return status;
  }

  void ReleaseLeases() {
    const CountingScope counted(true);
    leases_.clear();
  }

  // Expects that the session works, or gives its first sticky error as every answer.
  void ExpectUsableOrPoisoned() {
    EXPECT_EQ(emulator().live().captures, 0);
    if (binding_ != nullptr) {
      EXPECT_OK(session_->Bind(*program_, AffineStatics(counter_.address())));  // May have ended.
    }
    for (int call = 0; call < 3; ++call) {
      ReleaseLeases();
      EXPECT_EQ(Run(8), poison_);
    }
    if (poison_.ok()) {
      EXPECT_EQ(leases_.back().kind(), RunKind::kReplay) << "not recorded again";
    }
    ReleaseLeases();
    EXPECT_EQ(Run(kOverLargest), poison_);
    ReleaseLeases();
    EXPECT_EQ(Warm({{16}}), poison_);
    EXPECT_EQ(Trim(), poison_);
    if (poison_.ok()) ExpectNothingHeld();
  }

 private:
  static constexpr int64_t kFactor = std::bit_cast<int64_t>(2.0);

  std::span<const int64_t> scalars() const { return {&kFactor, program_->spec.scalars.size()}; }

  static absl::Status Order(CallContext& context,
                            const Event& event,
                            CuStream before,
                            CuStream after) {
    COPPICE_RETURN_IF_ERROR(
        context.driver().Call<&DriverTable::EventRecord>(event.handle(), before));
    return context.driver().Call<&DriverTable::StreamWaitEvent>(after, event.handle(), 0U);
  }

  absl::Status Fill(CallContext& context, CuStream stream, DeviceAddress target) const {
    return Launch(context.driver(), kernels_.fill, stream,
                  FillParams{.target = PointerAt<float>(target), .count = 1, .value = 1},
                  GridFor(1));
  }

  // What the books of a budget leave is anybody's: nobody holds bytes of it any more.
  void ExpectNothingHeld() {
    SessionMemory& memory = session_->memory();
    EXPECT_OK(session_->Evict(nullptr));
    EXPECT_OK(memory.Trim());
    const MemoryUsage books = memory.books();
    if (books.budget == 0) return;
    EXPECT_OK(memory.SetExternalBytes(books.budget - books.total));
    EXPECT_EQ(memory.books().total, books.budget);
  }

  // A call during which host allocations count. Out of host memory is RESOURCE_EXHAUSTED.
  template <typename Body>
  static absl::Status Guarded(Body body) {
    try {
      const CountingScope counted(true);
      return body();
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError("host");
    }
  }

  // A call of the session, which a sticky error ends.
  template <typename Body>
  absl::Status Attempt(Body body) {
    absl::Status status = Guarded(body);
    const std::optional<CuResult> result = CuResultOf(status);
    if (!poison_.ok()) {
      EXPECT_EQ(status, poison_) << "a poisoned session gave another answer";
    } else if (result.has_value() && IsSticky(*result)) {
      poison_ = status;
    }
    return status;
  }

  absl::Status ExpectOutputs(const Lease& lease, int64_t n, CuStream reader) {
    COPPICE_ASSIGN_OR_RETURN(const ReadScope scope, lease.Read(reader));
    const CountingScope uncounted(false);
    const Tensor y = scope.output(0);
    std::vector<float> values(static_cast<size_t>(y.element_count()));
    const DriverTable& raw = device_.emulator().driver().table();
    EXPECT_EQ(raw.MemcpyDtoHAsync(values.data(), y.data, values.size() * sizeof(float), reader),
              CuResult::kSuccess);
    SynchronizeRaw(reader);
    EXPECT_EQ(values, Expected(n));
    return absl::OkStatus();
  }

  // Waits for a stream, or for all, by the way that never fails.
  void SynchronizeRaw(CuStream stream) {
    const CountingScope uncounted(false);
    const DriverTable& raw = device_.emulator().driver().table();
    EXPECT_EQ(stream == nullptr ? raw.CtxSynchronize() : raw.StreamSynchronize(stream),
              CuResult::kSuccess);
  }

  const Driver driver_;
  const Context context_;
  const Stream side_;
  const Event fork_;
  const Event join_;
  const DeviceMemory scratch_;
  std::vector<std::pair<int64_t, DeviceMemory>> inputs_;

  std::string zip_;
  std::unique_ptr<const package::LoadedPackage> loaded_;
  std::unique_ptr<Session> session_;
  const Program* program_ = nullptr;
  const Binding* binding_ = nullptr;
  const Binding* scratch_binding_ = nullptr;
  std::vector<Lease> leases_;  // After the session, so that they go before it.
  absl::Status poison_;
};

}  // namespace coppice
