// What changes about a bucket and a node.

#include "graphs/node/node.h"

#include <algorithm>

namespace coppice::internal {

void Bucket::Describe(NodeInfo info, int32_t trace_number) {
  info_ = std::move(info);
  trace_number_ = trace_number;
  described_ = true;
}

void Bucket::NoteWarmUp(AllocationScript script) {
  script_ = std::move(script);
  ++warmups_;
}

void Bucket::Fail(std::string why, bool final) {
  failure_ = std::move(why);
  state_ = final ? State::kNotCapturable : State::kOpen;
}

void Bucket::ForgetScript() {
  script_ = {};
  warmups_ = 0;
}

void Bucket::NoteDeparted(std::string why) {
  constexpr int kDeparturesMax = 3;
  ForgetScript();
  Fail(std::move(why), ++departures_ > kDeparturesMax);
}

void Bucket::Reopen() {
  if (capturable()) return;
  ForgetScript();
  state_ = State::kOpen;
  broken_ = departures_ = 0;
}

std::vector<size_t> Bucket::NoteMoves(const StaticVersion& before,
                                      const StaticVersion& now,
                                      int moves_max) {
  std::vector<size_t> often;
  moves_.resize(now.addresses.size());
  for (size_t i = 0; i < moves_.size(); ++i) {
    if (before.addresses[i] != now.addresses[i] && moves_[i]++ >= moves_max) often.push_back(i);
  }
  return often;
}

void Bucket::Add(Node& node) {
  nodes_.push_back(&node);
  broken_ = departures_ = 0;
  rerecords_ += node.made_for() == Reason::kStaticInputMoved ? 1 : 0;
}

void Bucket::Remove(const Node& node) {
  nodes_.erase(std::find(nodes_.begin(), nodes_.end(), &node));
  evicted_ = true;
  dropped_.launches += node.info().replays;
  dropped_.SetSizes(node.info());
}

bool Bucket::has_graph() const {
  return std::any_of(nodes_.begin(), nodes_.end(),
                     [](const Node* node) { return !node->retired(); });
}

bool Bucket::evicted() const {
  return evicted_ || std::any_of(nodes_.begin(), nodes_.end(),
                                 [](const Node* node) { return node->retired(); });
}

bool AreRequestsKnown(const Program& program, const Bucket* bucket) {
  return program.steps != nullptr ||
         (program.requests_known && (bucket == nullptr || !bucket->departed()));
}

Node::Node(NodeDraft draft, NodeRecording recording)
    : draft_(std::move(draft)), recording_(std::move(recording)) {
  top_ = recording_.footprint.empty() ? 0 : recording_.footprint.back().end();
  if (draft_.gated) gate_ = std::make_unique<Gate>();
  const FlightShape& entry = draft_.entry;
  plain_entries_ = entry.program != nullptr && entry.program->place.plain && exact() == nullptr &&
                   entry.sources == 0 && entry.staging_bytes == 0 && entry.numbers == 0;
}

bool Node::empty() const {
  return std::none_of(recording_.segments.begin(), recording_.segments.end(),
                      [](const Segment& segment) { return segment.exec || segment.step; });
}

bool Node::unreachable() const {
  return retired_ ||
         (key().statics != nullptr && key().statics->retired.load(std::memory_order_relaxed));
}

}  // namespace coppice::internal
