// Goal: whatever fails, and whenever, a session ends in a status, gives no wrong value, leaks
// nothing, and works on or answers with its first sticky error. Method: every scenario is run once
// for each of its driver calls, and once for each of its host allocations, with that one failing.
//
// COPPICE_TEST_SHARE=N in the environment runs each N-th case.

#include "tests/sim/failing_world.h"

namespace coppice {
namespace {

// What is done before anything may fail, and what is done while things fail. The second ignores
// statuses: the world checks them, and goes on as a caller would who logs an error.
struct Scenario {
  const char* name;
  std::function<absl::Status(FailingWorld&)> prepare;
  std::function<void(FailingWorld&, bool forever)> act;
};

void PrintTo(const Scenario& scenario, std::ostream* out) {
  *out << scenario.name;
}

absl::Status RunTwice(FailingWorld& world, int64_t n) {
  COPPICE_RETURN_IF_ERROR(world.Run(n));
  return world.Run(n);
}

const Scenario kScenarios[] = {
    {"WarmUp", [](FailingWorld& world) { return world.Open(); },
     [](FailingWorld& world, bool) { (void)world.Run(8); }},
    {"Record",
     [](FailingWorld& world) {
       COPPICE_RETURN_IF_ERROR(world.Open());
       return world.Run(8);
     },
     [](FailingWorld& world, bool) { (void)RunTwice(world, 8); }},
    {"RecordForked",
     [](FailingWorld& world) {
       COPPICE_RETURN_IF_ERROR(world.Open({}, world.ForkingCallable()));
       return world.Run(8);
     },
     [](FailingWorld& world, bool) { (void)RunTwice(world, 8); }},
    {"Replay",
     [](FailingWorld& world) {
       COPPICE_RETURN_IF_ERROR(world.Open());
       return RunTwice(world, 8);
     },
     [](FailingWorld& world, bool) {
       for (int i = 0; i < 3; ++i)
         (void)world.Run(8);
     }},
    {"RecordFamily", [](FailingWorld& world) { return world.OpenExact(); },
     [](FailingWorld& world, bool) {
       for (const int64_t n : {20, 8, 32})
         (void)world.Run(n);
     }},
    {"ReplayAtExactSizes",
     [](FailingWorld& world) {
       COPPICE_RETURN_IF_ERROR(world.OpenExact());
       COPPICE_RETURN_IF_ERROR(world.Run(32));
       COPPICE_RETURN_IF_ERROR(world.Run(8));
       world.ReleaseLeases();
       return absl::OkStatus();
     },
     [](FailingWorld& world, bool) {
       for (const int64_t n : {20, 8, 5, 5, 32})
         (void)world.Run(n);
     }},
    {"PoolGrowth", [](FailingWorld& world) { return world.Open({}, world.GrowingCallable()); },
     [](FailingWorld& world, bool) {
       for (const int64_t n : {8, 8, 32, 32, 8})
         (void)world.Run(n);
     }},
    {"ReleaseAndTrim",
     [](FailingWorld& world) {
       COPPICE_RETURN_IF_ERROR(world.Open({}, world.GrowingCallable()));
       COPPICE_RETURN_IF_ERROR(world.Run(8));
       return world.Run(32);
     },
     [](FailingWorld& world, bool) {
       world.ReleaseLeases();
       (void)world.Trim();
       (void)world.Run(FailingWorld::kOverLargest);
     }},
    {"ExpirePath",
     [](FailingWorld& world) {
       COPPICE_RETURN_IF_ERROR(world.Open({}, world.GrowingCallable()));
       COPPICE_RETURN_IF_ERROR(RunTwice(world, 32));
       for (int i = 0; i < 3; ++i) {
         world.RunChained(8);
         world.ReleaseLeases();
       }
       world.RunChained(8);
       return absl::OkStatus();
     },
     [](FailingWorld& world, bool) {
       (void)world.Run(32);
       (void)world.Run(8);
     }},
    {"BindAgain",
     [](FailingWorld& world) {
       COPPICE_RETURN_IF_ERROR(world.Open());
       return RunTwice(world, 8);
     },
     [](FailingWorld& world, bool) {
       world.ReleaseLeases();
       (void)world.BindAgain();
       (void)world.BindAgain();
       (void)world.Run(8);
     }},
    {"EagerFallback", [](FailingWorld& world) { return world.Open(); },
     [](FailingWorld& world, bool) {
       (void)world.Run(FailingWorld::kOverLargest);
       (void)world.Run(FailingWorld::kOverLargest);
     }},
    {"WarmAhead", [](FailingWorld& world) { return world.Open(); },
     [](FailingWorld& world, bool) {
       (void)world.Warm({{32}, {8}});
       (void)world.Run(8);
     }},
    {"Rebucket",
     [](FailingWorld& world) {
       COPPICE_RETURN_IF_ERROR(world.Open());
       COPPICE_RETURN_IF_ERROR(world.SetBuckets({16}));
       for (int call = 0; call < 3; ++call) {
         COPPICE_RETURN_IF_ERROR(RunTwice(world, 8));
         world.ReleaseLeases();
       }
       return RunTwice(world, 32);
     },
     [](FailingWorld& world, bool) {
       (void)world.Rebucket();
       (void)world.Run(8);
       (void)world.SetBuckets({16, 40});
       (void)world.Run(32);
     }},
    {"OpenAndClose", [](FailingWorld&) { return absl::OkStatus(); },
     [](FailingWorld& world, bool forever) {
       if (world.Open({.lanes = 2, .memory = {.workspace_bytes = 4096}}).ok()) {
         (void)RunTwice(world, 8);
         (void)world.Run(8, 1, world.side_stream(), world.side_stream());
       }
       world.Close(forever);
     }},
    {"Budget",
     [](FailingWorld& world) {
       // The window of the largest bucket, or a warm-up of it, but not both; one graph.
       COPPICE_RETURN_IF_ERROR(world.Open({.memory = {.budget_bytes = (30 << 20) + (40 << 10)}},
                                          world.GrowingCallable()));
       COPPICE_RETURN_IF_ERROR(world.Run(32));
       world.ReleaseLeases();
       COPPICE_RETURN_IF_ERROR(world.Run(32));
       world.ReleaseLeases();
       return absl::OkStatus();
     },
     [](FailingWorld& world, bool) {
       for (const int64_t n : {8, 8, 32, 8}) {
         (void)world.Run(n);
         world.ReleaseLeases();
       }
     }},
    {"SuspendAndResume",
     [](FailingWorld& world) {
       COPPICE_RETURN_IF_ERROR(world.Open({}, world.GrowingCallable()));
       return RunTwice(world, 8);
     },
     [](FailingWorld& world, bool) {
       (void)world.Suspend();
       (void)world.Resume();
       (void)world.Run(8);
     }},
    {"LanesAndStreams",
     [](FailingWorld& world) {
       COPPICE_RETURN_IF_ERROR(world.Open({.lanes = 2}));
       return RunTwice(world, 8);
     },
     [](FailingWorld& world, bool) {
       (void)world.Run(8, 0, world.main_stream(), world.side_stream());
       (void)world.Run(8, 0, world.side_stream(), world.main_stream());
       (void)world.Run(8, 1, world.side_stream(), world.main_stream());
       (void)world.Run(8, 1, world.main_stream(), world.main_stream());
     }},
};

class FaultSweepTest : public testing::TestWithParam<Scenario> {
 protected:
  // Which call or allocation fails, and how; none if `nth` is 0.
  struct Case {
    int64_t nth = 0;
    std::optional<CuResult> result;  // Of a driver call; empty for a host allocation.
    bool forever = false;
  };

  // Runs the scenario from scratch and returns how many driver calls and host allocations it made.
  std::pair<int64_t, int64_t> RunCase(const Case& failing) {
    FailingWorld world;
    EXPECT_OK(GetParam().prepare(world));
    const int64_t calls_before = world.ledger().calls();
    if (failing.nth > 0 && failing.result.has_value()) {
      world.ledger().Inject(
          {.nth = failing.nth, .result = *failing.result, .forever = failing.forever});
    }
    const bool host = failing.nth > 0 && !failing.result.has_value();
    host_allocations = {.fail_from = host ? failing.nth : 0, .forever = failing.forever};
    GetParam().act(world, failing.forever);
    const int64_t allocations = std::exchange(host_allocations, {}).count;
    const int64_t calls = world.ledger().calls() - calls_before;
    EXPECT_GE(failing.result.has_value() ? calls : allocations, failing.nth) << "nothing failed";
    world.ledger().ClearFaults();
    (void)world.Resume();  // Refused unless something failed half way.
    if (!world.is_open()) {
      EXPECT_OK(world.Open());
    }
    world.ExpectUsableOrPoisoned();
    return {calls, allocations};
  }

  // Runs one in TestShare() of the cases 1 to `last`.
  void Sweep(int64_t last, Case failing) {
    const int64_t share = TestShare();
    for (int64_t nth = 1; nth <= last && !HasFailure(); ++nth) {
      if (next_case_++ % share != 0) continue;
      failing.nth = nth;
      SCOPED_TRACE(fmt::format(
          "{} {} of {} fails{} with {}", failing.result.has_value() ? "driver call" : "allocation",
          nth, last, failing.forever ? " and all later ones" : "",
          failing.result.has_value() ? NameOf(*failing.result) : "std::bad_alloc"));
      (void)RunCase(failing);
      ++runs_;
    }
  }

  void Report(int64_t last, const char* what) const {
    fmt::print("{}: {} runs with failures, one in {} of the cases, over {} {}\n", GetParam().name,
               runs_, TestShare(), last, what);
  }

 private:
  // From another on in each run.
  int64_t next_case_ = static_cast<int64_t>(TestSeed() % static_cast<uint64_t>(TestShare()));
  int64_t runs_ = 0;
};

TEST_P(FaultSweepTest, SurvivesEveryDriverCallThatFails) {
  const int64_t calls = RunCase({}).first;
  for (const CuResult result : {CuResult::kOutOfMemory, CuResult::kLaunchFailed}) {
    for (const bool forever : {false, true})
      Sweep(calls, {.result = result, .forever = forever});
  }
  Report(calls, "driver calls");
}

TEST_P(FaultSweepTest, SurvivesEveryHostAllocationThatFails) {
  const int64_t allocations = RunCase({}).second;
  for (const bool forever : {false, true})
    Sweep(allocations, {.forever = forever});
  Report(allocations, "host allocations");
}

INSTANTIATE_TEST_SUITE_P(Scenarios,
                         FaultSweepTest,
                         testing::ValuesIn(kScenarios),
                         [](const auto& scenario) { return std::string(scenario.param.name); });

}  // namespace
}  // namespace coppice
