// Goal: what program.h and lease.h say of outputs whose size the device decides. Method: a program
// that compacts its input, in every way to run and to deliver, against the host.

#include "coppice/runtime/graph.h"
#include "coppice/runtime/stream.h"

#include "tests/graphs/counts_fixture.h"

namespace coppice {
namespace {

class SizedOutputsTest : public CountsFixture {
 protected:
  // A program whose one output is counted by what `value` says.
  Lease LyingLease(int64_t value) {
    ProgramSpec spec = CompactSpec();
    spec.name = "liar";
    const Program* liar = *session_->Register(spec, [&](CallContext& context) -> absl::Status {
      COPPICE_RETURN_IF_ERROR(context.AllocateOutput(kY).status());
      COPPICE_ASSIGN_OR_RETURN(const Tensor kept, context.AllocateOutput(kKept));
      return context.driver().Call<&DriverTable::MemcpyDtoDAsync>(
          kept.data, told_.data, sizeof(int64_t), context.stream());
    });
    told_ = UploadCount(value);
    x_ = UploadMixed(8, 0);
    return *session_->Run(CallOf(liar, x_));
  }

  Tensor told_;
  Tensor x_;
};

TEST_F(SizedOutputsTest, CapacityIsShownAndTheSizeReadWhenAsked) {
  for (const DType count : {DType::kInt64, DType::kInt32}) {
    session_ = MakeSession();
    const Program* compact = AddCompact(count);
    for (const int64_t kept : {3, 0, 5, 6, 1}) {
      const Tensor x = UploadMixed(6, kept);
      COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, session_->Run(CallOf(compact, x)));
      EXPECT_EQ(OutputOf(lease).y.sizes[0], 6);
      EXPECT_EQ(SizedOutput(lease), Ramp(kept)) << NameOf(lease.kind());
    }
    EXPECT_EQ(session_->stats().runs[static_cast<size_t>(RunKind::kReplay)], 3)
        << "one graph for every size";
  }
}

TEST_F(SizedOutputsTest, EagerCallsHaveSizesToo) {
  const Program* compact = AddCompact();
  session_->SetStance(Stance::kEager);
  const Tensor x = UploadMixed(7, 4);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, session_->Run(CallOf(compact, x)));
  EXPECT_EQ(SizedOutput(lease), Ramp(4));
}

TEST_F(SizedOutputsTest, CopiesHaveTheirCountsBesideThem) {
  SessionOptions options;
  options.memory.copy_out_bytes = 64 * kKiB;
  session_ = MakeSession(options);
  const Program* compact = AddCompact();
  std::vector<Lease> leases;
  for (const int64_t kept : {3, 1, 4, 2}) {
    const Tensor x = UploadMixed(6, kept);
    coppice::Call call = CallOf(compact, x);
    call.output_mode = OutputMode::kCopyOut;
    COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session_->Run(call));
    leases.push_back(std::move(lease));
  }
  EXPECT_EQ(SizedOutput(leases[0]), Ramp(3));
  EXPECT_EQ(SizedOutput(leases[2]), Ramp(4)) << "of a replay, behind another";
  const Tensor targets[] = {Upload(std::vector<float>(6, 0)), UploadCount(int64_t{0})};
  const Tensor x = UploadMixed(6, 5);
  coppice::Call call = CallOf(compact, x);
  call.output_mode = OutputMode::kWriteInto;
  call.targets = targets;
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, session_->Run(call));
  EXPECT_EQ(OutputOf(lease).count.data, targets[kKept].data);
  EXPECT_EQ(SizedOutput(lease), Ramp(5));
}

TEST_F(SizedOutputsTest, OutputWithoutACountIsItsOwnSize) {
  const Program* compact = AddCompact();
  const Tensor x = UploadMixed(6, 2);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, session_->Run(CallOf(compact, x)));
  COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, lease.Read(device_.stream()));
  EXPECT_EQ(scope.count(kKept).data, 0U);
  const int64_t calls = device_.ledger().calls();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Tensor kept, scope.ReadSized(kKept));
  EXPECT_EQ(device_.ledger().calls(), calls) << "it waited for nothing";
  EXPECT_EQ(kept, scope.output(kKept));
  EXPECT_EQ(kept.data, scope.count(kY).data);
  EXPECT_EQ(scope.count(kY).made_by, lease.call_number());
}

TEST_F(SizedOutputsTest, CountsBeyondTheCapacityAreRefusedByName) {
  for (const int64_t value : {int64_t{-1}, int64_t{9}, std::numeric_limits<int64_t>::max()}) {
    session_ = MakeSession();
    const Lease lease = LyingLease(value);
    COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, lease.Read(device_.stream()));
    const absl::Status status = scope.ReadSized(kY).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
    for (const std::string& text :
         {std::string("'y'"), std::string("'liar'"), std::to_string(value),
          std::string("room for 8"), std::string("'kept'")}) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    }
  }
  session_ = MakeSession();
  EXPECT_EQ(SizedOutput(LyingLease(8)).size(), 8U);
}

TEST_F(SizedOutputsTest, NobodyReadsASizeWhileTheStreamCaptures) {
  const Program* compact = AddCompact();
  const Tensor x = UploadMixed(6, 2);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, session_->Run(CallOf(compact, x)));
  COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, lease.Read(device_.stream()));
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Capture capture,
                                 Capture::Begin(device_.driver(), device_.stream()));
    EXPECT_THAT(scope.ReadSized(kY).status(), StatusIs(kRefused));
    EXPECT_OK(scope.ReadSized(kKept).status());
  }
  COPPICE_ASSERT_OK_AND_ASSIGN(const Tensor y, scope.ReadSized(kY));
  EXPECT_EQ(y.sizes[0], 2);
}

// Whatever waits for the lane meanwhile would wait for ever.
TEST_F(SizedOutputsTest, LaneIsFreeWhileAReaderWaits) {
  const Program* compact = AddCompact();
  const Tensor x = UploadMixed(6, 2);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, session_->Run(CallOf(compact, x)));
  COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, lease.Read(device_.stream()));
  ASSERT_OK(device_.driver().Call<&DriverTable::LaunchHostFunc>(
      device_.stream(),
      [](void* session) {
        std::thread([session] { (void)static_cast<Session*>(session)->stats(); }).join();
      },
      static_cast<void*>(session_.get())));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Tensor y, scope.ReadSized(kY));
  EXPECT_EQ(y.sizes[0], 2);
}

TEST_F(SizedOutputsTest, CaptureOfAnotherStreamLastsWhileASizeIsRead) {
  const Program* compact = AddCompact();
  const Tensor x = UploadMixed(6, 2);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, session_->Run(CallOf(compact, x)));
  COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, lease.Read(device_.stream()));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Stream other, Stream::Create(device_.driver()));
  COPPICE_ASSERT_OK_AND_ASSIGN(Capture capture, Capture::Begin(device_.driver(), other.handle()));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Tensor y, scope.ReadSized(kY));
  EXPECT_EQ(y.sizes[0], 2);
  EXPECT_OK(capture.End());
}

TEST_F(SizedOutputsTest, FaultsOfTheDriverAreReported) {
  const Program* compact = AddCompact();
  const Tensor x = UploadMixed(6, 2);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, session_->Run(CallOf(compact, x)));
  COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, lease.Read(device_.stream()));
  for (const int entry : {DriverLedger::IndexOf(&DriverTable::StreamIsCapturing),
                          DriverLedger::IndexOf(&DriverTable::MemcpyDtoHAsync),
                          DriverLedger::IndexOf(&DriverTable::StreamSynchronize)}) {
    device_.ledger().Inject({.entry = entry});
    EXPECT_FALSE(scope.ReadSized(kY).ok()) << "driver entry " << entry;
  }
  COPPICE_ASSERT_OK_AND_ASSIGN(const Tensor y, scope.ReadSized(kY));
  EXPECT_EQ(y.sizes[0], 2);
}

TEST_F(SizedOutputsTest, PartKeepsItsCountWhoeverDropsThat) {
  const Program* compact = AddCompact();
  const Program* masked = AddMasked();
  Lease lease;
  for (int i = 0; i < 3; ++i) {
    const Tensor x = UploadMixed(6, 4);
    COPPICE_ASSERT_OK_AND_ASSIGN(lease, session_->Run(CallOf(compact, x)));
  }
  COPPICE_ASSERT_OK_AND_ASSIGN(std::vector<Lease> parts, lease.Split());
  const Counted made = OutputOf(parts[kY]);
  parts[kKept].Release();
  // Calls of the path go around both.
  std::vector<Lease> later;
  for (int i = 0; i < 4; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(Lease next, session_->Run(CallOf(masked, made.y, made.count)));
    later.push_back(std::move(next));
    EXPECT_EQ(SizedOutput(parts[kY]), Ramp(4));
  }
  parts[kY].Release();
  EXPECT_THAT(session_->Run(CallOf(masked, made.y, made.count)).status(), StatusIs(kRefused));
}

TEST_F(SizedOutputsTest, PartsOfRunsWithoutAGraphKeepTheirCountsToo) {
  const Program* compact = AddCompact();
  session_->SetStance(Stance::kEager);
  const Tensor x = UploadMixed(6, 4);
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session_->Run(CallOf(compact, x)));
  COPPICE_ASSERT_OK_AND_ASSIGN(std::vector<Lease> parts, lease.Split());
  parts[kKept].Release();
  const Tensor other = UploadMixed(6, 1);
  for (int i = 0; i < 4; ++i)
    ASSERT_OK(session_->Run(CallOf(compact, other)));
  EXPECT_EQ(SizedOutput(parts[kY]), Ramp(4));
}

TEST_F(SizedOutputsTest, PartsAreDetachedEachByItself) {
  const Program* compact = AddCompact();
  for (const bool count_first : {false, true, false, true}) {
    const Tensor x = UploadMixed(6, 2);
    COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session_->Run(CallOf(compact, x)));
    COPPICE_ASSERT_OK_AND_ASSIGN(std::vector<Lease> parts, lease.Split());
    const auto detach_count = [&] {
      COPPICE_ASSERT_OK_AND_ASSIGN(const DetachedOutputs count,
                                   parts[kKept].Detach(device_.stream()));
      EXPECT_EQ(device_.Download<int64_t>(count.output(kKept).data, 1)[0], 2);
    };
    if (count_first) {
      detach_count();
      EXPECT_EQ(SizedOutput(parts[kY]), Ramp(2)) << "it stays for those that it counts";
    }
    COPPICE_ASSERT_OK_AND_ASSIGN(const DetachedOutputs y, parts[kY].Detach(device_.stream()));
    EXPECT_EQ(y.output(kY).sizes[0], 6);
    EXPECT_EQ(device_.Download<float>(y.output(kY).data, 2), Ramp(2));
    if (!count_first) detach_count();
  }
}

TEST_F(SizedOutputsTest, StaticCountTellsOfTheLastCall) {
  ProgramSpec spec = CompactSpec();
  spec.outputs[kKept].role = OutputRole::kStatic;
  const Program* compact = AddCompact(spec);
  const Tensor kept = UploadCount(int64_t{0});
  COPPICE_ASSERT_OK_AND_ASSIGN(const Binding* binding, session_->Bind(*compact, {&kept, 1}));
  const auto run = [&](int64_t positive) {
    const Tensor x = UploadMixed(6, positive);
    coppice::Call call = CallOf(compact, x);
    call.binding = binding;
    return session_->Run(call);
  };
  for (int i = 0; i < 3; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, run(4));
    EXPECT_EQ(OutputOf(lease).count.data, kept.data);
    EXPECT_EQ(SizedOutput(lease), Ramp(4)) << NameOf(lease.kind());
  }
  session_->SetStance(Stance::kEager);  // Outputs have bytes of their own.
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, run(4));
  ASSERT_OK(run(3));
  EXPECT_EQ(SizedOutput(lease), Ramp(3));
}

TEST_F(SizedOutputsTest, GivingTheCountAwayAloneGivesNoBytes) {
  const Program* compact = AddCompact();
  ProgramSpec spec{.name = "frees", .claim = std::nullopt, .one_stream = true};
  spec.inputs = {{.name = "kept", .dtype = DType::kInt64}};
  spec.outputs = {{.name = "other", .dtype = DType::kInt64}};
  const Program* frees = *session_->Register(spec, [](CallContext& context) -> absl::Status {
    COPPICE_RETURN_IF_ERROR(context.Free(context.input(0).data));
    COPPICE_ASSIGN_OR_RETURN(const Tensor other, context.AllocateOutput(0));
    return context.driver().Call<&DriverTable::MemsetD8Async>(
        other.data, static_cast<unsigned char>(0x33), sizeof(int64_t), context.stream());
  });
  for (int i = 0; i < 4; ++i) {
    const Tensor x = UploadMixed(6, 4);
    COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session_->Run(CallOf(compact, x)));
    COPPICE_ASSERT_OK_AND_ASSIGN(std::vector<Lease> parts, lease.Split());
    const Tensor kept = OutputOf(parts[kY]).count;
    coppice::Call call = CallOf(frees, kept);
    call.donated = {&parts[kKept], 1};
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease other, session_->Run(call));
    EXPECT_EQ(SizedOutput(parts[kY]), Ramp(4)) << NameOf(other.kind());
  }
}

TEST_F(SizedOutputsTest, SpecsWhoseCountsAreNoneAreRefused) {
  struct Wrong {
    std::function<void(ProgramSpec&)> make;
    const char* text;
  };
  const Wrong wrongs[] = {
      {[](ProgramSpec& spec) { spec.outputs[kY].count.output = 2; },
       "output 2 as its count (number of outputs: 2)"},
      {[](ProgramSpec& spec) { spec.outputs[kY].count.axis = 1; }, "axis 1 (rank: 1)"},
      {[](ProgramSpec& spec) { spec.outputs[kY].count.axis = -1; }, "axis -1 (rank: 1)"},
      {[](ProgramSpec& spec) { spec.outputs[kKept].dtype = DType::kUInt64; },
       "a single i32 or i64"},
      {[](ProgramSpec& spec) { spec.outputs[kKept].dims = {Dim::Fixed(2)}; },
       "a single i32 or i64"},
      {[](ProgramSpec& spec) { spec.outputs[kKept].dims = {Dim::Symbol(0)}; },
       "a single i32 or i64"},
      {[](ProgramSpec& spec) {
         spec.outputs[kKept].dims = {Dim::Fixed(1)};
         spec.outputs[kKept].count = {.output = kKept};
       },
       "no output counts"},
  };
  for (const Wrong& wrong : wrongs) {
    ProgramSpec spec = CompactSpec();
    wrong.make(spec);
    const absl::Status status = ValidateSpec(spec);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wrong.text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(wrong.text));
  }
  ProgramSpec spec = CompactSpec();
  spec.outputs[kKept].dims = {Dim::Fixed(1), Dim::Fixed(1)};
  EXPECT_OK(ValidateSpec(spec));
}

}  // namespace
}  // namespace coppice
