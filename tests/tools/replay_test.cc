// Goal: a fault that is planted in a kernel of a program is named by `coppice replay`: its kind,
// its kernel and its line; and the shrunken case is as small as can be. Method: the text of small
// kernels is changed in one place; a session with a flight recorder runs the program on an emulator
// that checks as little as it can, and saves a case; the command reads it. Programs that nothing
// was planted in give the verdict that nothing is wrong.

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coppice/graphs/case_file.h"
#include "coppice/graphs/session.h"
#include "coppice/runtime/loaded_package.h"

#include "tests/package/small_kernels.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"
#include "tests/tools/text_stream.h"
#include "tools/package/host_array.h"
#include "tools/replay/replay_command_line.h"
#include "tools/support/text_file.h"

namespace coppice {
namespace {

using nlohmann::json;
using package::FloatBuffer;

// Where `text` stands behind the entry of a kernel.
size_t FindIn(const std::string& ptx, const std::string& kernel, const std::string& text) {
  const size_t entry = ptx.find(".entry " + kernel + "(");
  EXPECT_NE(entry, std::string::npos) << kernel;
  const size_t at = ptx.find(text, entry);
  EXPECT_NE(at, std::string::npos) << text;
  return at;
}

int LineAt(const std::string& ptx, size_t at) {
  return 1 +
         static_cast<int>(std::count(ptx.begin(), ptx.begin() + static_cast<ptrdiff_t>(at), '\n'));
}

struct Fault {
  std::string name;
  std::string kernel;
  std::string from;  // In the kernel ...
  std::string to;    // ... becomes this.
  std::string kind;
  std::string line;      // An instruction of the changed kernel; empty: no line is asked for.
  int64_t smallest = 0;  // The size that a shrunken case has at most; 0: that is not asked for.
  int64_t n = 50;
};

constexpr char kGuard[] = "setp.ge.u32 %p1, %r3, %r4;";
constexpr char kLeave[] = "@%p1 ret;";
constexpr char kCount[] = "ld.param.u32 %r4, [count];";

// What may be wrong with any of the kernels: `load` is its first access of what it computes on,
// `store` its last.
struct Plain {
  const char* kernel;
  const char* load;
  const char* load_address;  // The instruction that computes its address.
  const char* beyond;        // The first access of a thread that should have left.
  const char* store;
  const char* store_address;  // The same of the store.
  const char* store_base;     // What every thread would store to.
};
const std::vector<Plain> kPlain = {
    {"Scale", "ld.global.f32 %f1, [%rd4];", "add.u64 %rd4, %rd2, %rd1;",
     "ld.global.f32 %f1, [%rd4];", "st.global.f32 [%rd5], %f3;", "add.u64 %rd5, %rd3, %rd1;",
     "mov.u64 %rd5, %rd3;"},
    {"Add", "ld.global.f32 %f1, [%rd5];", "add.u64 %rd5, %rd2, %rd1;", "ld.global.f32 %f1, [%rd5];",
     "st.global.f32 [%rd7], %f3;", "add.u64 %rd7, %rd4, %rd1;", "mov.u64 %rd7, %rd4;"},
    {"Mask", "ld.global.f32 %f1, [%rd4];", "add.u64 %rd4, %rd2, %rd1;",
     "st.global.f32 [%rd5], %f1;", "st.global.f32 [%rd5], %f1;", "add.u64 %rd5, %rd3, %rd1;",
     "mov.u64 %rd5, %rd3;"}};

std::string Behind(const std::string& instruction, const std::string& more) {
  return instruction + "\n  " + more;
}

// The register that an instruction of this form writes.
std::string TargetOf(const std::string& instruction) {
  const size_t begin = instruction.find('%');
  return instruction.substr(begin, instruction.find(',') - begin);
}

std::string Moved(const std::string& address, const char* bytes) {
  const std::string reg = TargetOf(address);
  return Behind(address, "add.u64 " + reg + ", " + reg + ", " + bytes + ";");
}

std::vector<Fault> PlainFaults() {
  std::vector<Fault> faults;
  for (const Plain& plain : kPlain) {
    const std::string kernel = plain.kernel;
    const auto add = [&](std::string name, std::string from, std::string to, std::string kind,
                         std::string line, int64_t smallest) {
      faults.push_back({.name = std::move(name),
                        .kernel = kernel,
                        .from = std::move(from),
                        .to = std::move(to),
                        .kind = std::move(kind),
                        .line = std::move(line),
                        .smallest = smallest});
    };
    add("OneRowTooMany", kGuard, "setp.gt.u32 %p1, %r3, %r4;", "out_of_bounds", plain.beyond, 1);
    add("NoMask", kLeave, "", "out_of_bounds", plain.beyond, 1);
    add("SizeOfCompilation", kCount, "mov.u32 %r4, 4096;", "baked_in", plain.beyond, 1);
    add("StoresOneRowBehind", plain.store_address, Moved(plain.store_address, "4"), "out_of_bounds",
        plain.store, 1);
    add("LoadsOneRowBefore", plain.load_address, Moved(plain.load_address, "-4"), "out_of_bounds",
        plain.load, 1);
    add("LoadsFromHalfARow", plain.load_address, Moved(plain.load_address, "2"), "misaligned",
        plain.load, 1);
    add("StoresFromHalfARow", plain.store_address, Moved(plain.store_address, "2"), "misaligned",
        plain.store, 1);
    add("AllStoreToTheFirst", plain.store_address, plain.store_base, "race", plain.store, 33);
    add("Traps", kLeave, Behind(kLeave, "trap;"), "fault", "trap;", 1);
  }
  return faults;
}

// The program of one kernel: y of x, of any size up to 1024 that may be padded with anything.
json ProgramOf(const std::string& kernel) {
  json program = DiamondProgram();
  program["buffers"] = {{"x", FloatBuffer("input", {"n"})}, {"y", FloatBuffer("output", {"n"})}};
  if (kernel == "Scale") program["steps"] = {package::ScaleStep("x", "y", "n", "2")};
  if (kernel == "Add") program["steps"] = {package::AddStep("x", "x", "y", "n")};
  if (kernel == "Mask") program["steps"] = {package::MaskStep("x", "y", "n", "n")};
  return program;
}

package::PackageBuilder PackageOf(const std::string& ptx, const json& program) {
  package::PackageBuilder with_kernels = package::SmallKernels();
  package::PackageBuilder builder;
  builder.AddModule("small", "ptx", "sm_80", ptx);
  builder.manifest["kernels"] = with_kernels.manifest["kernels"];
  builder.manifest["programs"]["main"] = program;
  return builder;
}

// A server: an emulator that looks for as little as it can, and a session that records.
class Server {
 public:
  explicit Server(const std::string& package, RecorderOptions recorder = {.ring_bytes = 1 << 22})
      : emulator_(*Emulator::Create(Options())),
        context_(*Context::Create(emulator_->driver())),
        stream_(*Stream::Create(emulator_->driver())) {
    loaded_ = *package::LoadedPackage::Load(context_, *package::Package::Open(package, {}), {});
    SessionOptions options;
    options.recorder = recorder;
    session_ = *Session::Create(context_, options);
    program_ = *session_->Register(*loaded_, "main", {});
  }

  static Emulator::Options Options() {
    Emulator::Options options;
    options.memory_bytes = int64_t{256} << 20;
    options.seed = TestSeed();
    options.strictness = Emulator::Strictness::All(false);
    return options;
  }

  Tensor Upload(int64_t n) {
    std::vector<float> values;
    for (int64_t i = 0; i < n; ++i)
      values.push_back(1 + 0.25F * static_cast<float>(i));
    const auto bytes = static_cast<size_t>(n) * sizeof(float);
    memory_.push_back(*DeviceMemory::Create(emulator_->driver(),
                                            std::max<int64_t>(static_cast<int64_t>(bytes), 1)));
    EXPECT_OK(emulator_->driver().Call<&DriverTable::MemcpyHtoDAsync>(
        memory_.back().address(), values.data(), bytes, stream_.handle()));
    EXPECT_OK(stream_.Synchronize());
    return FloatsAt(memory_.back().address(), n);
  }

  // Runs and waits. False: the device has had enough.
  bool Run(std::vector<Tensor> inputs, std::vector<int64_t> scalars = {}) {
    const absl::Status ran = session_
                                 ->Run({.program = program_,
                                        .binding = binding_,
                                        .inputs = inputs,
                                        .scalars = scalars,
                                        .stream = stream_.handle()})
                                 .status();
    return ran.ok() && stream_.Synchronize().ok();
  }

  void Bind(std::vector<Tensor> statics) { binding_ = *session_->Bind(*program_, statics); }
  void FreeLast() { memory_.pop_back(); }
  void Save(const std::string& path) { EXPECT_OK(session_->recorder().Save(path, "a test", {})); }

 private:
  std::unique_ptr<Emulator> emulator_;
  Context context_;
  Stream stream_;
  std::unique_ptr<const package::LoadedPackage> loaded_;
  std::vector<DeviceMemory> memory_;
  std::unique_ptr<Session> session_;
  const Program* program_ = nullptr;
  const Binding* binding_ = nullptr;
};

struct CommandOutcome {
  ExitCode code = kExitOk;
  std::string out;
  std::string err;
};

// Runs the command in this process, with no other subcommand than this.
CommandOutcome RunReplay(const std::vector<std::string>& arguments) {
  static constexpr std::array kSubcommands = {kReplaySubcommand};
  std::vector<const char*> pointers = {"coppice", "replay"};
  for (const std::string& argument : arguments)
    pointers.push_back(argument.c_str());
  const TextStream out;
  const TextStream err;
  CommandOutcome outcome;
  outcome.code = RunSubcommands(kSubcommands, static_cast<int>(pointers.size()), pointers.data(),
                                /*program=*/"", {.out = out.stream(), .err = err.stream()});
  outcome.out = out.Text();
  outcome.err = err.Text();
  return outcome;
}

// What Upload gives, `times` as much.
std::string BytesOf(int64_t n, float times) {
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i)
    values.push_back(times * (1 + 0.25F * static_cast<float>(i)));
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

class ReplayTest : public testing::Test {
 protected:
  std::string path(const char* name) const { return folder_ / name; }

  // Serves calls of these sizes with the package, and saves what was recorded.
  void Serve(const package::PackageBuilder& builder, const std::vector<int64_t>& sizes) {
    builder.WriteZip(path("p.zip"));
    Server server(path("p.zip"));
    for (const int64_t n : sizes)
      if (!server.Run({server.Upload(n)})) break;
    server.Save(path("x.coppice-case"));
  }

  json Replay(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {path("x.coppice-case"), "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    outcome_ = RunReplay(arguments);
    EXPECT_TRUE(outcome_.err.empty()) << outcome_.err;
    return json::parse(outcome_.out, nullptr, /*allow_exceptions=*/false);
  }

  package::TemporaryFolder folder_;
  CommandOutcome outcome_;
};

TEST_F(ReplayTest, FindsNothingInProgramsThatAreRight) {
  for (const char* kernel : {"Scale", "Add", "Mask"}) {
    Serve(PackageOf(package::kSmallKernels, ProgramOf(kernel)), {50, 5, 64, 33, 5});
    const json verdict = Replay();
    EXPECT_EQ(verdict["kind"], "nothing") << kernel << ": " << verdict["verdict"];
    EXPECT_EQ(outcome_.code, kExitOk);
  }
  Serve(PackageOf(package::kSmallKernels, DiamondProgram()), {50, 5, 64});
  EXPECT_EQ(Replay()["kind"], "nothing");
}

TEST_F(ReplayTest, NamesKernelAndLineOfPlantedFaultsAndShrinksThem) {
  int named = 0;
  const std::vector<Fault> faults = PlainFaults();
  for (const Fault& fault : faults) {
    SCOPED_TRACE(fault.kernel + " " + fault.name);
    std::string ptx = package::kSmallKernels;
    ptx.replace(FindIn(ptx, fault.kernel, fault.from), fault.from.size(), fault.to);
    Serve(PackageOf(ptx, ProgramOf(fault.kernel)), {7, fault.n, fault.n});
    const json verdict = Replay({"--shrink", "-o", path("small.coppice-case")});
    EXPECT_EQ(outcome_.code, kExitDevice);
    EXPECT_EQ(verdict["kind"], fault.kind) << verdict["verdict"];
    EXPECT_EQ(verdict["kernel"], fault.kernel);
    EXPECT_EQ(verdict["program"], "main");
    EXPECT_EQ(verdict["step"], 0);
    const int line = LineAt(ptx, FindIn(ptx, fault.kernel, fault.line));
    EXPECT_EQ(verdict["ptx_line"], line) << verdict["verdict"];
    if (verdict["kind"] == fault.kind && verdict["kernel"] == fault.kernel &&
        verdict["ptx_line"] == line)
      ++named;
    EXPECT_LE(verdict["extents"][0].get<int64_t>(), fault.smallest * 3 / 2) << "shrunk";
    // The shrunken case shows the same by itself.
    const CommandOutcome again = RunReplay({path("small.coppice-case"), "--json"});
    EXPECT_EQ(json::parse(again.out)["kind"], fault.kind);
    const absl::StatusOr<Case> small = ReadCase(path("small.coppice-case"));
    ASSERT_OK(small);
    EXPECT_EQ(small->calls.size(), 1U);
  }
  std::printf("planted faults named: %d of %zu\n", named, faults.size());
  EXPECT_EQ(named, static_cast<int>(faults.size()));
}

// A row that reads the row behind it: the last live one reads padding.
const std::string kNeighbour =
    std::string("\n.visible .entry Next(.param .u64 x, .param .u64 y, .param .u32 count)\n") +
    package::kSmallKernelOpening + R"(  add.u64 %rd4, %rd2, %rd1;
  add.u64 %rd5, %rd3, %rd1;
  ld.global.f32 %f1, [%rd4];
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %p2, %r3, %r4;
  mov.f32 %f2, 0f00000000;
  @%p2 ld.global.f32 %f2, [%rd4+4];
  add.rn.f32 %f3, %f1, %f2;
  st.global.f32 [%rd5], %f3;
  ret;
}
)";

json WithNext(package::PackageBuilder& builder) {
  json kernel = builder.manifest["kernels"]["Scale"];
  kernel["parameters"] = {8, 8, 4};
  kernel["targets"][0]["symbol"] = "Next";
  builder.manifest["kernels"]["Next"] = kernel;
  return {{"op", "kernel"},
          {"kernel", "Next"},
          {"grid", package::GridOf("n")},
          {"args", {package::Reads("x"), package::Writes("y"), {{"i32", "n"}}}}};
}

TEST_F(ReplayTest, SaysThatAClaimIsWrongAndWhichKernelLetsPaddingThrough) {
  json program = ProgramOf("Scale");
  package::PackageBuilder builder = PackageOf(package::kSmallKernels + kNeighbour, program);
  program["steps"] = {WithNext(builder)};
  builder.manifest["programs"]["main"] = program;
  Serve(builder, {50, 40});
  const json verdict = Replay({"--shrink", "-o", path("small.coppice-case")});
  EXPECT_EQ(verdict["kind"], "wrong_claim") << verdict["verdict"];
  EXPECT_EQ(verdict["kernel"], "Next");
  EXPECT_EQ(verdict["step"], 0);
  const std::string ptx = package::kSmallKernels + kNeighbour;
  EXPECT_EQ(verdict["ptx_line"], LineAt(ptx, FindIn(ptx, "Next", "add.rn.f32 %f3, %f1, %f2;")));
  EXPECT_EQ(verdict["thread"]["thread"][0], 0);
  EXPECT_EQ(outcome_.code, kExitDevice);
  EXPECT_EQ(verdict["extents"][0], 1);
  EXPECT_EQ(verdict["bucket"][0], 2);
}

TEST_F(ReplayTest, FollowsPaddingWhereItChangesNothing) {
  Serve(PackageOf(package::kSmallKernels, ProgramOf("Scale")), {50, 40});
  json verdict = Replay({"--taint"});
  EXPECT_EQ(verdict["kind"], "nothing");
  ASSERT_EQ(verdict["notes"].size(), 2U) << verdict["notes"];
  EXPECT_EQ(verdict["notes"][0],
            "call 1: padding reaches no live element of an output or a temporary");
  // What a row takes from the row behind it is cleared, whatever it is.
  std::string cleared = kNeighbour;
  const std::string sum = "add.rn.f32 %f3, %f1, %f2;";
  cleared.replace(cleared.find(sum), sum.size(),
                  "mov.b32 %r1, %f2; xor.b32 %r1, %r1, %r1; mov.b32 %f2, %r1;\n"
                  "  add.rn.f32 %f3, %f1, %f2;");
  json program = ProgramOf("Scale");
  package::PackageBuilder builder = PackageOf(package::kSmallKernels + cleared, program);
  program["steps"] = {WithNext(builder)};
  builder.manifest["programs"]["main"] = program;
  Serve(builder, {50, 40});
  verdict = Replay({"--taint"});
  EXPECT_EQ(verdict["kind"], "nothing");
  const std::string ptx = package::kSmallKernels + cleared;
  EXPECT_EQ(verdict["notes"][0],
            "call 1: padding of x reaches y[49] in step 0: kernel Next, PTX line " +
                std::to_string(LineAt(ptx, FindIn(ptx, "Next", sum))) +
                ", thread (49, 0, 0) of block (0, 0, 0)");
}

TEST_F(ReplayTest, NamesTheStepThatReadsWhatNobodyWrote) {
  json program = DiamondProgram();
  // Only the first half of `twice` is written.
  program["steps"][0]["args"][2] = {{"i32", "n // 2"}};
  const std::string ptx = package::kSmallKernels;
  Serve(PackageOf(ptx, program), {50});
  const json verdict = Replay();
  EXPECT_EQ(verdict["kind"], "uninitialized") << verdict["verdict"];
  EXPECT_EQ(verdict["kernel"], "Add");
  EXPECT_EQ(verdict["step"], 2);
  EXPECT_EQ(verdict["ptx_line"], LineAt(ptx, FindIn(ptx, "Add", "ld.global.f32 %f1")));
  EXPECT_EQ(verdict["hit"]["buffer"], "twice");
}

TEST_F(ReplayTest, SaysThatAKernelNeverReadsAScalar) {
  json program = ProgramOf("Scale");
  program["scalars"] = {{"alpha", {{"bind", "key"}}}};
  program["steps"][0]["args"][3] = {{"i32", "alpha"}};
  std::string ptx = package::kSmallKernels;
  const std::string load = "ld.param.f32 %f2, [factor];";
  ptx.replace(FindIn(ptx, "Scale", load), load.size(), "mov.f32 %f2, 0f40000000;");
  const package::PackageBuilder builder = PackageOf(ptx, program);
  builder.WriteZip(path("p.zip"));
  {
    Server server(path("p.zip"));
    EXPECT_TRUE(server.Run({server.Upload(5)}, {3}));
    EXPECT_TRUE(server.Run({server.Upload(5)}, {4}));
    server.Save(path("x.coppice-case"));
  }
  const json verdict = Replay();
  EXPECT_EQ(verdict["kind"], "baked_in") << verdict["verdict"];
  EXPECT_EQ(verdict["kernel"], "Scale");
  EXPECT_EQ(verdict["step"], 0);
}

// y = x + w, where w is bound.
json BoundProgram() {
  json program = ProgramOf("Add");
  program["symbols"]["n"]["max"] = 64;
  program["inputs"] = {"x", "w"};
  program["buffers"]["w"] = FloatBuffer("input", {64});
  program["buffers"]["w"]["static"] = true;
  program["steps"] = {package::AddStep("x", "w", "y", "n")};
  return program;
}

TEST_F(ReplayTest, SaysThatAStaticInputWasFreed) {
  PackageOf(package::kSmallKernels, BoundProgram()).WriteZip(path("p.zip"));
  {
    Server server(path("p.zip"), {.ring_bytes = 1 << 20, .static_bytes_max = 1024});
    const Tensor x = server.Upload(5);
    server.Bind({server.Upload(64)});
    EXPECT_TRUE(server.Run({x}));
    server.FreeLast();
    EXPECT_FALSE(server.Run({x}));
    server.Save(path("x.coppice-case"));
  }
  const json verdict = Replay();
  EXPECT_EQ(verdict["kind"], "stale_input") << verdict["verdict"];
  EXPECT_EQ(verdict["call"], 2);
  EXPECT_EQ(verdict["hit"]["buffer"], "w");
}

TEST_F(ReplayTest, SaysThatAnInputWasFreed) {
  PackageOf(package::kSmallKernels, ProgramOf("Scale")).WriteZip(path("p.zip"));
  {
    Server server(path("p.zip"));
    const Tensor x = server.Upload(5);
    EXPECT_TRUE(server.Run({x}));
    server.FreeLast();
    EXPECT_FALSE(server.Run({x}));
    server.Save(path("x.coppice-case"));
  }
  const json verdict = Replay();
  EXPECT_EQ(verdict["kind"], "stale_input") << verdict["verdict"];
  EXPECT_EQ(verdict["call"], 2);
}

TEST_F(ReplayTest, SaysThatRecordedOutputsAreNoResultsOfTheseInputs) {
  PackageOf(package::kSmallKernels, ProgramOf("Scale")).WriteZip(path("p.zip"));
  {
    Server server(path("p.zip"), {.ring_bytes = 1 << 20, .outputs = true});
    EXPECT_TRUE(server.Run({server.Upload(5)}));
    server.Save(path("x.coppice-case"));
  }
  EXPECT_EQ(Replay()["kind"], "nothing");
  absl::StatusOr<Case> value = ReadCase(path("x.coppice-case"));
  ASSERT_OK(value);
  value->tensors.at(value->calls[0].outputs[0]).bytes[6] ^= 0x40;
  ASSERT_OK(WriteCase(*value, path("x.coppice-case")));
  const json verdict = Replay();
  EXPECT_EQ(verdict["kind"], "differs") << verdict["verdict"];
  EXPECT_EQ(verdict["hit"]["buffer"], "y");
}

TEST_F(ReplayTest, WritesTheBuffersOfEachCall) {
  Serve(PackageOf(package::kSmallKernels, DiamondProgram()), {5, 3});
  EXPECT_EQ(Replay({"--buffers", path("values")})["kind"], "nothing");
  for (const auto& [call, n] : std::vector<std::pair<const char*, int64_t>>{{"1", 5}, {"2", 3}}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(
        const HostArray twice,
        ReadArray(path("values") + "/" + call + "/twice.npy", DType::kFloat32));
    EXPECT_EQ(twice.dims, std::vector<int64_t>{n});
    EXPECT_EQ(twice.bytes, BytesOf(n, 2));
  }
  ASSERT_OK(WriteTextFile(path("file"), ""));
  EXPECT_EQ(RunReplay({path("x.coppice-case"), "--buffers", path("file")}).code, kExitOutput);
}

TEST_F(ReplayTest, RefusesAnotherPackageAndFilesThatAreNone) {
  Serve(PackageOf(package::kSmallKernels, ProgramOf("Scale")), {5});
  PackageOf(package::kSmallKernels, ProgramOf("Add")).WriteZip(path("other.zip"));
  EXPECT_EQ(RunReplay({path("x.coppice-case"), "--package", path("other.zip")}).code, kExitUsage);
  EXPECT_EQ(RunReplay({path("nowhere")}).code, kExitUsage);
  EXPECT_EQ(RunReplay({path("p.zip")}).code, kExitUsage);
  EXPECT_EQ(RunReplay({}).code, kExitUsage);
  EXPECT_EQ(RunReplay({path("x.coppice-case"), "--seeds", "0"}).code, kExitUsage);
}

TEST_F(ReplayTest, SaysThatItCannotReplayACaseWithoutItsKernels) {
  Serve(PackageOf(package::kSmallKernels, ProgramOf("Scale")), {5});
  absl::StatusOr<Case> value = ReadCase(path("x.coppice-case"));
  ASSERT_OK(value);
  Case without = *value;
  without.package.clear();
  ASSERT_OK(WriteCase(without, path("x.coppice-case")));
  EXPECT_EQ(Replay()["kind"], "cannot_replay");
  EXPECT_EQ(outcome_.code, kExitDevice);
  EXPECT_EQ(Replay({"--package", path("p.zip")})["kind"], "nothing");
  without.programs[0].package_program.clear();
  ASSERT_OK(WriteCase(without, path("x.coppice-case")));
  EXPECT_EQ(Replay()["kind"], "cannot_replay");
}

}  // namespace
}  // namespace coppice
