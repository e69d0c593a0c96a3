// Scripts out of plans.

#include "tools/prof/whatif/run_scripts.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "fmt/format.h"

#include "coppice/base/status.h"
#include "coppice/base/units.h"

namespace coppice {
namespace {

constexpr int64_t kStepsMax = int64_t{1} << 20;  // Of a run.

// The outputs that lie in a node's buffers.
std::set<int64_t> PlannedOutputs(const TracedNode& node) {
  std::set<int64_t> outputs(node.outputs.begin(), node.outputs.end());
  outputs.erase(-1);
  return outputs;
}

// The input of the spec that is Call::inputs[copy].
std::optional<int> CopiedInput(const ProgramSpec& spec, int copy) {
  for (size_t i = 0; i < spec.inputs.size(); ++i)
    if (spec.inputs[i].role == InputRole::kCopy && copy-- == 0) return static_cast<int>(i);
  return std::nullopt;
}

bool IsRectangle(const ProgramSpec& spec, const OutputSpec& output) {
  if (output.dims.empty() || output.dims[0].kind != Dim::Kind::kRagged) return false;
  const auto ragged = static_cast<size_t>(output.dims[0].index);
  return ragged < spec.ragged.size() && spec.ragged[ragged].length >= 0;
}

// The bytes that a run packs into an output at its end, and frees then, are what it asked for as
// that output.
void PackRectangles(const ProgramSpec& spec, std::vector<RunRequestStep>& steps) {
  for (size_t output = 0; output < spec.outputs.size(); ++output) {
    if (!IsRectangle(spec, spec.outputs[output])) continue;
    const auto packed = std::ranges::find(steps, static_cast<int>(output), &RunRequestStep::output);
    if (packed == steps.end() || packed + 1 == steps.end()) continue;
    const RunRequestStep asked{.buffer = packed[1].buffer};
    if (packed[1].kind != RunRequestStep::Kind::kFree) continue;
    for (RunRequestStep& step : steps)
      if (step.kind == RunRequestStep::Kind::kAllocate && step.buffer == asked.buffer)
        step = {.kind = RunRequestStep::Kind::kOutput,
                .buffer = asked.buffer,
                .output = static_cast<int>(output)};
    steps.erase(packed, packed + 2);
  }
}

double VolumeOf(std::span<const int64_t> sizes) {
  double volume = 1;
  for (const int64_t size : sizes)
    volume *= static_cast<double>(std::max<int64_t>(size, 1));
  return volume;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunScripts>> RunScripts::Create(const PoolTrace& trace,
                                                               const FreedInputs& freed,
                                                               int program,
                                                               const ProgramSpec& spec) {
  COPPICE_ASSIGN_OR_RETURN(std::vector<Expression> expressions, CompileExtents(spec));
  std::unique_ptr<RunScripts> scripts(new RunScripts(spec, std::move(expressions)));
  scripts->FindInputsOfOutputs(trace, program);
  // A root's plan has all that the program asks for; a child's lacks outputs that are its inputs.
  std::map<int, std::span<const FreedInput>> by_bucket;  // A root of the same sizes has them, too.
  for (const TracedNode& node : trace.nodes)
    if (const auto known = freed.find(&node); known != freed.end())
      by_bucket[node.bucket] = known->second;
  for (const bool roots : {true, false}) {
    for (const TracedNode& node : trace.nodes) {
      const TracedBucket& bucket = trace.buckets[static_cast<size_t>(node.bucket)];
      if (bucket.program != program || node.around.empty() != roots) continue;
      scripts->AddNode(node, bucket, by_bucket[node.bucket]);
    }
  }
  return scripts;
}

// An output that a root's plan has and a child's has not is an input that the child read in place.
void RunScripts::FindInputsOfOutputs(const PoolTrace& trace, int program) {
  inputs_of_outputs_.assign(spec_.outputs.size(), -1);
  std::set<int64_t> all;
  for (const TracedNode& node : trace.nodes)
    if (trace.buckets[static_cast<size_t>(node.bucket)].program == program)
      all.merge(PlannedOutputs(node));
  for (const TracedNode& node : trace.nodes) {
    if (trace.buckets[static_cast<size_t>(node.bucket)].program != program) continue;
    const std::set<int64_t> planned = PlannedOutputs(node);
    for (const int64_t output : all) {
      const auto index = static_cast<size_t>(output);
      if (planned.contains(output) || index >= spec_.outputs.size()) continue;
      const OutputSpec& lacking = spec_.outputs[index];
      const auto same = std::ranges::find_if(spec_.inputs, [&](const InputSpec& input) {
        return input.role == InputRole::kCopy && input.dtype == lacking.dtype &&
               input.dims == lacking.dims;
      });
      if (same != spec_.inputs.end())
        inputs_of_outputs_[index] = static_cast<int>(same - spec_.inputs.begin());
    }
  }
}

// Steps of a chain are numbered by its requests, so that each step has one; those of a graph that
// forks are not, and go in the order of their steps.
std::vector<RunRequestStep> RunScripts::StepsOf(const TracedNode& node,
                                                std::span<const FreedInput> freed) const {
  struct Timed {
    int64_t at = 0;
    RunRequestStep step;
  };
  std::vector<Timed> timed;
  int64_t end = 1;
  int64_t aliases = 0;
  for (const Buffer& buffer : node.buffers)
    end = std::max(end, buffer.lifetime.back().upper);
  for (size_t i = 0; i < node.buffers.size(); ++i) {
    const auto& life = node.buffers[i].lifetime;
    const auto output = static_cast<int>(node.outputs[i]);
    const bool alias = output >= 0 && inputs_of_outputs_[static_cast<size_t>(output)] >= 0;
    const int buffer = static_cast<int>(i);
    // What is a copy of an input is no request: the run makes it at its end.
    aliases += alias ? 1 : 0;
    if (!alias)
      timed.push_back(
          {life.front().lower,
           {.kind = output >= 0 ? RunRequestStep::Kind::kOutput : RunRequestStep::Kind::kAllocate,
            .buffer = buffer,
            .output = output}});
    if (life.back().upper < end)
      timed.push_back({life.back().upper, {.kind = RunRequestStep::Kind::kFree, .buffer = buffer}});
  }
  // Of one step, what is freed comes first.
  std::ranges::stable_sort(timed, {}, [](const Timed& each) {
    return std::pair(each.at, each.step.kind != RunRequestStep::Kind::kFree);
  });
  const bool chain =
      end <= kStepsMax && std::ranges::adjacent_find(timed, {}, &Timed::at) == timed.end();
  std::vector<RunRequestStep> steps;
  const auto wait_until = [&](int64_t at) {
    while (chain && std::ssize(steps) < at)
      steps.push_back({});  // It left no trace: a break, or a copied input that was freed in vain.
  };
  for (const Timed& each : timed) {
    wait_until(each.at);
    steps.push_back(each.step);
  }
  wait_until(end - 1 - aliases);
  for (const FreedInput& input : freed) {
    const auto at = static_cast<size_t>(input.step);
    if (at >= steps.size() || steps[at].kind != RunRequestStep::Kind::kNothing) continue;
    const std::optional<int> of_spec = CopiedInput(spec_, input.copy);
    if (of_spec) steps[at] = {.kind = RunRequestStep::Kind::kFreeInput, .input = *of_spec};
  }
  PackRectangles(spec_, steps);
  return steps;
}

void RunScripts::AddNode(const TracedNode& node,
                         const TracedBucket& bucket,
                         std::span<const FreedInput> freed) {
  Sizes sizes = SizesOf(bucket.extents, bucket.scalars);
  std::unique_ptr<RunScript>& script = scripts_[sizes];
  if (script != nullptr) return;
  script = std::make_unique<RunScript>();
  script->steps = StepsOf(node, freed);
  for (const Buffer& buffer : node.buffers)
    script->bytes.push_back(buffer.bytes);
  script->kernels = node.graph_nodes;
  // Copies of inputs and packed rectangles are nodes that the session adds.
  for (size_t i = 0; i < spec_.outputs.size(); ++i)
    script->kernels -=
        (node.around.empty() && inputs_of_outputs_[i] >= 0) || IsRectangle(spec_, spec_.outputs[i])
            ? 1
            : 0;
  script->kernels = std::max<int64_t>(script->kernels, 0);
  script->record_ns = node.record_ns;
  auto shape =
      std::ranges::find_if(shapes_, [&](const Shape& each) { return each.steps == script->steps; });
  if (shape == shapes_.end()) {
    shapes_.push_back({.steps = script->steps, .points = {}, .scripts = {}});
    shape = shapes_.end() - 1;
  }
  shape->points.push_back({.sizes = std::move(sizes), .bytes = 1});
  shape->scripts.push_back(script.get());
}

RunScripts::Sizes RunScripts::SizesOf(std::span<const int64_t> extents,
                                      std::span<const int64_t> scalars) const {
  Sizes sizes(extents.begin(), extents.end());
  // Expressions read symbols, and scalars by their place in the spec.
  Sizes values = sizes;
  size_t next = 0;
  for (size_t i = 0; i < spec_.scalars.size(); ++i) {
    const bool bound = std::ranges::any_of(spec_.symbols, [&](const SymbolSpec& symbol) {
      return symbol.scalar == static_cast<int>(i);
    });
    const bool key = !spec_.scalars[i].device_resident && !bound;
    values.push_back(key && next < scalars.size() ? scalars[next++] : 0);
  }
  for (const Expression& expression : expressions_) {
    const bool fits = values.size() == spec_.symbols.size() + spec_.scalars.size();
    const Computed computed = fits ? expression.Evaluate(values) : Computed{};
    sizes.push_back(computed.ok() ? computed.value : 0);
  }
  sizes.insert(sizes.end(), scalars.begin(), scalars.end());
  return sizes;
}

// The buckets of one script that are nearest in size, if there are several.
RunScripts::Shape& RunScripts::ShapeFor(const Sizes& sizes) {
  Shape* best = nullptr;
  double distance = 0;
  for (Shape& shape : shapes_) {
    for (const SizePoint& point : shape.points) {
      const double apart = std::abs(std::log(VolumeOf(point.sizes) / VolumeOf(sizes)));
      if (best != nullptr && apart >= distance) continue;
      best = &shape;
      distance = apart;
    }
  }
  return *best;
}

// Layers of a model have buffers of the same bytes.
void RunScripts::Fit(Shape& shape) const {
  std::map<std::pair<int64_t, std::vector<int64_t>>, size_t> known;
  const auto fit = [&](const auto& value_of, int64_t unit) {
    std::vector<int64_t> values;
    std::vector<SizePoint> points = shape.points;
    for (size_t i = 0; i < points.size(); ++i)
      values.push_back(points[i].bytes = std::max<int64_t>(value_of(*shape.scripts[i]), 1));
    const auto [found, added] = known.try_emplace({unit, std::move(values)}, shape.fits.size());
    if (added) shape.fits.push_back(std::make_unique<SizeFit>(std::move(points), unit));
    shape.fit_of.push_back(found->second);
  };
  for (size_t buffer = 0; buffer < shape.scripts.front()->bytes.size(); ++buffer)
    fit([buffer](const RunScript& script) { return script.bytes[buffer]; }, kBufferAlignment);
  fit([](const RunScript& script) { return script.kernels; }, 1);
}

RunScript RunScripts::Compute(const Sizes& sizes) {
  RunScript script{.recorded = false, .exact = false};
  if (shapes_.empty()) return script;
  Shape& shape = ShapeFor(sizes);
  if (shape.fits.empty()) Fit(shape);
  script.exact = shapes_.size() == 1;
  script.steps = shape.steps;
  const size_t buffers = shape.fit_of.size() - 1;
  std::vector<bool> is_output(buffers);
  for (const RunRequestStep& step : shape.steps)
    if (step.kind == RunRequestStep::Kind::kOutput)
      is_output[static_cast<size_t>(step.buffer)] = true;
  for (size_t buffer = 0; buffer < buffers; ++buffer) {
    const SizeFit::Size size = shape.fits[shape.fit_of[buffer]]->At(sizes);
    script.bytes.push_back(size.bytes);
    // The session itself knows how large outputs are.
    script.exact = script.exact && (size.exact || is_output[buffer]);
  }
  const SizeFit::Size kernels = shape.fits[shape.fit_of.back()]->At(sizes);
  script.kernels = kernels.bytes;
  script.exact = script.exact && kernels.exact;
  double nearest = 0;
  for (size_t i = 0; i < shape.points.size(); ++i) {
    const double apart = std::abs(std::log(VolumeOf(shape.points[i].sizes) / VolumeOf(sizes)));
    if (i > 0 && apart >= nearest) continue;
    nearest = apart;
    script.record_ns = shape.scripts[i]->record_ns;
  }
  script.points = static_cast<int>(shape.points.size());
  return script;
}

const RunScript& RunScripts::At(std::span<const int64_t> extents,
                                std::span<const int64_t> scalars) {
  Sizes sizes = SizesOf(extents, scalars);
  std::unique_ptr<RunScript>& kept = scripts_[sizes];
  if (kept == nullptr) kept = std::make_unique<RunScript>(Compute(sizes));
  const RunScript& script = *kept;
  if (!asked_.insert(std::move(sizes)).second) return script;
  ++(script.recorded ? use_.recorded : script.exact ? use_.interpolated : use_.estimated);
  if (!script.recorded)
    use_.fewest_points =
        use_.fewest_points == 0 ? script.points : std::min(use_.fewest_points, script.points);
  return script;
}

void RunScripts::BeginUse() {
  asked_.clear();
  use_ = {};
}

std::string RunScripts::WhyEstimated() const {
  if (use_.estimated == 0) return "";
  if (shapes_.empty()) return "it was never recorded, so nothing is known about its allocations";
  if (shapes_.size() > 1)
    return fmt::format(
        "its buckets have {} different sequences of allocations, and the nearest is used",
        shapes_.size());
  const size_t points = shapes_.front().points.size();
  return points == 1
             ? std::string("only one bucket was recorded, which says nothing about other buckets")
             : fmt::format("{} recorded buckets do not determine every size", points);
}

}  // namespace coppice
