// Goal: every sentence of chain_scope.h. Method: affine on the emulator, with leases that are held
// and scopes that are moved.

#include "coppice/graphs/chain_scope.h"

#include "tests/graphs/session_fixture.h"

namespace coppice {
namespace {

class ChainScopeTest : public SessionFixture {
 protected:
  // Whether the lane has no open chain, by opening one.
  static bool IsFree(const Affine& affine) { return affine.session->Chain().ok(); }
};

TEST_F(ChainScopeTest, LaneHasAChainWhileTheScopeLives) {
  const Affine affine = MakeAffine();
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(const ChainScope chain, affine.session->Chain());
    EXPECT_FALSE(IsFree(affine));
  }
  EXPECT_TRUE(IsFree(affine));
}

TEST_F(ChainScopeTest, MovedScopeEndsTheChainOnce) {
  const Affine affine = MakeAffine();
  std::optional<ChainScope> outer;
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(ChainScope inner, affine.session->Chain());
    outer.emplace(std::move(inner));
  }
  EXPECT_FALSE(IsFree(affine));
  outer.reset();
  EXPECT_TRUE(IsFree(affine));
}

TEST_F(ChainScopeTest, CallsLeaveLeasedOutputsOfTheChainAlone) {
  const Affine affine = MakeAffine();
  for (int round = 0; round < 3; ++round) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const ChainScope chain, affine.session->Chain());
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease first, Call(affine, 4));
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease second, Call(affine, 3));
    EXPECT_EQ(Read(first), Expected(4));
    EXPECT_EQ(Read(second), Expected(3));
  }
}

TEST_F(ChainScopeTest, FirstCallIsARoot) {
  const Affine affine = MakeAffine();
  CallTimes(2, affine, 4);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease before, Call(affine, 4));
  COPPICE_ASSERT_OK_AND_ASSIGN(const ChainScope chain, affine.session->Chain());
  ExpectRun(affine, 4, RunKind::kReplay);  // The graph of the root, which writes over `before`.
  EXPECT_THAT(before.Read(device_.stream()), StatusIs(kRefused));
}

}  // namespace
}  // namespace coppice
