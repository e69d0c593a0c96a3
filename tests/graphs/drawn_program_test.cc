// Goal: every valid program of a package runs, at every size, and computes what its steps say,
// however plan and edges share its bytes. Method: programs drawn from a seed, without a finding of
// the linter, recorded and replayed at several sizes, on inputs of the caller's and on outputs of
// earlier calls, which some are given, at their bucket's sizes or their own; results against the
// steps done on the host, bit by bit; the emulator watches every access and every order.
// COPPICE_MUTATIONS says how many programs, in place of 240.

#include "tests/graphs/drawn_program.h"

#include "coppice/graphs/session.h"
#include "coppice/runtime/package_lint.h"

#include "tests/graphs/package_fixture.h"

namespace coppice {
namespace {

using DrawnValues = std::vector<float>;

class DrawnProgramTest : public PackageFixture {
 protected:
  // The lease of a call at a size, and what its outputs hold.
  struct Kept {
    Lease lease;
    int64_t n = 0;
    std::vector<DrawnValues> outputs;
  };

  // The elements of a tensor in order, whatever its strides.
  DrawnValues ElementsOf(const Tensor& tensor) {
    const DrawnValues span = device_.Download<float>(tensor.data, tensor.span());
    DrawnValues elements;
    for (int64_t row = 0; row < tensor.sizes[0]; ++row) {
      for (int64_t i = 0; i < tensor.sizes[1]; ++i)
        elements.push_back(
            span[static_cast<size_t>(row * tensor.strides[0] + i * tensor.strides[1])]);
    }
    return elements;
  }

  Tensor OutputOf(const Lease& lease, size_t index) {
    absl::StatusOr<ReadScope> scope = lease.Read(device_.stream());
    EXPECT_OK(scope);
    return scope.ok() ? scope->output(static_cast<int>(index)) : Tensor();
  }

  // An input of these rows: an output of the call before if one fits, or values of its own.
  Tensor DrawInput(const DrawnProgram& program,
                   size_t input,
                   int64_t n,
                   std::mt19937_64& random,
                   DrawnValues* values) {
    const int64_t rows = program.InputRows()[input];
    for (size_t i = 0; i < kept_.outputs.size() && kept_.n == n; ++i) {
      if (program.IsMutated(input) || program.OutputRows()[i] != rows || random() % 2 == 0)
        continue;
      *values = kept_.outputs[i];
      return OutputOf(kept_.lease, i);
    }
    for (int64_t i = 0; i < rows * n; ++i)
      values->push_back(static_cast<float>(random() % 64));
    given_.push_back(*device_.Upload(*values));
    const int64_t dims[] = {rows, n};
    return Tensor::Dense(given_.back().address(), DType::kFloat32, dims);
  }

  // Whether it lies in memory of the caller's.
  bool IsGiven(const Tensor& tensor) const {
    return std::ranges::any_of(
        given_, [&](const DeviceMemory& memory) { return memory.address() == tensor.data; });
  }

  // One call, compared.
  void Call(Session& session,
            const Program& registered,
            const DrawnProgram& program,
            int64_t n,
            std::mt19937_64& random) {
    std::vector<Tensor> inputs;
    std::vector<DrawnValues> values(program.InputRows().size());
    for (size_t i = 0; i < values.size(); ++i)
      inputs.push_back(DrawInput(program, i, n, random, &values[i]));
    coppice::Call call{.program = &registered, .inputs = inputs, .stream = device_.stream()};
    if (kept_.lease.call_number() != 0 && random() % 3 == 0) call.donated = {&kept_.lease, 1};
    COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session.Run(call));
    const std::vector<DrawnValues> expected = program.Compute(n, values);
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_EQ(ElementsOf(OutputOf(lease, i)), expected[i]) << "output " << i << " at n = " << n;
    for (size_t i = 0; i < values.size(); ++i) {
      if (!IsGiven(inputs[i])) continue;  // Borrowed outputs last as long as their lease says.
      EXPECT_EQ(ElementsOf(inputs[i]), values[i]) << "input " << i << " at n = " << n;
    }
    kept_ = {.lease = std::move(lease), .n = n, .outputs = expected};
  }

  Kept kept_;
  std::string why_eager_;
  std::vector<DeviceMemory> given_;
};

TEST_F(DrawnProgramTest, ValidProgramsRunAtEverySizeAndComputeWhatTheirStepsSay) {
  std::mt19937_64 random(TestSeed());
  const int64_t programs = Mutations(240);
  int64_t serial = 0;
  int64_t graphs = 0;
  int64_t exact_replays = 0;
  int64_t patched_nodes = 0;
  for (int64_t i = 0; i < programs && !HasFailure(); ++i) {
    const DrawnProgram program(random);
    package::PackageBuilder builder = package::SmallKernels();
    builder.manifest["programs"] = program.Programs();
    SCOPED_TRACE(builder.manifest["programs"].dump(1));
    const package::LoadedPackage& loaded = Load(builder);
    for (const package::Finding& finding : package::Lint(loaded.package(), {.points_max = 4}))
      ASSERT_NE(finding.severity, package::Severity::kError) << ToText(finding);
    const std::unique_ptr<Session> session =
        MakeSession({.log = [this](const std::string& line) { why_eager_ += line + "\n"; }});
    const auto exact = static_cast<ExactReplay>(random() % 3);
    SCOPED_TRACE(NameOf(exact));
    COPPICE_ASSERT_OK_AND_ASSIGN(const Program* const main,
                                 session->Register(loaded, "main", {.exact = exact}));
    for (int size = 0; size < 3; ++size) {
      const auto n = static_cast<int64_t>(1 + random() % DrawnProgram::kSizeMax);
      for (int call = 0; call < 3 && !HasFailure(); ++call)
        Call(*session, *main, program, n, random);
    }
    EXPECT_EQ(session->stats().runs[static_cast<size_t>(RunKind::kEager)], 0) << why_eager_;
    const std::vector<NodeInfo> nodes = session->nodes();
    graphs += std::ranges::count_if(nodes, &NodeInfo::recorded);
    serial += std::ranges::any_of(nodes, &NodeInfo::serial) ? 1 : 0;
    exact_replays += session->stats().exact_replays;
    patched_nodes += session->stats().patched_nodes;
    kept_ = {};
    why_eager_.clear();
    given_.clear();
    loaded_.clear();
    zips_.clear();
  }
  std::printf(
      "%lld programs, of which %lld run in series; %lld graphs, %lld replays at exact sizes, "
      "%lld nodes set for them\n",
      static_cast<long long>(programs), static_cast<long long>(serial),
      static_cast<long long>(graphs), static_cast<long long>(exact_replays),
      static_cast<long long>(patched_nodes));
  // What few programs are is left to chance.
  if (programs >= 24) {
    EXPECT_GT(exact_replays, programs);
  }
  EXPECT_LE(serial, 1 + programs / 20) << "most programs' steps are ordered by what they touch";
}

}  // namespace
}  // namespace coppice
