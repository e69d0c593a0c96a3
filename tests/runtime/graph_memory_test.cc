// Goal: a table of the probe gives a graph what its nodes take, a wrong table is refused by line,
// and the documented table says what its sources say.
// Method: tables in the test, sums worked out by hand, and one captured graph.

#include "coppice/runtime/graph_memory.h"

#include "tests/support/test.h"
#include "tests/support/test_device.h"

namespace coppice {
namespace {

const std::string kHeader =
    "kind\tnodes\tcopies\tinstantiated_bytes\tlaunched_bytes\tdestroyed_bytes\tbytes_per_exec\t"
    "bytes_per_node\n";

std::string Row(const std::string& kind, const std::string& nodes, const std::string& bytes) {
  return kind + "\t" + nodes + "\t20\t0\t0\t0\t" + bytes + "\t0\n";
}

// Kernels: 500 by itself and 100 each; the others 10 to 50 each.
const std::string kTable = "# A comment.\n" + kHeader + Row("kernel", "1", "600") +
                           Row("kernel", "10", "7") + Row("kernel", "100", "10500") +
                           Row("kernel_3k", "1", "99999") + Row("memcpy", "10", "100") +
                           Row("memset", "1", "20") + Row("host", "1", "30") +
                           Row("child", "1", "40") + Row("empty", "1", "50");

TEST(GraphMemoryModelTest, AGraphTakesWhatItCostsByItselfAndWhatItsNodesAdd) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const GraphMemoryModel model,
                               GraphMemoryModel::Parse(kTable, "t.tsv"));
  EXPECT_EQ(model.BytesOf({1, 0, 0, 0, 0, 0}), 600);
  EXPECT_EQ(model.BytesOf({100, 0, 0, 0, 0, 0}), 10'500);
  EXPECT_EQ(model.BytesOf({2, 3, 1, 1, 1, 1}), 500 + 200 + 30 + 20 + 30 + 40 + 50);
}

TEST(GraphMemoryModelTest, RefusesAWrongTableByLine) {
  const auto refusal = [](const std::string& text) {
    return std::string(GraphMemoryModel::Parse(text, "t.tsv").status().message());
  };
  EXPECT_THAT(refusal("kind\tbytes\n"), HasSubstr("t.tsv"));
  for (const char* bad : {"-1", "nan", "x", ""}) {
    EXPECT_THAT(refusal(kHeader + Row("kernel", "1", "600") + Row("memcpy", "1", bad)),
                HasSubstr("t.tsv:3"));
  }
  EXPECT_THAT(refusal(kHeader + Row("kernel", "0", "600")), HasSubstr("t.tsv:2"));
  EXPECT_THAT(refusal(kHeader + Row("kernel", "1", "600")), HasSubstr("memcpy"));
}

TEST(GraphMemoryModelTest, DocumentedGraphsTakeTenKiBPerNode) {
  const GraphMemoryModel& model = GraphMemoryModel::Documented();
  EXPECT_EQ(model.BytesOf({100, 0, 0, 0, 0, 0}), 1000 * kKiB);
  EXPECT_EQ(model.BytesOf({0, 1, 1, 1, 1, 1}), 50 * kKiB);
}

TEST(GraphMemoryModelTest, CountsTheNodesOfAGraph) {
  TestDevice device;
  const DriverTable& cu = device.driver().table();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Graph graph, Graph::Create(device.driver()));
  CuGraphNode node = nullptr;
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(cu.GraphAddEmptyNode(&node, graph.handle(), nullptr, 0), CuResult::kSuccess);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Graph::Topology topology, graph.GetTopology());
  COPPICE_ASSERT_OK_AND_ASSIGN(const GraphMemoryModel model,
                               GraphMemoryModel::Parse(kTable, "t.tsv"));
  COPPICE_ASSERT_OK_AND_ASSIGN(const int64_t bytes, model.BytesOf(device.driver(), topology));
  EXPECT_EQ(bytes, 500 + 3 * 50);
}

}  // namespace
}  // namespace coppice
