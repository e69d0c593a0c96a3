// ranks: two ranks whose requests differ and whose graphs must not, because their programs launch
// collectives. Each session votes before a call runs; both take the larger bucket. Here a rank is
// a thread with a session of its own, and the vote a barrier in place of an all-gather.

#include <algorithm>
#include <array>
#include <barrier>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "fmt/format.h"

#include "coppice/base/status.h"
#include "coppice/graphs/session.h"
#include "coppice/runtime/kernel_library.h"
#include "coppice/runtime/stream.h"

#include "copies.h"
#include "open_driver.h"
#include "scale.h"

namespace samples {
namespace {

constexpr size_t kRanks = 2;
constexpr int64_t kLengths[kRanks][3] = {{3, 7, 5}, {12, 9, 16}};  // Of each rank's calls.

// What the ranks propose, and what all of them do then.
class Ballot {
 public:
  absl::Status Vote(size_t rank, coppice::RankVote& vote) {
    buckets_[rank] = vote.bucket[0];
    kinds_[rank] = vote.kind;
    all_here_.arrive_and_wait();
    vote.bucket[0] = *std::max_element(buckets_.begin(), buckets_.end());
    vote.kind = *std::max_element(kinds_.begin(), kinds_.end());  // Of replay, ..., eager.
    vote.unanimous = std::count(buckets_.begin(), buckets_.end(), vote.bucket[0]) == kRanks;
    all_here_.arrive_and_wait();
    return absl::OkStatus();
  }

  void Wait() { all_here_.arrive_and_wait(); }
  void Leave() { all_here_.arrive_and_drop(); }

 private:
  std::array<int64_t, kRanks> buckets_{};
  std::array<coppice::RunKind, kRanks> kinds_{};
  std::barrier<> all_here_{kRanks};
};

// Everything one rank does; `report` gets a line per call.
absl::Status RunRank(size_t rank,
                     const coppice::Context& context,
                     Ballot& ballot,
                     std::string& report) {
  const coppice::Driver& driver = context.driver();
  COPPICE_RETURN_IF_ERROR(context.MakeCurrent());
  COPPICE_ASSIGN_OR_RETURN(const auto stream, coppice::Stream::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(const auto library, coppice::KernelLibrary::Load(driver, scale_image));
  COPPICE_ASSIGN_OR_RETURN(const coppice::Kernel scale, library.Get("Scale"));
  COPPICE_ASSIGN_OR_RETURN(const auto memory, Upload(driver, stream, std::vector<float>(16, 1.0F)));

  coppice::SessionOptions options;
  options.ranks.vote = [&](coppice::RankVote& vote) { return ballot.Vote(rank, vote); };
  options.ranks.barrier = [&] { return ballot.Wait(), absl::OkStatus(); };
  COPPICE_ASSIGN_OR_RETURN(const auto session, coppice::Session::Create(context, options));

  coppice::ProgramSpec spec{.name = "shard", .claim = coppice::PaddingContents::kRowIndependent};
  const int n = spec.AddSymbol("n", *coppice::PaddingPolicy::Pow2(16));
  spec.inputs = {{.name = "x", .dims = {coppice::Dim::Symbol(n)}}};
  spec.outputs = {{.name = "y", .dims = {coppice::Dim::Symbol(n)}}};
  const auto launch = [&](coppice::CallContext& call) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const coppice::Tensor y, call.AllocateOutput(0));
    const ScaleParams params{.x = reinterpret_cast<const float*>(call.input(0).data),
                             .y = reinterpret_cast<float*>(y.data),
                             .count = call.extent(n),
                             .factor = 2};
    return coppice::Launch(driver, scale, call.stream(), params, 1U);  // And a collective.
  };
  COPPICE_ASSIGN_OR_RETURN(const auto* program, session->Register(std::move(spec), launch));

  for (const int64_t length : kLengths[rank]) {
    const coppice::Tensor x[] = {
        coppice::Tensor::Dense(memory.address(), coppice::DType::kFloat32, {&length, 1})};
    COPPICE_ASSIGN_OR_RETURN(
        const coppice::Lease lease,
        session->Run({.program = program, .inputs = x, .stream = stream.handle()}));
    report += fmt::format("rank {}  length {:2}  {}\n", rank, length, NameOf(lease.kind()));
  }
  for (const coppice::NodeInfo& node : session->nodes())
    report += fmt::format("rank {}  has a graph for {}\n", rank, node.bucket[0]);
  return stream.Synchronize();
}

absl::Status RunSample(const coppice::Driver& driver) {
  COPPICE_ASSIGN_OR_RETURN(const auto context, coppice::Context::Create(driver));
  Ballot ballot;
  std::array<absl::Status, kRanks> statuses;
  std::array<std::string, kRanks> reports;
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      statuses[rank] = RunRank(rank, context, ballot, reports[rank]);
      ballot.Leave();  // So that nobody waits for a rank that failed.
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  for (const std::string& report : reports)
    fmt::print("{}", report);
  for (const absl::Status& status : statuses)
    COPPICE_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

}  // namespace
}  // namespace samples

int main() {
  std::unique_ptr<coppice::Emulator> emulator;
  const auto driver = samples::OpenDriver(samples::scale_image, emulator);
  const absl::Status status = driver.ok() ? samples::RunSample(*driver) : driver.status();
  return samples::Finish("ranks", status, emulator);
}
