// Goal: ranks that vote take the same bucket and the same path, whatever each could do by itself.
// Method: sessions stand for ranks, each on a thread of its own, and vote through a barrier that
// reduces what they propose.

#include <barrier>

#include "tests/graphs/session_fixture.h"

namespace coppice {
namespace {

constexpr size_t kRanks = 3;

class RanksTest : public SessionFixture {
 protected:
  RanksTest() {
    for (size_t rank = 0; rank < kRanks; ++rank) {
      SessionOptions options;
      options.ranks.vote = [this, rank](RankVote& vote) {
        ++votes_[rank];
        Reduce(rank, vote);
        return absl::OkStatus();
      };
      options.ranks.barrier = [this, rank] {
        ++barriers_[rank];
        arrivals_.arrive_and_wait();
        return absl::OkStatus();
      };
      ranks_.push_back(MakeAffine(options));
    }
  }

  // What a communication library's all-gather would give to each rank.
  void Reduce(size_t rank, RankVote& vote) {
    buckets_[rank] = vote.bucket[0];
    paths_[rank] = vote.kind;
    arrivals_.arrive_and_wait();
    const int64_t largest = *std::max_element(buckets_.begin(), buckets_.end());
    vote.unanimous = std::all_of(buckets_.begin(), buckets_.end(),
                                 [&](int64_t bucket) { return bucket == largest; });
    vote.bucket[0] = largest;
    for (const RunKind path :
         {RunKind::kReplay, RunKind::kRecord, RunKind::kWarmUp, RunKind::kEager}) {
      if (std::find(paths_.begin(), paths_.end(), path) != paths_.end()) vote.kind = path;
    }
    arrivals_.arrive_and_wait();
  }

  // Every rank makes a call at its extent, all at once.
  std::vector<absl::StatusOr<Lease>> RunAll(const std::array<int64_t, kRanks>& extents) {
    std::vector<absl::StatusOr<Lease>> leases(kRanks);
    std::vector<Tensor> inputs;
    for (const int64_t n : extents) {
      uploads_.push_back(*device_.Upload(Ramp(n)));
      inputs.push_back(FloatsAt(uploads_.back().address(), n));
    }
    const int64_t scalar = std::bit_cast<int64_t>(2.0);
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        EXPECT_OK(device_.context().MakeCurrent());
        leases[rank] = ranks_[rank].session->Run({.program = ranks_[rank].program,
                                                  .binding = ranks_[rank].binding,
                                                  .inputs = {&inputs[rank], 1},
                                                  .scalars = {&scalar, 1},
                                                  .stream = device_.stream()});
      });
    }
    for (std::thread& thread : threads)
      thread.join();
    for (size_t rank = 0; rank < kRanks; ++rank) {
      EXPECT_OK(leases[rank]);
      EXPECT_EQ(Read(*leases[rank]), Expected(extents[rank])) << "rank " << rank;
    }
    return leases;
  }

  void ExpectPaths(const std::array<int64_t, kRanks>& extents,
                   const std::array<RunKind, kRanks>& paths) {
    const std::vector<absl::StatusOr<Lease>> leases = RunAll(extents);
    for (size_t rank = 0; rank < kRanks; ++rank)
      EXPECT_EQ(leases[rank]->kind(), paths[rank]) << "rank " << rank;
  }

  std::barrier<> arrivals_{kRanks};
  std::array<int64_t, kRanks> buckets_{};
  std::array<RunKind, kRanks> paths_{};
  std::array<int, kRanks> votes_{};
  std::array<int, kRanks> barriers_{};
  std::vector<Affine> ranks_;
};

TEST_F(RanksTest, AllTakeTheLargestBucketAndTheLowestPath) {
  for (const RunKind path : {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay})
    ExpectPaths({3, 7, 16}, {path, path, path});
  for (const Affine& rank : ranks_) {
    ASSERT_EQ(rank.session->nodes().size(), 1U);
    EXPECT_EQ(rank.session->nodes()[0].bucket[0], 16);
  }
}

TEST_F(RanksTest, VoteOnceIfTheyProposeOneBucketAndTwiceIfNot) {
  RunAll({4, 4, 4});
  EXPECT_EQ(votes_, (std::array<int, kRanks>{1, 1, 1}));
  RunAll({4, 8, 4});
  EXPECT_EQ(votes_, (std::array<int, kRanks>{3, 3, 3}));
}

TEST_F(RanksTest, OneThatMayNotGraphMakesAllEager) {
  for (int i = 0; i < 3; ++i)
    RunAll({4, 4, 4});
  ranks_[1].session->SetStance(Stance::kEager);
  ExpectPaths({4, 4, 4}, {RunKind::kEager, RunKind::kEager, RunKind::kEager});
}

TEST_F(RanksTest, ThoseWithAGraphMeetTheBarrierOfTheOneThatRecords) {
  for (int i = 0; i < 2; ++i)
    RunAll({4, 4, 4});
  EXPECT_EQ(barriers_, (std::array<int, kRanks>{1, 1, 1}));
  ASSERT_OK(ranks_[1].session->Evict(nullptr).status());
  ExpectPaths({4, 4, 4}, {RunKind::kReplay, RunKind::kRecord, RunKind::kReplay});
  EXPECT_EQ(barriers_, (std::array<int, kRanks>{2, 2, 2}));
}

TEST_F(RanksTest, OneThatIsColdHasAllRunAtTheBucketWithoutAGraph) {
  for (int i = 0; i < 3; ++i)
    RunAll({4, 4, 4});
  ranks_[2] = MakeAffine({.ranks = {.vote = [this](RankVote& vote) {
                            Reduce(2, vote);
                            return absl::OkStatus();
                          }}});
  ExpectPaths({3, 3, 3}, {RunKind::kEager, RunKind::kEager, RunKind::kWarmUp});
}

TEST_F(RanksTest, VoteForMoreThanARankCanIsRefused) {
  const Affine affine = MakeAffine({.ranks = {.vote = [](RankVote& vote) {
                                      vote.kind = RunKind::kReplay;
                                      return absl::OkStatus();
                                    }}});
  EXPECT_THAT(Call(affine, 4), StatusIs(kWrongArgument));
  EXPECT_EQ(Executions(), 0);
}

}  // namespace
}  // namespace coppice
