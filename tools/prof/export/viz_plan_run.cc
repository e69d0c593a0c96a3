// Events of buffers, sorted by step.

#include "tools/prof/export/viz_plan_run.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace coppice {
namespace {

struct PlanEvent {
  int64_t step = 0;
  bool begins = false;
  size_t buffer = 0;
  size_t interval = 0;
};

std::vector<PlanEvent> PlanEventsOf(const TracedNode& node) {
  std::vector<PlanEvent> events;
  for (size_t i = 0; i < node.buffers.size(); ++i) {
    for (size_t k = 0; k < node.buffers[i].lifetime.size(); ++k) {
      const Interval& interval = node.buffers[i].lifetime[k];
      events.push_back({interval.lower, true, i, k});
      events.push_back({interval.upper, false, i, k});
    }
  }
  std::ranges::stable_sort(events, [](const PlanEvent& a, const PlanEvent& b) {
    return std::tie(a.step, a.begins) < std::tie(b.step, b.begins);
  });
  return events;
}

// What a call gives away, up to a step.
struct GivenAway {
  int64_t end = 0;
  int64_t offset = 0;
  int64_t token = 0;
};

void SetNumber(VizNumber number, int64_t value, VizEvent& event) {
  event.numbers[static_cast<size_t>(number)] = value;
}

class PlanDrawer {
 public:
  PlanDrawer(const TracedNode& node, const PlanRun& run, VizWindow& window)
      : node_(node), run_(run), window_(window), tokens_(node.buffers.size()) {}

  std::vector<PlanLeft> Draw() {
    DrawSurroundings();
    DrawDonated();
    const int64_t steps = StepsOf(node_);
    std::vector<PlanLeft> left;
    for (const PlanEvent& event : PlanEventsOf(node_)) {
      GiveUpTo(event.step);
      const size_t i = event.buffer;
      if (event.begins) {
        window_.Alloc(node_.offsets[i], EventOf(event));
        tokens_[i] = window_.token();
      } else if (node_.outputs[i] >= 0 && event.step == steps) {
        left.push_back({node_.outputs[i], node_.offsets[i], tokens_[i]});
      } else {
        window_.Free(run_.base + event.step, node_.offsets[i], tokens_[i]);
      }
    }
    GiveUpTo(std::numeric_limits<int64_t>::max());
    for (const auto& [offset, token] : passing_)
      window_.Free(run_.base + steps, offset, token);
    return left;
  }

 private:
  VizEvent Event(VizCategory category, int64_t bytes, int64_t step) const {
    VizEvent event = {.category = category,
                      .stream = run_.lane,
                      .frame = run_.frame,
                      .bytes = bytes,
                      .time_us = run_.base + step};
    SetNumber(VizNumber::kCall, run_.call, event);
    return event;
  }

  VizEvent EventOf(const PlanEvent& at) const {
    const Buffer& buffer = node_.buffers[at.buffer];
    const int64_t output = node_.outputs[at.buffer];
    VizEvent event =
        Event(output < 0 ? VizCategory::kTemporary : VizCategory::kOutput, buffer.bytes, at.step);
    event.frame = run_.buffers[at.buffer].frame;
    event.label = run_.buffers[at.buffer].label;
    SetNumber(VizNumber::kOutput, output, event);
    SetNumber(VizNumber::kFirstStep, buffer.lifetime[at.interval].lower, event);
    SetNumber(VizNumber::kLastStep, buffer.lifetime[at.interval].upper - 1, event);
    return event;
  }

  void DrawSurroundings() {
    for (const AddressRange& region : node_.around) {
      if (!window_.IsFree(region.begin, region.end)) continue;
      window_.Alloc(region.begin, Event(VizCategory::kAround, region.bytes(), 0));
      if (run_.passing) passing_.emplace_back(region.begin, window_.token());
    }
  }

  void DrawDonated() {
    for (const Buffer& donated : node_.donated) {
      const int64_t offset = *donated.fixed_offset;
      if (window_.IsFree(offset, offset + donated.bytes)) {
        VizEvent event = Event(VizCategory::kDonated, donated.bytes, 0);
        SetNumber(VizNumber::kFirstStep, 0, event);
        SetNumber(VizNumber::kLastStep, donated.lifetime[0].upper - 1, event);
        window_.Alloc(offset, event);
      }
      given_.push_back({donated.lifetime[0].upper, offset, window_.TokenAt(offset)});
    }
    std::ranges::stable_sort(given_, {}, &GivenAway::end);
  }

  // Ends what is given away before `step`.
  void GiveUpTo(int64_t step) {
    for (; next_ < given_.size() && given_[next_].end <= step; ++next_)
      window_.Free(run_.base + given_[next_].end, given_[next_].offset, given_[next_].token);
  }

  const TracedNode& node_;
  const PlanRun& run_;
  VizWindow& window_;
  std::vector<int64_t> tokens_;                       // By buffer.
  std::vector<std::pair<int64_t, int64_t>> passing_;  // Offset and token.
  std::vector<GivenAway> given_;
  size_t next_ = 0;  // Of `given_`.
};

}  // namespace

std::vector<PlanLeft> DrawPlanRun(const TracedNode& node, const PlanRun& run, VizWindow& window) {
  return PlanDrawer(node, run, window).Draw();
}

int64_t StepsOf(const TracedNode& node) {
  int64_t steps = 1;
  for (const Buffer& buffer : node.buffers)
    steps = std::max(steps, buffer.lifetime.back().upper);
  return steps;
}

VizFrame FrameOf(const PoolTrace& trace, const TracedNode& node) {
  const TracedBucket& bucket = trace.buckets[static_cast<size_t>(node.bucket)];
  return {.name = NameOfBucket(trace, node.bucket),
          .file = "coppice://" + LabelOf(trace.programs[static_cast<size_t>(bucket.program)]),
          .line = node.id};
}

std::vector<VizBuffer> NameBuffers(const TracedNode& node, int frame, VizSnapshot& snapshot) {
  std::map<std::string, VizBuffer> known;  // Several may have one name.
  std::vector<VizBuffer> buffers;
  for (size_t i = 0; i < node.buffers.size(); ++i) {
    const auto [found, fresh] = known.try_emplace(LabelOfBuffer(node, i));
    VizBuffer& buffer = found->second;
    if (fresh) {
      buffer = {.frame = frame, .label = static_cast<int>(snapshot.labels.size())};
      snapshot.labels.push_back(found->first);
      if (!node.labels[i].empty()) {
        buffer.frame = static_cast<int>(snapshot.frames.size());
        VizFrame named = snapshot.frames[static_cast<size_t>(frame)];
        named.buffer = found->first;
        snapshot.frames.push_back(std::move(named));
      }
    }
    buffers.push_back(buffer);
  }
  return buffers;
}

}  // namespace coppice
