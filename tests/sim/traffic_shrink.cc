// Delta debugging of operations, then of values.

#include "tests/sim/traffic_shrink.h"

#include "coppice/base/check.h"

namespace coppice {
namespace {

std::string KindOf(const std::string& failure) {
  return failure.substr(0, failure.find(':'));
}

class Search {
 public:
  Search(const TrafficScript& script, const TrafficRun& run)
      : run_(run), shrunk_{.script = script, .failure = run(script), .runs = 1} {
    COPPICE_CHECK(!shrunk_.failure.empty(), "the script does not fail");
  }

  ShrunkScript Do() {
    bool smaller = true;
    while (smaller) {
      smaller = RemoveOperations();
      smaller |= SimplifyValues();
    }
    return std::move(shrunk_);
  }

 private:
  // Whether the candidate fails in the same way; it is the script from then on.
  bool Try(TrafficScript candidate) {
    ++shrunk_.runs;
    std::string failure = run_(candidate);
    if (KindOf(failure) != KindOf(shrunk_.failure)) return false;
    shrunk_.script = std::move(candidate);
    shrunk_.failure = std::move(failure);
    return true;
  }

  bool RemoveOperations() {
    bool any = false;
    for (size_t part = std::max<size_t>(shrunk_.script.operations.size() / 2, 1);; part /= 2) {
      // From the end, where what nobody refers to lies.
      for (size_t end = shrunk_.script.operations.size(); end > 0;) {
        const size_t begin = end - std::min(part, end);
        TrafficScript candidate = shrunk_.script;
        const auto first = candidate.operations.begin();
        candidate.operations.erase(first + static_cast<ptrdiff_t>(begin),
                                   first + static_cast<ptrdiff_t>(end));
        any |= Try(std::move(candidate));
        end = begin;
      }
      if (part == 1) return any;
    }
  }

  bool SimplifyValues() {
    bool any = false;
    for (int64_t TrafficOptions::*const field : OptionFields()) {
      any |= Simplify([&](TrafficScript& script) -> int64_t& { return script.options.*field; },
                      TrafficOptions().*field);
    }
    for (size_t i = 0; i < shrunk_.script.operations.size(); ++i) {
      for (int64_t TrafficOperation::*const field : OperationFields()) {
        if (field == &TrafficOperation::id) continue;
        any |=
            Simplify([&](TrafficScript& script) -> int64_t& { return script.operations[i].*field; },
                     TrafficOperation().*field);
      }
    }
    return any;
  }

  // Tries the default, then what lies between it and the value.
  template <typename At>
  bool Simplify(At at, int64_t plain) {
    bool any = false;
    for (int64_t value = at(shrunk_.script); value != plain; value = at(shrunk_.script)) {
      bool smaller = false;
      const int64_t step = value > plain ? value - 1 : value + 1;
      for (const int64_t simple : {plain, plain + (value - plain) / 2, step}) {
        if (smaller) break;
        TrafficScript candidate = shrunk_.script;
        at(candidate) = simple;
        smaller = Try(std::move(candidate));
      }
      if (!smaller) break;
      any = true;
    }
    return any;
  }

  const TrafficRun& run_;
  ShrunkScript shrunk_;
};

}  // namespace

ShrunkScript Shrink(const TrafficScript& script, const TrafficRun& run) {
  return Search(script, run).Do();
}

}  // namespace coppice
