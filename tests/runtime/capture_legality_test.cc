// Goal: what a capture forbids is what the emulator's table says, and a table that cannot be read
// is refused with its line.
// Method: emulators with tables of a few rows; the built-in table against driver calls.

#include "coppice/runtime/emulator.h"

#include "tests/runtime/emulator_machine.h"

namespace coppice {
namespace {

constexpr char kColumns[] = "call\tmode\tthread\tresult\tcapture\tevidence\n";

Emulator::Options WithTable(const std::string& rows) {
  Emulator::Options options = TestEmulatorOptions();
  options.capture_legality = "# A comment.\n" + (kColumns + rows);
  return options;
}

// What cuStreamCreate returns while the machine's stream captures in `mode`, and how that ends.
struct Outcome {
  CuResult call;
  CuResult end;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome CreateStreamDuringCapture(const Machine& machine, CuCaptureMode mode) {
  CuStream stream = nullptr;
  CuGraph graph = nullptr;
  EXPECT_CU(kSuccess, machine.cu.StreamBeginCapture(machine.stream, mode));
  const CuResult call = machine.cu.StreamCreate(&stream, kStreamNonBlocking);
  return {call, machine.cu.StreamEndCapture(machine.stream, &graph)};
}

constexpr Outcome kAllowed{CuResult::kSuccess, CuResult::kSuccess};
constexpr Outcome kForbidden{CuResult::kStreamCaptureUnsupported,
                             CuResult::kStreamCaptureInvalidated};

TEST(CaptureLegalityTest, CallWithoutRowsIsAllowed) {
  EXPECT_EQ(CreateStreamDuringCapture(Machine(WithTable("")), CuCaptureMode::kGlobal), kAllowed);
}

TEST(CaptureLegalityTest, RowCountsForItsModeAndItsThread) {
  const Machine machine(
      WithTable("cuStreamCreate\tthread_local\tsame\t900\tinvalidated\tmeasured\n"
                "cuStreamCreate\tglobal\tother\t900\tinvalidated\tmeasured\n"));
  EXPECT_EQ(CreateStreamDuringCapture(machine, CuCaptureMode::kThreadLocal), kForbidden);
  EXPECT_EQ(CreateStreamDuringCapture(machine, CuCaptureMode::kGlobal), kAllowed);
  EXPECT_EQ(CreateStreamDuringCapture(machine, CuCaptureMode::kRelaxed), kAllowed);
}

TEST(CaptureLegalityTest, CallMayBeForbiddenAndLeaveTheCaptureAlone) {
  const Machine machine(WithTable("cuStreamCreate\tglobal\tsame\t906\tactive\tmeasured\n"));
  EXPECT_EQ(CreateStreamDuringCapture(machine, CuCaptureMode::kGlobal),
            (Outcome{CuResult::kStreamCaptureImplicit, CuResult::kSuccess}));
}

TEST(CaptureLegalityTest, ResultsThatAreNotAboutCapturesAndNotesInParenthesesArePassedOver) {
  const Machine machine(
      WithTable("cuStreamCreate\tglobal\tsame\t2\tactive\tmeasured\n"
                "cuStreamCreate(odd)\tglobal\tsame\t900\tinvalidated\tmeasured\n"));
  EXPECT_EQ(CreateStreamDuringCapture(machine, CuCaptureMode::kGlobal), kAllowed);
}

TEST(CaptureLegalityTest, BuiltInTableForbidsWhatIsUnknownOnTheCapturingThreadOnly) {
  const Machine machine;
  EXPECT_EQ(CreateStreamDuringCapture(machine, CuCaptureMode::kGlobal), kForbidden);
  EXPECT_EQ(CreateStreamDuringCapture(machine, CuCaptureMode::kThreadLocal), kForbidden);
  EXPECT_EQ(CreateStreamDuringCapture(machine, CuCaptureMode::kRelaxed), kAllowed);
}

TEST(CaptureLegalityTest, TableThatCannotBeReadIsRefusedWithItsLine) {
  const auto message_of = [](const std::string& table) {
    Emulator::Options options;
    options.capture_legality = table;
    const auto created = Emulator::Create(options);
    EXPECT_EQ(created.status().code(), absl::StatusCode::kInvalidArgument) << table;
    return std::string(created.status().message());
  };
  using testing::HasSubstr;
  const std::string columns = kColumns;
  EXPECT_THAT(message_of("# Nothing.\n"), HasSubstr("no header row"));
  EXPECT_THAT(message_of("call\tmode\n"), HasSubstr(":1: the columns are"));
  EXPECT_THAT(message_of(columns + "cuMemAlloc\tglobal\n"), HasSubstr(":2: the row has 2 fields"));
  EXPECT_THAT(message_of(columns + "cuNope\tglobal\tsame\t0\tactive\tx\n"),
              HasSubstr("'cuNope' is not a driver entry"));
  for (const char* const row :
       {"cuMemAlloc\tloose\tsame\t0\tactive\tx", "cuMemAlloc\tglobal\tboth\t0\tactive\tx",
        "cuMemAlloc\tglobal\tsame\t9e2\tactive\tx", "cuMemAlloc\tglobal\tsame\t0\tdead\tx"})
    EXPECT_THAT(message_of(columns + row), HasSubstr("is not a valid row")) << row;
}

}  // namespace
}  // namespace coppice
