// The likeliest guess is kept for each moment at which a block begins, and looked for again when
// what begins or ends there has changed.

#include "allocator/planner/joins.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "coppice/base/units.h"

namespace coppice::internal {
namespace {

// A moment with more pairs, or triples, of what ends and begins there tells nothing of any.
constexpr size_t kPairsMax = 2048;
constexpr size_t kTriplesMax = 2048;
constexpr size_t kEndingMax = 32;

// Joining ends there: at pairs, triples and moments looked at.
constexpr int64_t kLooksPerBuffer = 4000;

struct Block {
  int64_t size = 0;       // Up to where another may lie on it: a multiple of the alignment.
  int64_t alignment = 1;  // Of each of its buffers.
  int32_t lower = 0;      // Moments.
  int32_t upper = 0;
  std::vector<int32_t> buffers;
};

// What is joined, and how far above the bottom of the whole each lies.
struct Guess {
  struct Piece {
    int32_t block = 0;
    int64_t offset = 0;
  };
  double doubt = std::numeric_limits<double>::infinity();
  std::array<Piece, 5> pieces{};
  size_t count = 0;
  int64_t size = 0;
  int32_t lower = 0;
  int32_t upper = 0;
};

bool MayJoin(const Buffer& buffer) {
  return buffer.lifetime.size() == 1 && !buffer.fixed_offset;
}

// Rectangles of the room below `height` that the buffers leave free, as buffers. Room that comes
// and goes at once is taken for one.
std::vector<Buffer> FillersOf(std::span<const Buffer> buffers, int64_t height) {
  struct Room {
    int64_t since = 0;
    int64_t bytes = 0;
  };
  std::map<int64_t, int64_t> changes;  // Of the bytes alive, by step.
  for (const Buffer& buffer : buffers) {
    for (const Interval& interval : buffer.lifetime) {
      changes[interval.lower] += AlignUp(buffer.bytes, buffer.alignment);
      changes[interval.upper] -= AlignUp(buffer.bytes, buffer.alignment);
    }
  }
  if (changes.empty()) return {};
  changes.begin()->second -= height;
  changes.rbegin()->second += height;

  std::vector<Buffer> fillers;
  std::vector<Room> open;
  for (auto [step, bytes] : changes) {
    if (bytes < 0) open.push_back({step, -bytes});
    while (bytes > 0 && !open.empty()) {
      auto room = std::ranges::find(open.rbegin(), open.rend(), bytes, &Room::bytes);
      if (room == open.rend()) room = open.rbegin();
      const int64_t filled = std::min(bytes, room->bytes);
      if (room->since < step)
        fillers.push_back({.lifetime = {{room->since, step}},
                           .bytes = filled,
                           .alignment = buffers.front().alignment});
      bytes -= filled;
      room->bytes -= filled;
      if (room->bytes == 0) open.erase(std::next(room).base());
    }
  }
  return fillers;
}

class Joiner {
 public:
  // `buffers` ends with fillers, which are joined but not returned.
  Joiner(std::span<const Buffer> buffers, size_t fillers, const JoinOptions& options)
      : buffers_(buffers),
        count_(buffers.size() - fillers),
        options_(options),
        offsets_(buffers.size()),
        looks_left_(kLooksPerBuffer * std::ssize(buffers)) {
    FindMoments();
    for (size_t i = 0; i < buffers.size(); ++i)
      if (MayJoin(buffers[i])) AddBlock(static_cast<int32_t>(i));
    for (size_t moment = 0; moment < moments_.size(); ++moment)
      guesses_.push_back(LikeliestAt(static_cast<int32_t>(moment)));
  }

  JoinedBuffers Join() && {
    while (true) {
      const bool spent = IsSpent(guesses_.size() / 8);  // As dear as so many looks.
      const auto best = std::ranges::min_element(guesses_, {}, &Guess::doubt);
      if (spent || best == guesses_.end() || best->count == 0) return std::move(*this).Take();
      Make(Guess(*best));
    }
  }

 private:
  void FindMoments() {
    for (const Buffer& buffer : buffers_) {
      if (!MayJoin(buffer)) continue;
      moments_.push_back(buffer.lifetime.front().lower);
      moments_.push_back(buffer.lifetime.front().upper);
    }
    std::ranges::sort(moments_);
    moments_.erase(std::ranges::unique(moments_).begin(), moments_.end());
    beginning_.resize(moments_.size());
    ending_.resize(moments_.size());
  }

  int32_t MomentOf(int64_t step) const {
    return static_cast<int32_t>(std::ranges::lower_bound(moments_, step) - moments_.begin());
  }

  void AddBlock(int32_t buffer) {
    const Buffer& one = buffers_[static_cast<size_t>(buffer)];
    Enlist({.size = AlignUp(one.bytes, one.alignment),
            .alignment = one.alignment,
            .lower = MomentOf(one.lifetime.front().lower),
            .upper = MomentOf(one.lifetime.front().upper),
            .buffers = {buffer}});
  }

  void Enlist(Block block) {
    const auto id = static_cast<int32_t>(blocks_.size());
    beginning_[static_cast<size_t>(block.lower)].push_back(id);
    ending_[static_cast<size_t>(block.upper)].push_back(id);
    blocks_.push_back(std::move(block));
  }

  const Block& At(int32_t id) const { return blocks_[static_cast<size_t>(id)]; }
  const std::vector<int32_t>& Beginning(int32_t moment) const {
    return beginning_[static_cast<size_t>(moment)];
  }
  const std::vector<int32_t>& Ending(int32_t moment) const {
    return ending_[static_cast<size_t>(moment)];
  }

  // The same for a pair whenever it is asked for; negative if the pair is left out.
  double Doubt(int32_t a, int32_t b, size_t pairs) const {
    uint64_t x = options_.seed ^ (static_cast<uint64_t>(a) << 32 | static_cast<uint32_t>(b));
    for (int round = 0; round < 3; ++round)
      x = (x ^ x >> 32) * 0xd6e8feb86659fd93;
    constexpr double kDraws = 0x1p-24;
    const double luck = static_cast<double>(x >> 40) * kDraws;
    if (luck < options_.left_out) return -1;
    const double noise = static_cast<double>(x & 0xffffff) * kDraws;
    return static_cast<double>(pairs) + options_.noise * noise;
  }

  // The likeliest of what is stacked, or wound about one, that begins at `moment`, and of what
  // follows there.
  Guess LikeliestAt(int32_t moment) {
    Guess best;
    const std::vector<int32_t>& beginning = Beginning(moment);
    const std::vector<int32_t>& ending = Ending(moment);
    const size_t pairs = beginning.size() * (beginning.size() + ending.size());
    const size_t triples = beginning.size() * beginning.size() * ending.size();
    if (pairs > kPairsMax || IsSpent(pairs)) return best;
    for (size_t i = 0; i < beginning.size(); ++i) {
      for (const int32_t before : ending)
        GuessFollowing(before, beginning[i], best);
      for (size_t j = i + 1; j < beginning.size(); ++j)
        GuessStacked(beginning[i], beginning[j], best);
    }
    if (triples > kTriplesMax || IsSpent(triples)) return best;
    for (const int32_t middle : beginning) {
      for (const int32_t before : ending)
        for (const int32_t above : beginning)
          GuessWound(middle, before, above, best);
    }
    return best;
  }

  // Whether so many more looks are too many.
  bool IsSpent(size_t looks) {
    looks_left_ -= static_cast<int64_t>(looks);
    return looks_left_ < 0;
  }

  void GuessFollowing(int32_t first, int32_t second, Guess& best) const {
    const Block& a = At(first);
    const Block& b = At(second);
    if (a.size != b.size || a.alignment != b.alignment) return;
    const double doubt = Doubt(first, second, Ending(a.upper).size() * Beginning(a.upper).size());
    if (doubt < 0 || doubt >= best.doubt) return;
    best = {.doubt = doubt,
            .pieces = {{{first, 0}, {second, 0}}},
            .count = 2,
            .size = a.size,
            .lower = a.lower,
            .upper = b.upper};
  }

  void GuessStacked(int32_t below, int32_t above, Guess& best) const {
    const Block& a = At(below);
    const Block& b = At(above);
    if (a.upper != b.upper || a.alignment != b.alignment) return;
    const double doubt =
        Doubt(below, above, (Beginning(a.lower).size() - 1) * (Ending(a.upper).size() - 1));
    if (doubt < 0 || doubt >= best.doubt) return;
    best = {.doubt = doubt,
            .pieces = {{{below, 0}, {above, a.size}}},
            .count = 2,
            .size = a.size + b.size,
            .lower = a.lower,
            .upper = a.upper};
  }

  // In the picture `middle` is e, `before` d, `above` c. Five sizes and ten moments that fit leave
  // no doubt.
  void GuessWound(int32_t middle, int32_t before, int32_t above, Guess& best) {
    const Block& e = At(middle);
    const Block& d = At(before);
    const Block& c = At(above);
    if (middle == above || d.size != e.size + c.size) return;
    if (IsSpent(Ending(e.upper).size() * Beginning(e.upper).size())) return;
    for (const int32_t below : Ending(e.upper)) {
      const Block& a = At(below);
      if (below == middle || a.lower != d.lower) continue;
      for (const int32_t after : Beginning(e.upper)) {
        const Block& b = At(after);
        if (b.upper != c.upper || b.size != a.size + e.size) continue;
        const int64_t alignment = e.alignment;
        if (a.alignment != alignment || b.alignment != alignment || c.alignment != alignment ||
            d.alignment != alignment)
          continue;
        best = {.doubt = 0,
                .pieces = {{{below, 0},
                            {after, 0},
                            {above, a.size + e.size},
                            {before, a.size},
                            {middle, a.size}}},
                .count = 5,
                .size = a.size + d.size,
                .lower = d.lower,
                .upper = c.upper};
        return;
      }
    }
  }

  void Make(const Guess& guess) {
    Block whole = {.size = guess.size, .lower = guess.lower, .upper = guess.upper};
    std::vector<int32_t> touched;
    for (size_t i = 0; i < guess.count; ++i) {
      const Guess::Piece& piece = guess.pieces[i];
      Block& part = blocks_[static_cast<size_t>(piece.block)];
      whole.alignment = part.alignment;
      for (const int32_t buffer : part.buffers)
        offsets_[static_cast<size_t>(buffer)] += piece.offset;
      whole.buffers.insert(whole.buffers.end(), part.buffers.begin(), part.buffers.end());
      part.buffers.clear();
      std::erase(beginning_[static_cast<size_t>(part.lower)], piece.block);
      std::erase(ending_[static_cast<size_t>(part.upper)], piece.block);
      touched.push_back(part.lower);
      touched.push_back(part.upper);
    }
    Enlist(std::move(whole));
    // Guesses depend on what ends where one of theirs does, too; hardly, if much does.
    for (size_t i = touched.size(); i-- > 0;) {
      if (Ending(touched[i]).size() > kEndingMax) continue;
      for (const int32_t ending : Ending(touched[i]))
        touched.push_back(At(ending).lower);
    }
    std::ranges::sort(touched);
    touched.erase(std::ranges::unique(touched).begin(), touched.end());
    for (const int32_t moment : touched)
      guesses_[static_cast<size_t>(moment)] = LikeliestAt(moment);
  }

  JoinedBuffers Take() && {
    JoinedBuffers joined;
    joined.places.resize(count_);
    for (size_t i = 0; i < count_; ++i) {
      if (MayJoin(buffers_[i])) continue;
      joined.places[i].block = joined.blocks.size();
      joined.blocks.push_back(buffers_[i]);
    }
    for (Block& block : blocks_) {
      std::erase_if(block.buffers,
                    [&](int32_t buffer) { return std::cmp_greater_equal(buffer, count_); });
      if (block.buffers.empty()) continue;
      Buffer whole = {.lifetime = {{moments_[static_cast<size_t>(block.lower)],
                                    moments_[static_cast<size_t>(block.upper)]}},
                      .alignment = block.alignment};
      for (const int32_t buffer : block.buffers) {
        const auto i = static_cast<size_t>(buffer);
        joined.places[i] = {joined.blocks.size(), offsets_[i]};
        whole.bytes = std::max(whole.bytes, offsets_[i] + buffers_[i].bytes);
      }
      joined.blocks.push_back(std::move(whole));
    }
    return joined;
  }

  const std::span<const Buffer> buffers_;
  const size_t count_;  // Without fillers.
  const JoinOptions& options_;
  std::vector<int64_t> offsets_;                 // Of each buffer inside its block.
  std::vector<int64_t> moments_;                 // Steps at which some block begins or ends.
  std::vector<Block> blocks_;                    // Without buffers once it is part of another.
  std::vector<std::vector<int32_t>> beginning_;  // Blocks, by moment.
  std::vector<std::vector<int32_t>> ending_;
  int64_t looks_left_;
  std::vector<Guess> guesses_;  // The likeliest, by moment; of no pieces if there is none.
};

}  // namespace

JoinedBuffers JoinBuffers(std::span<const Buffer> buffers, const JoinOptions& options) {
  if (!options.fill_below) return Joiner(buffers, 0, options).Join();
  std::vector<Buffer> all(buffers.begin(), buffers.end());
  const std::vector<Buffer> fillers = FillersOf(buffers, *options.fill_below);
  all.insert(all.end(), fillers.begin(), fillers.end());
  return Joiner(all, fillers.size(), options).Join();
}

Plan PlanOfJoined(std::span<const Buffer> buffers, const JoinedBuffers& joined, const Plan& plan) {
  Plan all;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const JoinedBuffers::Place& place = joined.places[i];
    all.offsets.push_back(plan.offsets[place.block] + place.offset);
    all.height = std::max(all.height, all.offsets.back() + buffers[i].bytes);
  }
  return all;
}

}  // namespace coppice::internal
