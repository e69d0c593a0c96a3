// Goal: what random traffic has found once stays right. Method: the smallest scripts that failed,
// named after what they expect; a fault strikes at each of the driver calls that follow it.

#include "tests/sim/traffic_world.h"
#include "tests/support/test.h"

namespace coppice {
namespace {

struct Found {
  const char* name;
  const char* script;  // "{}" stands for the number of the driver call that fails.
};

void PrintTo(const Found& found, std::ostream* out) {
  *out << found.name;
}

const Found kFound[] = {
    {"ExplainSeesTheScopeThatRefusesTheCall", R"(
call id=1
call id=2
hold id=2
call id=3 explain=1
)"},
    {"DriverErrorInARecordingIsNoFindingOfTheAudit", R"(
options audit_keys=1
call id=1 program=temps extent=33
fault nth={} value=1
call id=2 program=temps extent=33
call id=3 program=temps extent=33
sync
fault nth={} value=1
call id=4 program=temps extent=33
call id=5 program=temps extent=33
)"},
    {"WarmWaitsForCallsWhoseMemoryItTrims", R"(
call id=1 program=forked extent=17
drop id=1
call id=2 program=random
drop id=2
call id=3 program=forked extent=17
warm program=random
)"},
    {"StrictStanceReplaysWhatAGateWouldTime", R"(
options gate=1
call id=1 program=bound extent=33
call id=2 program=bound extent=33
call id=3 program=bound extent=33
stance value=3
call id=4 program=bound extent=33
)"},
    {"OutputsThatWerePoisonedAreExpiredThoughTheCallFails", R"(
options poison_expired=1
call id=1 extent=17
call id=2 extent=17
fault nth={}
call id=3 extent=17
read id=2
)"},
    {"EmptyInputOfAnotherLaneIsReadUnderItsScope", R"(
options lanes=2
stance value=1
call id=1 extent=0
call id=2 source=1
hold id=2
call id=3 source=2 lane=1
)"},
    {"MutatedInputUnderAScopeIsRefused", R"(
call id=1
hold id=1
call id=2 program=in_place source=1
)"},
    {"MutatedInputThatIsStagedIsNotCopiedBackOverTheOutputs", R"(
call id=1 program=in_place extent=33
call id=2 program=masked extent=49
call id=3 program=masked extent=49
call id=4 program=in_place source=3
read id=4
)"},
    {"DroppedSlotIsNotUsedAgainForOutputsElsewhere", R"(
options copy_out_bytes=1024
call id=1 program=broken extent=33
call id=2 program=broken extent=33
drop id=2
call id=3 program=broken extent=33 mode=2
drop id=3
call id=4 program=broken extent=33
drop id=4
call id=5 program=broken extent=33 mode=1
)"},
    {"ConstantsAreTheSameAllocationAfterASuspension", R"(
options check_addresses=1 constants=1
call id=1 program=exact
suspend value=1
resume
call id=2 program=exact
)"},
    {"DeclaredFillTakesThePlaceOfWhatTheProducerPadded", R"(
call id=1 program=temps extent=49
call id=2 program=softmax extent=49
call id=3 program=temps extent=49
call id=4 program=softmax source=3
read id=4
call id=11 extent=49
call id=12 program=sum extent=49
call id=13 extent=49
call id=14 program=sum source=13
read id=14
call id=21 program=columns extent=49
call id=22 program=maximum extent=49
# A salt with which what pads the rows is larger than all that is in them.
call id=23 program=columns extent=49 scalar=67
call id=24 program=maximum source=23
read id=24
)"},
    {"IncludeThatLacksRoomLeavesTheCaptureAsItWas", R"(
options budget_kib=6184
call id=1 program=exact extent=64
warm
call id=2 program=exact extent=64
drop id=2
warm extent=2
call id=3 extent=3
include id=-1
)"},
    {"CallThatFailedInAChainMadeNoneOfTheOutputsGivenLater", R"(
options dtype=8 other_dtype=8 budget_kib=4126
call id=10 program=sentinel extent=33
drop id=10
call id=116 program=sentinel extent=33 mode=2
chain
breakdown
call id=212
call id=213 program=joined extent=17
fault nth=3
call id=225 program=sentinel extent=33
call id=226 program=bound extent=65
call id=227 source=226 output=1 donate=1
evict
unchain
chain
call id=241 program=joined extent=17
)"},
    // At the sizes of a call an output has fewer bytes than its path keeps for it, and what is
    // given away beside it was planned into those.
    {"GiftBesideAnExactReplay", R"(
options dtype=3 packages=3
call id=28 program=masked extent=33
rebucket program=masked
chain
call id=443 program=masked
call id=444
call id=445 source=444 donate=1
read id=443
)"},
    // An executable goes with the last of its buckets, and not with the first.
    {"FirstBucketOfAnExecutableGoes", R"(
options packages=2
call id=322 program=masked extent=17
call id=373 program=masked
suspend everything=1
sync
)"},
};

class TrafficFoundTest : public testing::TestWithParam<Found> {};

TEST_P(TrafficFoundTest, StaysRight) {
  constexpr int64_t kDriverCalls = 48;
  const std::string text = GetParam().script;
  const bool faults = text.find("{}") != std::string::npos;
  for (int64_t nth = 1; nth <= (faults ? kDriverCalls : 1); ++nth) {
    std::string numbered = text;
    for (size_t at = 0; (at = numbered.find("{}")) != std::string::npos;)
      numbered.replace(at, 2, std::to_string(nth));
    COPPICE_ASSERT_OK_AND_ASSIGN(const TrafficScript script, ParseScript(numbered));
    EXPECT_EQ(RunTrafficApart(script), "") << numbered;
  }
}

INSTANTIATE_TEST_SUITE_P(Scripts,
                         TrafficFoundTest,
                         testing::ValuesIn(kFound),
                         [](const auto& found) { return std::string(found.param.name); });

}  // namespace
}  // namespace coppice
