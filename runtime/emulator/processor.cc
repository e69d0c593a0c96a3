// Runs work without the mutex, and keeps what it did to the clock and the context.

#include "runtime/emulator/processor.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "fmt/format.h"

namespace coppice::emulator {

// The SplitMix64 generator.
uint64_t Processor::Draw() {
  random_ += 0x9E3779B97F4A7C15;
  uint64_t z = random_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

bool Processor::Run(const Task& task, std::optional<uint64_t> source_sum) {
  const uint64_t draw = options_.sequential ? 0 : Draw();
  ++now_us_;
  std::optional<std::string> fault = FindForeignAccess(task);
  if (!fault.has_value()) {
    if (source_sum.has_value()) CheckSource(std::get<CopyWork>(task.work), *source_sum);
    const bool hides = options_.hides_memory && std::holds_alternative<HostWork>(task.work);
    if (hides) memory_.Show(false);
    mutex_.unlock();
    fault = Execute(task.work, draw);
    mutex_.lock();
    if (hides) memory_.Show(true);
  }
  if (!fault.has_value()) return true;
  sticky_ = CuResult::kIllegalAddress;
  fault_ = *std::move(fault);
  return false;
}

// A description of the fault if a kernel declares to touch other than device memory, which a host
// could bear and a device cannot.
std::optional<std::string> Processor::FindForeignAccess(const Task& task) const {
  if (!std::holds_alternative<KernelWork>(task.work)) return std::nullopt;
  for (const TouchedBytes& touched : task.touched)
    if (!memory_.Covers(touched.bytes.begin, 1, CuMemAccessFlags::kRead))
      return DescribeFault(touched.name, touched.bytes.begin);
  return std::nullopt;
}

void Processor::CheckSource(const CopyWork& copy, uint64_t sum) {
  if (SumOfSource(copy) == sum) return;
  checks_.Report(fmt::format(
      "host memory changed under a queued copy: {} bytes that a memcpy reads were written after it "
      "was submitted and before it ran; wait for the copy, or write in stream order",
      copy.bytes));
}

bool Processor::RunNodeAt(const Operation& operation, int index) {
  const Snapshot& snapshot = *std::get<GraphRun>(operation.body).snapshot;
  std::optional<uint64_t> sum;
  if (!operation.source_sums.empty()) {
    const std::vector<int>& sources = snapshot.host_source_nodes;
    const auto found = std::lower_bound(sources.begin(), sources.end(), index);
    if (found != sources.end() && *found == index)
      sum = operation.source_sums[found - sources.begin()];
  }
  ++nodes_executed_;
  return Run(snapshot.nodes[index].task, sum);
}

bool Processor::RunNode(Operation& operation) {
  GraphRun& run = std::get<GraphRun>(operation.body);
  const Snapshot& snapshot = *run.snapshot;
  if (snapshot.nodes.empty()) return true;
  if (snapshot.is_chain) return RunNodeAt(operation, static_cast<int>(run.done++));
  if (run.done == 0) {
    run.ready = snapshot.roots;
    run.unsatisfied.clear();
    for (const Snapshot::Node& node : snapshot.nodes)
      run.unsatisfied.push_back(node.dependency_count);
  }
  // In sequential mode the least index, which is a topological order.
  const auto picked = options_.sequential
                          ? std::min_element(run.ready.begin(), run.ready.end())
                          : run.ready.begin() + static_cast<int64_t>(Draw() % run.ready.size());
  const int index = *picked;
  *picked = run.ready.back();
  run.ready.pop_back();
  if (!RunNodeAt(operation, index)) return false;
  ++run.done;
  for (const int successor : snapshot.nodes[index].successors)
    if (--run.unsatisfied[successor] == 0) run.ready.push_back(successor);
  return true;
}

}  // namespace coppice::emulator
