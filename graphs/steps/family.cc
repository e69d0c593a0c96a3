// What is compared, and what is set.

#include "graphs/steps/family.h"

#include <algorithm>
#include <utility>

#include "coppice/base/status.h"

#include "graphs/steps/kernel_params.h"

namespace coppice::internal {
namespace {

constexpr size_t kBits = 64;
constexpr size_t kArgumentAlignment = 16;

// An executable keeps the block, and attributes that nobody can set in it.
bool SameForm(const LaunchShape& a, const LaunchShape& b) {
  return a.block == b.block && a.cooperative == b.cooperative && a.programmatic == b.programmatic &&
         a.cluster == b.cluster;
}

size_t OffsetOf(const KernelLaunch& launch, size_t argument) {
  return static_cast<size_t>(static_cast<const std::byte*>(launch.arguments[argument]) -
                             launch.bytes.data());
}

// Of the arguments of the next launch behind others.
size_t NextArguments(size_t end) {
  return (end + kArgumentAlignment - 1) / kArgumentAlignment * kArgumentAlignment;
}

absl::Status OfAnotherFamily() {
  return absl::OutOfRangeError("the steps belong to another family");
}

}  // namespace

void FamilySetting::Add(const KernelLaunch& launch) {
  launches.push_back({.grid = launch.shape.grid, .shared_bytes = launch.shape.shared_bytes});
  arguments.resize(NextArguments(arguments.size()));
  arguments.insert(arguments.end(), launch.bytes.begin(), launch.bytes.end());
}

Family::Family(
    Graph graph, Graph::Topology topology, FamilySteps steps, GraphExec exec, BudgetCharge charge)
    : graph_(std::move(graph)),
      nodes_(std::move(topology.nodes)),
      forms_(std::move(steps.forms)),
      held_(std::move(steps.setting)),
      exec_(std::move(exec)),
      charge_(std::move(charge)) {
  const size_t words = (nodes_.size() + kBits - 1) / kBits;
  ancestors_.resize(nodes_.size() * words);
  // Edges lead from a node to a later one.
  std::ranges::sort(topology.edges, {}, &GraphEdge::to);
  for (const GraphEdge& edge : topology.edges) {
    const auto from = static_cast<size_t>(edge.from);
    uint64_t* const to = &ancestors_[static_cast<size_t>(edge.to) * words];
    for (size_t word = 0; word < words; ++word)
      to[word] |= ancestors_[from * words + word];
    to[from / kBits] |= uint64_t{1} << (from % kBits);
  }
  size_t arguments = 0;
  for (const StepForm& form : forms_) {
    const auto* const launch = std::get_if<LaunchForm>(&form);
    if (launch != nullptr) arguments = std::max(arguments, launch->offsets.size());
  }
  pointers_.resize(arguments);
}

bool Family::Fits(size_t index, const KernelLaunch& launch) const {
  if (index >= forms_.size()) return false;
  const auto* const form = std::get_if<LaunchForm>(&forms_[index]);
  return form != nullptr && form->kernel.function == launch.kernel.function &&
         SameForm(form->shape, launch.shape) && form->bytes == launch.bytes.size();
}

bool Family::Fits(size_t index, const MemoryFill& fill) const {
  if (index >= forms_.size()) return false;
  const auto* const held = std::get_if<MemoryFill>(&forms_[index]);
  return held != nullptr && *held == fill;
}

bool Family::Fits(size_t index, const MemoryCopy& copy) const {
  if (index >= forms_.size()) return false;
  const auto* const held = std::get_if<MemoryCopy>(&forms_[index]);
  return held != nullptr && *held == copy;
}

bool Family::Orders(int earlier, int later) const {
  const size_t words = (nodes_.size() + kBits - 1) / kBits;
  const auto bit = static_cast<size_t>(earlier);
  return (ancestors_[static_cast<size_t>(later) * words + bit / kBits] >> (bit % kBits) & 1) != 0;
}

absl::StatusOr<int64_t> Family::Set(const Driver& driver, const FamilySetting& setting) {
  int64_t differed = 0;
  size_t launch = 0;
  size_t begin = 0;
  for (size_t step = 0; step < forms_.size(); ++step) {
    const auto* const form = std::get_if<LaunchForm>(&forms_[step]);
    if (form == nullptr) continue;
    const FamilySetting::Launch& wanted = setting.launches[launch];
    FamilySetting::Launch& held = held_.launches[launch++];
    begin = NextArguments(begin);
    const std::byte* const arguments = setting.arguments.data() + begin;
    std::byte* const held_arguments = held_.arguments.data() + begin;
    begin += form->bytes;
    if (held == wanted && std::equal(arguments, arguments + form->bytes, held_arguments)) continue;
    for (size_t i = 0; i < form->offsets.size(); ++i)
      pointers_[i] = const_cast<std::byte*>(arguments) + form->offsets[i];
    LaunchShape shape = form->shape;
    shape.grid = wanted.grid;
    shape.shared_bytes = wanted.shared_bytes;
    const CuKernelNodeParams params =
        NodeParamsOf({.kernel = form->kernel, .shape = shape, .arguments = pointers_});
    COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::GraphExecKernelNodeSetParams>(
        exec_.handle(), nodes_[step], &params));
    held = wanted;
    std::copy_n(arguments, form->bytes, held_arguments);
    ++differed;
  }
  return differed;
}

absl::Status HeldSteps::Launch(const KernelLaunch& launch, std::span<const Touch> touched) {
  LaunchForm form{.kernel = launch.kernel, .shape = launch.shape, .bytes = launch.bytes.size()};
  for (size_t i = 0; i < launch.arguments.size(); ++i)
    form.offsets.push_back(OffsetOf(launch, i));
  steps_.forms.emplace_back(std::move(form));
  steps_.setting.Add(launch);
  return sink_.Launch(launch, touched);
}

absl::Status HeldSteps::Fill(const MemoryFill& fill, std::span<const Touch> touched) {
  steps_.forms.emplace_back(fill);
  return sink_.Fill(fill, touched);
}

absl::Status HeldSteps::Copy(const MemoryCopy& copy, std::span<const Touch> touched) {
  steps_.forms.emplace_back(copy);
  return sink_.Copy(copy, touched);
}

absl::Status HeldSteps::Work(LibraryWork work, std::span<const Touch> touched) {
  steps_.forms.emplace_back(LibraryForm());
  return sink_.Work(work, touched);
}

absl::Status FamilyCheck::Next(bool fits, std::span<const Touch> touched) {
  if (!fits) return OfAnotherFamily();
  const auto later = static_cast<int>(index_++);
  const bool ordered = std::ranges::all_of(
      order_.Add(touched), [&](int earlier) { return family_.Orders(earlier, later); });
  return ordered ? absl::OkStatus() : OfAnotherFamily();
}

absl::Status FamilyCheck::Launch(const KernelLaunch& launch, std::span<const Touch> touched) {
  COPPICE_RETURN_IF_ERROR(Next(family_.Fits(index_, launch), touched));
  setting_.Add(launch);
  return absl::OkStatus();
}

absl::Status FamilyCheck::Fill(const MemoryFill& fill, std::span<const Touch> touched) {
  return Next(family_.Fits(index_, fill), touched);
}

absl::Status FamilyCheck::Copy(const MemoryCopy& copy, std::span<const Touch> touched) {
  return Next(family_.Fits(index_, copy), touched);
}

// What a library would launch at another size is unknown.
absl::Status FamilyCheck::Work(LibraryWork /*work*/, std::span<const Touch> /*touched*/) {
  return OfAnotherFamily();
}

absl::StatusOr<FamilySetting> FamilyCheck::Finish() {
  if (index_ != family_.size()) return OfAnotherFamily();
  return std::move(setting_);
}

}  // namespace coppice::internal
