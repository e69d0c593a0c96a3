// Runs work without the mutex, and keeps what it did to the clock and the context.

#include "runtime/emulator/processor.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>
#include <vector>

#include "fmt/format.h"

#include "runtime/emulator/execution.h"

namespace coppice::emulator {

// The SplitMix64 generator.
uint64_t Processor::Draw() {
  random_ += 0x9E3779B97F4A7C15;
  uint64_t z = random_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

void Processor::Restart() {
  sticky_ = CuResult::kSuccess;
  fault_.clear();
  kernel_fault_.reset();
  fault_number_ = 0;
  nodes_executed_ = 0;
  now_us_ = 0;
  written_ = {};
  taint_.reset();
}

bool Processor::RunTask(const Operation& operation) {
  const std::vector<uint64_t>& sums = operation.source_sums;
  return Run(std::get<Task>(operation.body), operation, 0,
             sums.empty() ? std::nullopt : std::optional(sums.front()));
}

bool Processor::Run(const Task& task,
                    const Operation& operation,
                    int node,
                    std::optional<uint64_t> source_sum) {
  ++now_us_;
  if (const auto* const release = std::get_if<ReleaseWork>(&task.work))
    memory_.Free(release->address);
  const Surroundings surroundings = SurroundingsOf(task, operation.device);
  std::optional<Fault> fault = FindForeignAccess(task, operation.device);
  if (!fault.has_value()) {
    if (source_sum.has_value()) CheckSource(std::get<CopyWork>(task.work), *source_sum);
    const bool hides = options_.hides_memory && std::holds_alternative<HostWork>(task.work);
    if (hides) memory_.Show(false);
    mutex_.unlock();
    Outcome outcome = Execute(task.work, surroundings);
    mutex_.lock();
    if (hides) memory_.Show(true);
    LookAt(outcome, task, operation, node);
    if (taint_ != nullptr) Taint(task);
    fault = std::move(outcome.fault);
  }
  if (!fault.has_value()) return true;
  sticky_ = fault->result;
  fault_ = std::move(fault->text);
  kernel_fault_ = std::move(fault->kernel);
  fault_number_ = checks_.Count();
  return false;
}

Surroundings Processor::SurroundingsOf(const Task& task, int device) {
  Surroundings surroundings{.draw = options_.sequential ? 0 : Draw(), .now_us = now_us_};
  const auto* const kernel = std::get_if<KernelWork>(&task.work);
  if (kernel == nullptr || kernel->kernel.ptx == nullptr) return surroundings;
  surroundings.taint = taint_.get();
  if (ranges_revision_ != memory_.revision() || ranges_device_ != device) {
    ranges_revision_ = memory_.revision();
    ranges_device_ = device;
    ranges_.clear();
    offsets_.clear();
    memory_.ForEachReadable(device, [this](ptx::MemoryRange range, uint64_t offset) {
      ranges_.push_back(range);
      offsets_.push_back(offset);
    });
  }
  surroundings.memory = ranges_;
  surroundings.checks = {
      .races = options_.races,
      .harmless_races = options_.harmless_races,
      .uninitialized = options_.uninitialized,
      .record = options_.uninitialized ||
                (task.is_declared() ? checks_.holds_to_declared() : checks_.orders_accesses())};
  if (options_.uninitialized)
    surroundings.written = [this](uint64_t begin, uint64_t end) { return IsWritten(begin, end); };
  return surroundings;
}

// By `ranges_`, since others may change what is mapped while a kernel asks.
bool Processor::IsWritten(uint64_t begin, uint64_t end) const {
  const auto after = std::ranges::upper_bound(ranges_, begin, {}, &ptx::MemoryRange::begin);
  if (after == ranges_.begin()) return true;
  const size_t index = static_cast<size_t>(after - ranges_.begin()) - 1;
  const uint64_t moved = offsets_[index] - ranges_[index].begin;
  // Of a word that a compiler reads for its half, the rest may be nobody's.
  return written_.Covers(begin + moved, std::min(end, ranges_[index].end) + moved);
}

void Processor::NoteWritten(std::span<const TouchedBytes> touched) {
  for (const TouchedBytes& one : touched)
    if (one.writes && !one.host)
      NoteWritten(one.bytes.begin, static_cast<int64_t>(one.bytes.end - one.bytes.begin));
}

void Processor::NoteWritten(DeviceAddress address, int64_t bytes) {
  if (!options_.uninitialized) return;
  memory_.ForEachPhysical(
      address, address + static_cast<DeviceAddress>(bytes),
      [this](uint64_t begin, uint64_t end, DeviceAddress /*piece*/) { written_.Add(begin, end); });
}

// What a compiled kernel did, for the checks.
void Processor::LookAt(const Outcome& outcome,
                       const Task& task,
                       const Operation& operation,
                       int node) {
  for (const KernelFinding& finding : outcome.findings)
    checks_.Report(finding.text, finding);
  NoteWritten(task.touched);
  NoteWritten(outcome.touched);
  if (outcome.touched.empty()) return;
  if (task.is_declared()) {
    if (checks_.holds_to_declared()) checks_.HoldToDeclared(task, outcome.touched);
    return;
  }
  const auto* const run = std::get_if<GraphRun>(&operation.body);
  checks_.Observe(operation.id, run == nullptr ? nullptr : run->snapshot, node, outcome.touched);
}

// Host code is followed where it seems to copy: it declares a read and then a write of as many
// other bytes, which are equal afterwards. What it declares to write it may read, too, or leave as
// it is. False: it touches padding otherwise.
bool Processor::TaintCopies(std::span<const TouchedBytes> touched) {
  const auto bytes_of = [](const TouchedBytes& one) { return one.bytes.end - one.bytes.begin; };
  const auto host = [](const TouchedBytes& one) {
    return reinterpret_cast<const void*>(one.bytes.begin);
  };
  const auto copies = [&](const TouchedBytes& from, const TouchedBytes& to) {
    return !from.writes && to.writes && bytes_of(from) == bytes_of(to) &&
           (from.bytes.end <= to.bytes.begin || to.bytes.end <= from.bytes.begin) &&
           std::memcmp(host(from), host(to), bytes_of(from)) == 0;
  };
  bool followed = true;
  for (size_t i = 0; i < touched.size(); ++i) {
    const TouchedBytes& one = touched[i];
    if (i + 1 < touched.size() && copies(one, touched[i + 1])) {
      taint_->plane.Copy(one.bytes.begin, touched[++i].bytes.begin, bytes_of(one));
      continue;
    }
    const bool reached = ptx::IsPadding(taint_->plane.Joined(one.bytes.begin, bytes_of(one)));
    followed = followed && !reached;
    if (one.writes && !reached) taint_->plane.Fill(one.bytes.begin, bytes_of(one), 0);
  }
  return followed;
}

void Processor::Taint(const Task& task) {
  const auto address = [](const void* host) { return reinterpret_cast<uint64_t>(host); };
  if (const auto* const copy = std::get_if<CopyWork>(&task.work)) {
    if (copy->to_host) {
      if (ptx::IsPadding(taint_->plane.Joined(address(copy->source), copy->bytes)))
        taint_->AddGap("what the host does with padding that is copied to it");
      return;
    }
    if (copy->from_host)
      taint_->plane.Fill(address(copy->target), copy->bytes, 0);
    else
      taint_->plane.Copy(address(copy->source), address(copy->target), copy->bytes);
  } else if (const auto* const fill = std::get_if<FillWork>(&task.work)) {
    taint_->plane.Fill(address(fill->target), fill->count * fill->element_size, 0);
  } else if (const auto* const kernel = std::get_if<KernelWork>(&task.work)) {
    if (kernel->kernel.ptx == nullptr && !TaintCopies(task.touched))
      taint_->AddGap(fmt::format("kernel {}, which runs as host code", kernel->kernel.name));
  } else if (std::holds_alternative<HostWork>(task.work)) {
    taint_->AddGap("a host function");
  }
}

// The fault if a kernel declares to touch other than device memory, which a host could bear and a
// device cannot.
std::optional<Fault> Processor::FindForeignAccess(const Task& task, int device) const {
  if (!std::holds_alternative<KernelWork>(task.work)) return std::nullopt;
  for (const TouchedBytes& touched : task.touched)
    if (!memory_.Covers(touched.bytes.begin, 1, CuMemAccessFlags::kRead, device))
      return DescribeFault(touched.name, touched.bytes.begin);
  return std::nullopt;
}

void Processor::CheckSource(const CopyWork& copy, uint64_t sum) {
  if (SumOfSource(copy) == sum) return;
  checks_.Report(
      fmt::format("host memory changed under a queued copy: the source of a memcpy of {} bytes was "
                  "written after the memcpy was submitted and before it ran; wait for the copy "
                  "before you write, or write in stream order",
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
  return Run(snapshot.nodes[index].task, operation, index, sum);
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
