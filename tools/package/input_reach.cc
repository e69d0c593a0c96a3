// Each input is marked as if it were padding, a few per run: a word of the emulator tells so many
// apart.

#include "tools/package/input_reach.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "coppice/base/status.h"
#include "coppice/runtime/emulator.h"

#include "tools/package/program_runner.h"

namespace coppice {
namespace {

constexpr size_t kInputsAtOnce = 6;

// Calls `visit(address, bytes)` for each row along the last axis, or each element of a row with
// gaps.
template <typename Visit>
void ForEachRow(const Tensor& tensor, int axis, DeviceAddress at, const Visit& visit) {
  const int64_t size = SizeOf(tensor.dtype);
  const auto a = static_cast<size_t>(axis);
  if (axis == tensor.rank) return visit(at, size);
  if (axis + 1 == tensor.rank && tensor.strides[a] == 1) return visit(at, tensor.sizes[a] * size);
  for (int64_t i = 0; i < tensor.sizes[a]; ++i)
    ForEachRow(tensor, axis + 1, at + static_cast<DeviceAddress>(i * tensor.strides[a] * size),
               visit);
}

// Which inputs reach any byte of an output, by their numbers; adds the elements to `reached`.
std::set<int> ReachingInputs(const Emulator& emulator,
                             const Tensor& output,
                             std::vector<bool>& reached) {
  std::set<int> inputs;
  const int64_t size = SizeOf(output.dtype);
  reached.resize(static_cast<size_t>(output.element_count()));
  int64_t first = 0;
  ForEachRow(output, 0, output.data, [&](DeviceAddress at, int64_t bytes) {
    // It tells of the first byte that is reached: look behind that element.
    for (int64_t done = 0; done < bytes;) {
      const std::optional<PaddingReach> reach =
          emulator.FindPadding(at + static_cast<DeviceAddress>(done), bytes - done);
      if (!reach) break;
      inputs.insert(reach->inputs.begin(), reach->inputs.end());
      const int64_t element = (done + reach->byte) / size;
      reached[static_cast<size_t>(first + element)] = true;
      done = (element + 1) * size;
    }
    first += bytes / size;
  });
  return inputs;
}

}  // namespace

absl::StatusOr<InputReach> FollowInputs(const PackageDevice& device,
                                        int program,
                                        const CallSet& set,
                                        const std::vector<HostArray>& statics) {
  Emulator* const emulator = device.chosen().emulator();
  if (emulator == nullptr)
    return MakeError(absl::StatusCode::kUnimplemented, "only the emulator can follow inputs");
  const package::Program& of = device.manifest().programs[static_cast<size_t>(program)];
  const std::vector<std::string> names = InputNames(of, /*static_ones=*/false);
  InputReach found;
  for (const int output : of.outputs)
    found.outputs.push_back(
        {.output = of.buffers[static_cast<size_t>(output)].name, .inputs = {}, .reached = {}});
  COPPICE_ASSIGN_OR_RETURN(
      const std::unique_ptr<ProgramRunner> runner,
      ProgramRunner::Create(device, {.program = program, .stance = Stance::kEager}, statics));
  std::set<std::string> gaps;
  for (size_t first = 0; first < names.size(); first += kInputsAtOnce) {
    const size_t end = std::min(first + kInputsAtOnce, names.size());
    const CallWatch watch{
        .placed =
            [&](const std::vector<Tensor>& inputs) {
              emulator->FollowPadding();
              for (size_t i = first; i < end; ++i)
                ForEachRow(inputs[i], 0, inputs[i].data, [&](DeviceAddress at, int64_t bytes) {
                  emulator->MarkInput(at, bytes, static_cast<int>(i - first), /*padding=*/true);
                });
            },
        .ran =
            [&](const std::vector<Tensor>& outputs) {
              for (std::string& gap : emulator->PaddingGaps())
                gaps.insert(std::move(gap));
              for (size_t i = 0; i < outputs.size(); ++i)
                for (const int input :
                     ReachingInputs(*emulator, outputs[i], found.outputs[i].reached))
                  found.outputs[i].inputs.push_back(names[first + static_cast<size_t>(input)]);
            }};
    COPPICE_RETURN_IF_ERROR(runner->Run(set, Poison::kOff, watch).status());
  }
  found.gaps.assign(gaps.begin(), gaps.end());
  return found;
}

std::string TextOf(const InputReach& reach) {
  std::vector<std::string> parts;
  for (const OutputInputs& each : reach.outputs)
    parts.push_back(fmt::format(
        "{} depends on {}", each.output,
        each.inputs.empty() ? "no copied input" : fmt::format("{}", fmt::join(each.inputs, ", "))));
  if (!reach.gaps.empty())
    parts.push_back(
        fmt::format("inputs cannot be followed through {}", fmt::join(reach.gaps, ", ")));
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace coppice
