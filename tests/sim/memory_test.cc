// Goal: memory that comes and goes changes no value in traffic over 200 buckets whose graphs do not
// all fit.
// Method: affine with a temporary that grows with the bucket; every output is compared with what
// the host computes, bytes are read from the ledger and from the books' high-water mark.
//
// COPPICE_TEST_SHARE=N in the environment runs one in N of the rounds.

#include "tests/graphs/session_fixture.h"

namespace coppice {
namespace {

class MemoryTest : public testing::Test, protected AffineDevice {
 protected:
  static constexpr int64_t kBytesPerElement = 64 * kKiB;

  // Affine with buckets 1, 2, 3, ... `buckets`.
  Affine MakeLinear(int64_t buckets, const SessionOptions& options) const {
    ProgramSpec spec = AffineSpec();
    spec.symbols[0].policy = *PaddingPolicy::Linear(1, buckets);
    return MakeAffine(options, AffineCallable([](CallContext& context) -> absl::Status {
                        COPPICE_ASSIGN_OR_RETURN(
                            const DeviceAddress large,
                            context.Allocate(context.extent(0) * kBytesPerElement));
                        return context.Free(large);
                      }),
                      spec);
  }

  // Runs affine at `n` and checks its values; inputs are uploaded once per size.
  RunKind Run(const Affine& affine, int64_t n) {
    auto input = inputs_.find(n);
    if (input == inputs_.end()) input = inputs_.emplace(n, *device_.Upload(Ramp(n))).first;
    const Tensor x = FloatsAt(input->second.address(), n);
    const int64_t scalar = std::bit_cast<int64_t>(2.0);
    absl::StatusOr<Lease> lease = affine.session->Run({.program = affine.program,
                                                       .binding = affine.binding,
                                                       .inputs = {&x, 1},
                                                       .scalars = {&scalar, 1},
                                                       .stream = device_.stream()});
    EXPECT_OK(lease);
    if (!lease.ok()) return RunKind::kEager;
    EXPECT_EQ(Read(*lease), Expected(n));
    return lease->kind();
  }

  std::map<int64_t, DeviceMemory> inputs_;
};

TEST_F(MemoryTest, TrafficOverTwoHundredBucketsKeepsItsBudget) {
  constexpr int64_t kBuckets = 200;
  const int64_t calls = std::max<int64_t>(20'000 / TestShare(), 1000);
  int64_t largest = 0;
  int64_t graphs = 0;
  {
    // What all graphs take, and what the largest bucket takes by itself.
    Affine affine = MakeLinear(kBuckets, {});
    for (int64_t n = kBuckets; n >= 1; --n) {
      Run(affine, n);
      Run(affine, n);
    }
    ASSERT_OK(affine.session->memory().Trim());
    const MemoryUsage usage = affine.session->memory().usage();
    graphs = usage.of(MemoryKind::kGraphs);
    largest = usage.total - graphs;
  }
  const int64_t budget = largest + graphs / 4;
  Affine affine = MakeLinear(kBuckets, {.memory = {.budget_bytes = budget}});
  // Some sizes are common, most are rare: rank r with a probability of about 1 / r.
  std::mt19937_64 random(TestSeed());
  std::vector<int64_t> sizes;
  std::vector<double> weights;
  for (int64_t n = 1; n <= kBuckets; ++n) {
    sizes.push_back(n);
    weights.push_back(1 / static_cast<double>(n));
  }
  std::shuffle(sizes.begin(), sizes.end(), random);
  std::discrete_distribution<size_t> draw(weights.begin(), weights.end());
  for (int64_t call = 0; call < calls && !HasFailure(); ++call) {
    Run(affine, sizes[draw(random)]);
    ASSERT_LE(device_.ledger().created_bytes(), budget);
  }
  const SessionStats stats = affine.session->stats();
  const int64_t replays = stats.runs[static_cast<size_t>(RunKind::kReplay)];
  EXPECT_LE(affine.session->memory().usage().total_peak, budget);
  // The first calls of every bucket cannot replay, so a short run has too few that can.
  if (TestShare() == 1) {
    EXPECT_GE(2 * replays, stats.calls);
  }
  EXPECT_GT(stats.evictions, 0);
  fmt::print("{} calls: {} replays, {} evictions, {} remaps; budget {}, peak {} bytes\n",
             stats.calls, replays, stats.evictions, stats.remaps, budget,
             affine.session->memory().usage().total_peak);
}

}  // namespace
}  // namespace coppice
