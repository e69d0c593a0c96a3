// Goal: a table gives every entry its cost, a wrong table is refused by line, and the documented
// table says what its sources say.
// Method: tables in the test, and sums worked out by hand.

#include "tools/ledger/latency_model.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coppice/base/units.h"

#include "tests/support/status_matchers.h"
#include "tools/ledger/driver_ledger.h"

namespace coppice {
namespace {

using testing::HasSubstr;

const std::string kHeader = "entry\tcall_us\tnode_us\tmib_us\tsource\n";
const std::string kTable = "# A comment.\n" + kHeader +
                           "default\t1.5\t0\t0\tassumed\n"
                           "# Another.\n"
                           "cuMemMap\t20\t0\t0.5\tsomebody\n"
                           "cuGraphLaunch\t2.5\t0.001\t0\tsomebody\n";

int Map() {
  return DriverLedger::IndexOf(&DriverTable::MemMap);
}

// The cost of a call on the documented table.
template <typename Function>
double Documented(Function DriverTable::*entry, int64_t nodes = 0, int64_t bytes = 0) {
  return LatencyModel::Documented().CallUs(DriverLedger::IndexOf(entry), nodes, bytes);
}

TEST(LatencyModelTest, CallCostsItsFixedPartAndItsNodesAndItsMiB) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const LatencyModel model, LatencyModel::Parse(kTable, "t.tsv"));
  EXPECT_EQ(model.name(), "t.tsv");
  EXPECT_DOUBLE_EQ(model.CallUs(Map(), 0, 0), 20);
  EXPECT_DOUBLE_EQ(model.CallUs(Map(), 0, 3 * kMiB / 2), 20.75);
  EXPECT_DOUBLE_EQ(model.CallUs(Map(), 1000, 0), 20) << "its node_us is 0";
  const int launch = DriverLedger::IndexOf(&DriverTable::GraphLaunch);
  EXPECT_DOUBLE_EQ(model.CallUs(launch, 1000, 0), 3.5);
}

TEST(LatencyModelTest, EntryWithoutARowCostsTheDefaultWhereverThatStands) {
  const std::string late = kHeader + "cuMemMap\t20\t0\t0\ts\ndefault\t1.5\t0.25\t0\ts\n";
  COPPICE_ASSERT_OK_AND_ASSIGN(const LatencyModel model, LatencyModel::Parse(late, "t.tsv"));
  EXPECT_DOUBLE_EQ(model.CallUs(DriverLedger::IndexOf(&DriverTable::MemUnmap), 2, 0), 2);
  EXPECT_DOUBLE_EQ(model.CallUs(Map(), 2, 0), 20);
}

TEST(LatencyModelTest, LastLineNeedsNoNewline) {
  const std::string table = kTable.substr(0, kTable.size() - 1);
  EXPECT_OK(LatencyModel::Parse(table, "t.tsv"));
}

TEST(LatencyModelTest, WrongTableIsRefusedWithItsNameAndLine) {
  const struct {
    std::string table;
    const char* where;
  } cases[] = {
      {"", "t.tsv:1:"},
      {"entry\tcall_us\n", "t.tsv:1:"},
      {kHeader, "t.tsv:1:"},
      {kHeader + "cuMemMap\t1\t0\t0\ts\n", "t.tsv:2:"},
      {kTable + "cuMemUnmap\t1\t0\t0\n", "t.tsv:7:"},
      {kTable + "cuMemUnmap\t1\t0\t0\ts\tmore\n", "t.tsv:7:"},
      {kTable + "cuNoSuchEntry\t1\t0\t0\ts\n", "'cuNoSuchEntry'"},
      {kTable + "MemUnmap\t1\t0\t0\ts\n", "'MemUnmap'"},
      {kTable + "cuMemMap\t1\t0\t0\ts\n", "t.tsv:7:"},
      {kTable + "default\t1\t0\t0\ts\n", "t.tsv:7:"},
      {kTable + "cuMemUnmap\t-1\t0\t0\ts\n", "call_us is '-1'"},
      {kTable + "cuMemUnmap\t1\tx\t0\ts\n", "node_us is 'x'"},
      {kTable + "cuMemUnmap\t1\t0\t1 \ts\n", "mib_us is '1 '"},
      {kTable + "cuMemUnmap\t\t0\t0\ts\n", "call_us is ''"},
      {kTable + "cuMemUnmap\tinf\t0\t0\ts\n", "call_us is 'inf'"},
      {kTable + "cuMemUnmap\tnan\t0\t0\ts\n", "call_us is 'nan'"},
      {kTable + "cuMemUnmap\t1\t0\t0\t\n", "t.tsv:7:"},
  };
  for (const auto& wrong : cases) {
    const absl::StatusOr<LatencyModel> model = LatencyModel::Parse(wrong.table, "t.tsv");
    ASSERT_THAT(model, StatusIs(absl::StatusCode::kInvalidArgument)) << wrong.table;
    EXPECT_THAT(MessageOf(model.status()), HasSubstr(wrong.where)) << wrong.table;
  }
}

TEST(LatencyModelTest, DocumentedTableGivesThePublishedFigures) {
  EXPECT_EQ(LatencyModel::Documented().name(), "latency.documented.tsv");
  EXPECT_NEAR(Documented(&DriverTable::LaunchKernel), 2.7, 0.15);
  EXPECT_NEAR(Documented(&DriverTable::GraphLaunch, 100), 2.5, 0.2);
  EXPECT_NEAR(Documented(&DriverTable::GraphLaunch, 1025), 3.5, 0.2);
  EXPECT_NEAR(
      Documented(&DriverTable::GraphLaunch, 100) + Documented(&DriverTable::GraphUpload, 100), 15,
      0.1);
  // One line through the origin meets both published points within a tenth or so.
  EXPECT_NEAR(Documented(&DriverTable::GraphInstantiateWithFlags, 100), 127, 0.12 * 127);
  EXPECT_NEAR(Documented(&DriverTable::GraphInstantiateWithFlags, 1025), 1526, 0.12 * 1526);
  EXPECT_NEAR(Documented(&DriverTable::MemMap) + Documented(&DriverTable::MemSetAccess), 40, 0.1);
  EXPECT_NEAR(Documented(&DriverTable::MemUnmap), 1.6 * 40, 0.1);
}

TEST(LatencyModelTest, OnTheDocumentedTableAGraphPaysOffOnlyAfterItsInstantiation) {
  // What a cost decision asks: after how many replays is a graph of 100 launches worth recording?
  const double eager = 100 * Documented(&DriverTable::LaunchKernel);
  const double replay = Documented(&DriverTable::GraphLaunch, 100);
  const double record = Documented(&DriverTable::GraphInstantiateWithFlags, 100) +
                        Documented(&DriverTable::GraphUpload, 100);
  EXPECT_LT(replay, eager / 50);
  EXPECT_GT(record, replay);
  EXPECT_LT(record, eager) << "the first replay pays for it";
}

TEST(LatencyModelDeathTest, ArgumentsMustBeAnEntryAndCounts) {
  const LatencyModel& model = LatencyModel::Documented();
  EXPECT_DEATH((void)model.CallUs(-1, 0, 0), "no such driver entry");
  EXPECT_DEATH((void)model.CallUs(kDriverEntryCount, 0, 0), "no such driver entry");
  EXPECT_DEATH((void)model.CallUs(0, -1, 0), "nodes and bytes must not be negative");
  EXPECT_DEATH((void)model.CallUs(0, 0, -1), "nodes and bytes must not be negative");
}

}  // namespace
}  // namespace coppice
