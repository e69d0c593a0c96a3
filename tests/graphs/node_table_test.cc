// Goal: every sentence of graphs/node/node_key.h, node.h, node_table.h and of node_tables.h in
// graphs/lane that needs no recording. Method: nodes that nobody recorded, of two programs of one
// lane.

#include "graphs/node/node_table.h"

#include "graphs/lane/node_tables.h"
#include "tests/graphs/lane_scene.h"

namespace coppice::internal {
namespace {

class NodeTableTest : public testing::Test {
 protected:
  Node& Add(const SketchedNode& sketch) { return scene_.AddNode(scene_.program, sketch); }
  NodeTable& table() { return scene_.lane.nodes().Of(scene_.program); }
  Bucket& bucket(int64_t n) { return table().BucketFor(KeyOf(n)); }

  LaneScene scene_;
  StaticVersion here_;
  StaticVersion there_;
};

TEST_F(NodeTableTest, KeysAreComparedInFull) {
  NodeKey key;
  key.bucket = KeyOf(8);
  const auto differs = [&key](const auto& change) {
    NodeKey other = key;
    change(other);
    return !(other == key);
  };
  const Surroundings around;
  EXPECT_FALSE(differs([](NodeKey&) {}));
  EXPECT_FALSE(differs([](NodeKey& other) { other.bucket.words[1] = 5; }));  // Not in the key.
  EXPECT_TRUE(differs([](NodeKey& other) { other.bucket.words[0] = 9; }));
  EXPECT_TRUE(differs([](NodeKey& other) {
    other.bucket.words[1] = 0;
    other.bucket.word_count = 2;
  }));
  EXPECT_TRUE(differs([this](NodeKey& other) { other.statics = &here_; }));
  EXPECT_TRUE(differs([&](NodeKey& other) { other.surroundings = &around; }));
}

TEST_F(NodeTableTest, RetiresSomeBucketsAndLeavesTheOthers) {
  Node& eight = Add({.n = 8});
  Node& leased = Add({.n = 16});
  Node& sixteen = Add({.n = 16, .statics = &here_});
  leased.AddLease();
  NodeTables& tables = scene_.lane.nodes();
  tables.RetireBuckets(scene_.program, [](const BucketKey& key) { return key.words[0] == 16; });
  EXPECT_EQ(table().Find(eight.key()), &eight);
  EXPECT_EQ(table().Find(leased.key()), nullptr);
  EXPECT_EQ(table().FindBucket(KeyOf(16)), nullptr);
  EXPECT_EQ(table().buckets().size(), 1U);
  EXPECT_FALSE(eight.retired());
  EXPECT_TRUE(sixteen.retired());
  tables.EvictRetired();
  int retired = 0;
  tables.ForEachRetired([&](const Node& node) { retired += &node == &leased ? 1 : 100; });
  EXPECT_EQ(retired, 1) << "one with leased outputs goes, or one without stays";
  leased.DropLease();
  tables.EvictRetired();
  EXPECT_FALSE(tables.has_retired());
  tables.RetireBuckets(scene_.program, [](const BucketKey&) { return false; });
  EXPECT_FALSE(tables.has_retired());
}

TEST_F(NodeTableTest, FindsTheNodeOfAKeyOrNull) {
  Node& eight = Add({.n = 8});
  Node& sixteen = Add({.n = 16});
  Node& moved = Add({.n = 8, .statics = &here_});
  for (int round = 0; round < 2; ++round) {
    for (Node* node : {&eight, &eight, &sixteen, &moved})
      EXPECT_EQ(table().Find(node->key()), node);
  }
  NodeKey none;
  none.bucket = KeyOf(32);
  EXPECT_EQ(table().Find(none), nullptr);
  EXPECT_EQ(table().CountGraphs(), 3);
}

TEST_F(NodeTableTest, BucketsAreMadeOnceAndKeptInOrder) {
  EXPECT_EQ(table().FindBucket(KeyOf(16)), nullptr);
  Bucket& sixteen = bucket(16);
  Bucket& eight = bucket(8);
  EXPECT_EQ(&bucket(16), &sixteen);
  EXPECT_EQ(table().FindBucket(KeyOf(8)), &eight);
  EXPECT_EQ(table().buckets(), (std::vector<Bucket*>{&sixteen, &eight}));
  EXPECT_EQ(sixteen.key, KeyOf(16));
}

TEST_F(NodeTableTest, RemovedNodeIsFoundNoMoreAndItsBucketStays) {
  const Node& node = Add({.n = 8});
  const NodeKey key = node.key();
  ASSERT_NE(table().Find(key), nullptr);
  EXPECT_FALSE(bucket(8).evicted());
  table().Remove(node);
  EXPECT_EQ(table().Find(key), nullptr);
  EXPECT_EQ(table().CountGraphs(), 0);
  EXPECT_TRUE(bucket(8).nodes().empty());
  EXPECT_TRUE(bucket(8).evicted());
}

TEST_F(NodeTableTest, RetiredNodeIsFoundAndCountsAsDropped) {
  Node& here = Add({.n = 8, .statics = &here_});
  EXPECT_FALSE(here.retired());
  EXPECT_TRUE(bucket(8).has_graph());
  here_.retired = true;
  EXPECT_TRUE(here.retired());
  here.AddLease();
  EXPECT_FALSE(here.retired());
  EXPECT_EQ(table().CountGraphs(), 1);
  here.DropLease();
  EXPECT_EQ(table().Find(here.key()), &here);
  EXPECT_EQ(table().CountGraphs(), 0);
  EXPECT_FALSE(bucket(8).has_graph());
  EXPECT_TRUE(bucket(8).evicted());
  EXPECT_FALSE(Add({.n = 8}).retired());
  EXPECT_TRUE(bucket(8).has_graph());
  EXPECT_EQ(table().CountGraphs(), 1);
}

TEST_F(NodeTableTest, KeyWithANodeGetsNoOther) {
  Add({.n = 8});
  EXPECT_DEATH(Add({.n = 8}), "the key has a node");
}

TEST_F(NodeTableTest, EveryNodeIsVisited) {
  const std::set<const Node*> added = {&Add({.n = 8}), &Add({.n = 16}), &Add({.n = 32})};
  std::set<const Node*> seen;
  table().ForEachNode([&seen](const Node& node) { seen.insert(&node); });
  EXPECT_EQ(seen, added);
}

TEST_F(NodeTableTest, BucketKnowsItsNodesAndReRecordsInOrder) {
  Node& first = Add({.n = 8});
  Node& second = Add({.n = 8, .statics = &here_, .made_for = Reason::kStaticInputMoved});
  EXPECT_EQ(bucket(8).nodes(), (std::vector<Node*>{&first, &second}));
  EXPECT_EQ(bucket(8).rerecords(), 1);
}

TEST_F(NodeTableTest, BucketIsDescribedAndWarmedUp) {
  Bucket& eight = bucket(8);
  EXPECT_FALSE(eight.described());
  EXPECT_EQ(eight.trace_number(), -1);
  eight.Describe({.program = "rows"}, 5);
  EXPECT_TRUE(eight.described());
  EXPECT_EQ(eight.info().program, "rows");
  EXPECT_EQ(eight.trace_number(), 5);
  eight.NoteWarmUp({.events = {}, .buffer_count = 1});
  eight.NoteWarmUp({.events = {}, .buffer_count = 2});
  EXPECT_EQ(eight.warmups(), 2);
  EXPECT_EQ(eight.script().buffer_count, 2);
}

TEST_F(NodeTableTest, SecondBrokenRecordingInARowIsFinal) {
  Bucket& eight = bucket(8);
  eight.BeginRecording();
  EXPECT_TRUE(eight.recording());
  eight.NoteBroken("why");
  EXPECT_FALSE(eight.recording());
  EXPECT_TRUE(eight.capturable());
  Add({.n = 8});  // A recording that succeeds begins the count anew.
  eight.NoteBroken("why");
  EXPECT_TRUE(eight.capturable());
  eight.NoteBroken("why");
  EXPECT_FALSE(eight.capturable());
}

TEST_F(NodeTableTest, DepartedBucketIsWarmedUpAnewThreeTimes) {
  Bucket& eight = bucket(8);
  for (int departure = 0; departure < 3; ++departure) {
    eight.NoteWarmUp({.events = {}, .buffer_count = 1});
    eight.NoteDeparted("how");
    EXPECT_EQ(eight.warmups(), 0);
    EXPECT_EQ(eight.script().buffer_count, 0);
    EXPECT_EQ(eight.failure(), "how");
    EXPECT_TRUE(eight.capturable());
  }
  eight.NoteDeparted("how");
  EXPECT_FALSE(eight.capturable());
}

TEST_F(NodeTableTest, MovesAreCountedPerInputOfTheBucket) {
  Bucket& eight = bucket(8);
  const StaticVersion before{.addresses = {1, 2}};
  const StaticVersion after{.addresses = {1, 3}};
  for (int move = 0; move < 4; ++move)
    EXPECT_TRUE(eight.NoteMoves(before, after, 4).empty()) << move;
  EXPECT_TRUE(bucket(16).NoteMoves(before, after, 4).empty());
  EXPECT_EQ(eight.NoteMoves(before, after, 4), std::vector<size_t>{1});
}

TEST_F(NodeTableTest, ReopenedBucketBeginsAnewIfItWasFinal) {
  Bucket& eight = bucket(8);
  eight.NoteWarmUp({.events = {}, .buffer_count = 1});
  eight.Reopen();
  EXPECT_EQ(eight.warmups(), 1);
  eight.NoteBroken("why");
  eight.NoteBroken("why");
  eight.Reopen();
  EXPECT_TRUE(eight.capturable());
  EXPECT_EQ(eight.warmups(), 0);
  eight.NoteBroken("why");
  EXPECT_TRUE(eight.capturable());
}

TEST_F(NodeTableTest, OfManyBucketsWithoutANodeTheFirstGoes) {
  Add({.n = 1});
  const auto most = static_cast<int64_t>(kIdleBucketsMax);
  for (int64_t n = 2; n <= most + 1; ++n)
    bucket(n);
  const size_t count = table().buckets().size();
  bucket(2).BeginRecording();
  bucket(3).Refuse(absl::InvalidArgumentError(""));
  bucket(most + 2);
  bucket(most + 3);
  EXPECT_EQ(table().buckets().size(), count + 2) << "two of them are not idle";
  bucket(most + 4);
  EXPECT_EQ(table().buckets().size(), count + 2);
  EXPECT_NE(table().FindBucket(KeyOf(1)), nullptr);
  EXPECT_NE(table().FindBucket(KeyOf(2)), nullptr);
  EXPECT_NE(table().FindBucket(KeyOf(3)), nullptr);
  EXPECT_EQ(table().FindBucket(KeyOf(4)), nullptr);
  EXPECT_NE(table().FindBucket(KeyOf(most + 2)), nullptr);
}

TEST_F(NodeTableTest, BucketMayBeRefusedOrNotCapturable) {
  Bucket& eight = bucket(8);
  EXPECT_OK(eight.refusal());
  eight.BeginRecording();
  eight.EndRecording();
  EXPECT_FALSE(eight.recording());
  eight.NoteNotCapturable("why");
  EXPECT_FALSE(eight.capturable());
  eight.Refuse(absl::InvalidArgumentError(""));
  EXPECT_THAT(eight.refusal(), StatusIs(kWrongArgument));
}

TEST_F(NodeTableTest, NodeKnowsItsTopAndItsLaunches) {
  const Region top{.offset = 4 * kUnit, .bytes = kUnit};
  Node& node = Add({.n = 8, .writes = {{.offset = 0, .bytes = kUnit}, top}, .exec_bytes = 70});
  EXPECT_EQ(node.top(), 5 * kUnit);
  EXPECT_EQ(Add({.n = 16}).top(), 0);
  EXPECT_EQ(node.exec_bytes(), 70);
  EXPECT_EQ(node.trace_number(), -1);
  EXPECT_EQ(node.gate(), nullptr);
  EXPECT_EQ(node.audited(), nullptr);
  node.NoteLaunch(3);
  EXPECT_EQ(node.last_call(), 3U);
  EXPECT_EQ(node.info().replays, 1);
}

class NodeTablesTest : public NodeTableTest {
 protected:
  NodeTables& nodes() { return scene_.lane.nodes(); }
  // Buckets of the nodes that are left.
  std::set<int64_t> Left() {
    std::set<int64_t> left;
    for (const NodeTable& table : nodes().all())
      table.ForEachNode([&left](const Node& node) { left.insert(node.key().bucket.words[0]); });
    return left;
  }

  const Program other_ = ProgramOf(RowsSpec("other"), 3);
};

TEST_F(NodeTablesTest, TablesAreMadeWhenTheyAreAskedFor) {
  EXPECT_EQ(nodes().FindBucket(other_, KeyOf(8)), nullptr);
  EXPECT_TRUE(nodes().all().empty());
  Bucket& made = nodes().Of(other_).BucketFor(KeyOf(8));
  EXPECT_EQ(nodes().FindBucket(other_, KeyOf(8)), &made);
  EXPECT_EQ(nodes().all().size(), 4U);  // In order of registration.
}

TEST_F(NodeTablesTest, TopIsTheHighestOfAll) {
  EXPECT_EQ(nodes().top(), 0);
  Add({.n = 8, .writes = {{.offset = 0, .bytes = 2 * kUnit}}});
  scene_.AddNode(other_, {.n = 8, .writes = {{.offset = kUnit, .bytes = 2 * kUnit}}});
  EXPECT_EQ(nodes().top(), 3 * kUnit);
}

TEST_F(NodeTablesTest, EvictsFirstWhatIsCheapLargeAndLongUnused) {
  Add({.n = 1, .record_ns = 100, .exec_bytes = 10}).NoteLaunch(9);   // Worth 100 / (2 * 10) = 5.
  Add({.n = 2, .record_ns = 100, .exec_bytes = 10}).NoteLaunch(5);   // Long unused: 1.7.
  Add({.n = 4, .record_ns = 20, .exec_bytes = 10}).NoteLaunch(9);    // Cheap: 1.
  Add({.n = 8, .record_ns = 100, .exec_bytes = 100}).NoteLaunch(9);  // Large: 0.5.
  const std::set<int64_t> left[] = {{1, 2, 4}, {1, 2}, {1}, {}};
  for (const std::set<int64_t>& expected : left) {
    EXPECT_TRUE(nodes().EvictOne(nullptr, /*completed=*/10, /*now=*/10));
    EXPECT_EQ(Left(), expected);
  }
  EXPECT_FALSE(nodes().EvictOne(nullptr, 10, 10));
  EXPECT_EQ(nodes().evictions(), 4);
}

TEST_F(NodeTablesTest, EvictsNothingThatIsInUseMayBeRunningOrIsLeased) {
  Node& node = Add({.n = 8});
  node.NoteLaunch(4);
  EXPECT_FALSE(nodes().EvictOne(nullptr, /*completed=*/3, /*now=*/4));
  node.AddLease();
  EXPECT_FALSE(nodes().EvictOne(nullptr, 4, 4));
  node.DropLease();
  nodes().SetInUse(&node);
  EXPECT_FALSE(nodes().EvictOne(nullptr, 4, 4));
  nodes().SetInUse(nullptr);
  EXPECT_FALSE(nodes().EvictOne(&other_, 4, 4));
  EXPECT_TRUE(nodes().EvictOne(&scene_.program, 4, 4));
}

TEST_F(NodeTablesTest, CountsWhatItCouldDropIfNothingWereRunning) {
  Node& node = Add({.n = 8, .exec_bytes = 70});
  node.NoteLaunch(4);
  Add({.n = 16, .exec_bytes = 7});
  EXPECT_EQ(nodes().CountDroppable(nullptr).bytes, 77);
  EXPECT_EQ(nodes().CountDroppable(&scene_.program).nodes, 2);
  EXPECT_EQ(nodes().CountDroppable(&other_).nodes, 0);
  node.AddLease();
  EXPECT_EQ(nodes().CountDroppable(nullptr).nodes, 1);
  node.DropLease();
  nodes().SetInUse(&node);
  EXPECT_EQ(nodes().CountDroppable(nullptr).bytes, 7);
  nodes().SetInUse(nullptr);
}

TEST_F(NodeTablesTest, EvictedGraphsAreDischarged) {
  Add({.n = 8, .exec_bytes = 70});
  EXPECT_EQ(scene_.Booked(MemoryKind::kGraphs), 70);
  EXPECT_EQ(nodes().EvictIdle({}), 1);
  EXPECT_EQ(scene_.Booked(MemoryKind::kGraphs), 0);
  EXPECT_EQ(nodes().evictions(), 0);  // Those of EvictOne alone.
}

TEST_F(NodeTablesTest, IdleNodesGoByProgramAndVersionUnlessTheyAreLeased) {
  Add({.n = 1, .statics = &here_});
  Add({.n = 2, .statics = &there_});
  Add({.n = 4, .statics = &here_}).AddLease();
  scene_.AddNode(other_, {.n = 8, .statics = &here_});
  EXPECT_EQ(nodes().EvictIdle({.program = &scene_.program, .version = &here_}), 1);
  EXPECT_EQ(Left(), (std::set<int64_t>{2, 4, 8}));
  EXPECT_EQ(nodes().EvictIdle({.program = &other_}), 1);
  EXPECT_EQ(nodes().EvictIdle({}), 1);
  EXPECT_EQ(Left(), (std::set<int64_t>{4}));
}

TEST_F(NodeTablesTest, PublishedNodesAreNumberedAndFoundByNumber) {
  const Node& first = Add({.n = 8});
  const Node& second = scene_.AddNode(other_, {.n = 8});
  EXPECT_EQ(first.info().number, 1);
  EXPECT_EQ(second.info().number, 2);
  EXPECT_EQ(nodes().FindNumber(1), &first);
  EXPECT_EQ(nodes().FindNumber(2), &second);
  EXPECT_EQ(nodes().EvictIdle({.program = &other_}), 1);
  EXPECT_EQ(nodes().FindNumber(2), nullptr);
  EXPECT_EQ(nodes().FindNumber(0), nullptr);
}

TEST_F(NodeTablesTest, TheHeightIsTheHighestPlanEverPublished) {
  EXPECT_EQ(nodes().height(), 0);
  Add({.n = 8, .plan_height = kUnit});
  Add({.n = 16, .plan_height = 3 * kUnit});
  Add({.n = 32, .plan_height = 2 * kUnit});
  EXPECT_EQ(nodes().height(), 3 * kUnit);
  EXPECT_GT(nodes().EvictIdle({}), 0);
  EXPECT_EQ(nodes().height(), 3 * kUnit);
}

TEST_F(NodeTablesTest, RetiredTableIsEmptyForItsProgramAndItsLeasedNodesStay) {
  Node& leased = Add({.n = 8, .exec_bytes = 70});
  leased.AddLease();
  Add({.n = 16, .exec_bytes = 7});
  bucket(32);
  scene_.AddNode(other_, {.n = 8});
  nodes().Retire(scene_.program);
  EXPECT_EQ(table().CountGraphs(), 0);
  EXPECT_TRUE(table().buckets().empty());
  EXPECT_EQ(table().Find(leased.key()), nullptr);
  EXPECT_EQ(nodes().Of(other_).CountGraphs(), 1);
  EXPECT_TRUE(nodes().has_retired());
  nodes().EvictRetired();
  EXPECT_EQ(scene_.Booked(MemoryKind::kGraphs), 70);
  int visited = 0;
  nodes().ForEachRetired([&](const Node& node) {
    EXPECT_EQ(&node, &leased);
    ++visited;
  });
  EXPECT_EQ(visited, 1);
  EXPECT_EQ(nodes().FindNumber(1), &leased);
  leased.DropLease();
  EXPECT_TRUE(leased.retired());
  nodes().EvictRetired();
  EXPECT_FALSE(nodes().has_retired());
  EXPECT_EQ(scene_.Booked(MemoryKind::kGraphs), 0);
}

TEST_F(NodeTablesTest, RetiredTableWithoutANodeIsGoneAtOnce) {
  bucket(8);
  nodes().Retire(scene_.program);
  EXPECT_FALSE(nodes().has_retired());
  EXPECT_TRUE(table().buckets().empty());
  nodes().Retire(other_);  // It has no table.
  EXPECT_FALSE(nodes().has_retired());
}

TEST_F(NodeTablesTest, RetiredNodesGoOnlyWhenTheyHaveRun) {
  Add({.n = 8}).NoteLaunch(4);
  nodes().Retire(scene_.program);
  nodes().EvictRetired(/*completed=*/3);
  EXPECT_TRUE(nodes().has_retired());
  nodes().EvictRetired(/*completed=*/4);
  EXPECT_FALSE(nodes().has_retired());
}

TEST_F(NodeTablesTest, RetiredNodesMakeRoomForAllButForNoOtherGraphOfTheirProgram) {
  Add({.n = 8, .writes = {{.offset = 0, .bytes = kUnit}}, .exec_bytes = 70});
  nodes().Retire(scene_.program);
  EXPECT_EQ(nodes().top(), 0) << "it does not run again";
  EXPECT_EQ(nodes().CountDroppable(nullptr).bytes, 70);
  EXPECT_EQ(nodes().CountDroppable(&scene_.program).nodes, 0);
  EXPECT_FALSE(nodes().EvictOne(&scene_.program, 0, 0));
  EXPECT_TRUE(nodes().EvictOne(nullptr, 0, 0));
  EXPECT_FALSE(nodes().has_retired());
}

TEST_F(NodeTablesTest, RetiredNodesAreFoundByVersionAndProgramAsOthersAre) {
  Add({.n = 8, .statics = &here_});
  nodes().Retire(scene_.program);
  int visited = 0;
  nodes().ForEachNode([&visited](const Node&) { ++visited; });
  EXPECT_EQ(visited, 1);
  EXPECT_TRUE(nodes().HasVersion(scene_.program, here_));
  EXPECT_FALSE(nodes().HasVersion(scene_.program, there_));
  EXPECT_FALSE(nodes().HasVersion(other_, here_));
  EXPECT_EQ(nodes().EvictIdle({.program = &other_}), 0);
  EXPECT_EQ(nodes().EvictIdle({.program = &scene_.program, .version = &here_}), 1);
  EXPECT_FALSE(nodes().HasVersion(scene_.program, here_));
}

}  // namespace
}  // namespace coppice::internal
