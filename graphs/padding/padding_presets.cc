// Presets: what is said of each, and most of them as steps that widen.

#include "coppice/padding/padding_presets.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "coppice/base/units.h"

#include "graphs/padding/preset_ladder.h"

namespace coppice {
namespace {

constexpr int64_t kForever = std::numeric_limits<int64_t>::max();
constexpr int64_t kDouble = 0;  // As a step.

constexpr PaddingPreset kPresets[] = {
    {"pow2", "1 2 4 8 ... doubling", "TensorFlow, TGI, Neuron and others", 0, 1},
    {"geometric:1.25:1", "each 1.25 times the last", "the best fixed ladder for decode", 0, 1},
    {"linear:128", "every 128", "vLLM for Gaudi, linear, for prompts (vllm-gaudi docs)", 0, 128},
    {"vllm", "1 2 4, every 8 up to 256, then every 16", "vLLM, vllm/config/vllm.py, Mar 2026", 512,
     1},
    {"vllm-interactivity", "1 to 32, every 8 up to 256, then every 16",
     "vLLM, performance_mode=interactivity", 512, 1},
    {"sglang", "1 2 4 8 12, every 8 up to 256, every 16 up to 512, then every 32",
     "SGLang, server_args.py, #21005", 512, 1},
    {"sglang-spec",
     "1 to 8, every 2 up to 32, every 4 from 40 to 64, every 8 up to 256, every 16 up to 512, then "
     "every 32",
     "SGLang with speculative decoding, server_args.py", 512, 1},
    {"sglang-piecewise",
     "every 4 up to 32, every 16 up to 256, every 32 up to 512, every 64 up to 1024, every 256 up "
     "to 4096, then every 512",
     "SGLang, tokens of piecewise graphs, server_args.py", 8192, 4},
    {"sglang-piecewise-pre2026",
     "every 4 up to 32, every 16 up to 256, every 32 up to 512, every 128 up to 4096, then every "
     "256",
     "SGLang, tokens of piecewise graphs, before 2026", 4096, 4},
    {"trtllm", "1 2 4, every 8 up to 128, then every 64", "TensorRT-LLM #12895, Apr 2026", 128, 1},
    {"trtllm-pre2026", "1 2 4, every 8 up to 128, then doubling", "TensorRT-LLM before #12895", 128,
     1},
    {"lmdeploy", "doubling to 256, then every 256", "LMDeploy, #4573", 256, 1},
    {"tgi", "1 2 4 8 16 32, doubling", "Text Generation Inference, --cuda-graphs", 32, 1},
    {"lightllm", "1 to 32, then every 16", "lightllm, graph_split_batch_size", 256, 1},
    {"fastdeploy", "1 2 4, every 8 up to 128, every 16 up to 256, then every 32", "FastDeploy", 512,
     1},
    {"mini-sglang", "1 2 4, then every 8", "mini-sglang, #56", 256, 1},
    {"neuron", "128 256 512 ... doubling", "Neuron, num_batched_tokens_buckets", 8192, 128},
    {"hpu-exponential", "log2(maximum) + 1 multiples of 128, spaced exponentially",
     "vLLM for Gaudi, exponential (vllm-hpu-extension 7717587)", 8192, 128},
    {"hpu-padding-aware",
     "multiples of 128, in steps of at most 25 % and at most a quarter of the maximum",
     "vLLM for Gaudi 0.21, padding-aware (vllm-gaudi #762)", 8192, 128},
    {"tpu:256", "16 32 64 ... doubling to 256, then every 256",
     "vLLM for TPU, get_token_paddings(16, max, gap); with gap 0 (tpu:0), each bucket is twice the "
     "one before",
     8192, 16},
};

// Up to `until`, rungs are `step` apart.
struct Stretch {
  int64_t until;
  int64_t step;
};

struct SteppedPreset {
  std::string_view name;
  int64_t first;
  std::vector<Stretch> stretches;  // The last goes on forever.
};

const std::vector<SteppedPreset>& SteppedPresets() {
  static const auto* const presets = new std::vector<SteppedPreset>{
      {"vllm", 1, {{8, kDouble}, {256, 8}, {kForever, 16}}},
      {"vllm-interactivity", 1, {{32, 1}, {256, 8}, {kForever, 16}}},
      {"sglang", 1, {{4, kDouble}, {16, 4}, {256, 8}, {512, 16}, {kForever, 32}}},
      {"sglang-spec", 1, {{8, 1}, {32, 2}, {40, 8}, {64, 4}, {256, 8}, {512, 16}, {kForever, 32}}},
      {"sglang-piecewise",
       4,
       {{32, 4}, {256, 16}, {512, 32}, {1024, 64}, {4096, 256}, {kForever, 512}}},
      {"sglang-piecewise-pre2026",
       4,
       {{32, 4}, {256, 16}, {512, 32}, {4096, 128}, {kForever, 256}}},
      {"trtllm", 1, {{8, kDouble}, {128, 8}, {kForever, 64}}},
      {"trtllm-pre2026", 1, {{8, kDouble}, {128, 8}, {kForever, kDouble}}},
      {"lmdeploy", 1, {{256, kDouble}, {kForever, 256}}},
      {"tgi", 1, {{kForever, kDouble}}},
      {"lightllm", 1, {{32, 1}, {kForever, 16}}},
      {"fastdeploy", 1, {{8, kDouble}, {128, 8}, {256, 16}, {kForever, 32}}},
      {"mini-sglang", 1, {{8, kDouble}, {kForever, 8}}},
      {"neuron", 128, {{kForever, kDouble}}},
  };
  return *presets;
}

std::vector<int64_t> Climb(const SteppedPreset& preset, int64_t maximum) {
  std::vector<int64_t> ladder;
  size_t stretch = 0;
  for (int64_t rung = preset.first; rung < maximum;) {
    ladder.push_back(rung);
    while (rung >= preset.stretches[stretch].until)
      ++stretch;
    const int64_t step = preset.stretches[stretch].step;
    rung += step == kDouble ? rung : step;
  }
  ladder.push_back(maximum);
  return ladder;
}

constexpr int64_t kHpuBlock = 128;

// As many multiples of a block as doublings reach, at the powers that share the way to the maximum
// evenly; where two round up to the same multiple, the nearest free one takes the second's place.
std::vector<int64_t> HpuExponential(int64_t maximum) {
  const int64_t last = maximum / kHpuBlock;  // In blocks.
  const int64_t count = static_cast<int64_t>(std::ceil(std::log2(maximum))) + 1;
  std::vector<int64_t> ladder;
  if (last > 0 && count > 1) {
    std::vector<bool> taken(static_cast<size_t>(last) + 1);
    const double way = static_cast<double>(maximum) / static_cast<double>(kHpuBlock);
    for (int64_t i = 0; i < std::min(count, last); ++i) {
      const double power = std::pow(way, static_cast<double>(i) / static_cast<double>(count - 1));
      // A power that is a whole number comes out a little above it.
      int64_t block = std::clamp(static_cast<int64_t>(std::ceil(power - 1e-9)), int64_t{1}, last);
      for (int64_t away = 0; taken[static_cast<size_t>(block)]; ++away) {
        const auto below = static_cast<int64_t>(std::floor(power)) - away;
        const int64_t above = static_cast<int64_t>(std::ceil(power)) + away;
        const bool below_free = below >= 1 && !taken[static_cast<size_t>(below)];
        const bool above_free = above <= last && !taken[static_cast<size_t>(above)];
        const bool nearer =
            power - static_cast<double>(below) <= static_cast<double>(above) - power;
        if (below_free && (nearer || !above_free))
          block = below;
        else if (above_free)
          block = above;
      }
      taken[static_cast<size_t>(block)] = true;
    }
    for (int64_t block = 1; block <= last; ++block) {
      if (taken[static_cast<size_t>(block)] && block * kHpuBlock < maximum)
        ladder.push_back(block * kHpuBlock);
    }
  }
  ladder.push_back(maximum);
  return ladder;
}

// Multiples of a block, of which one is left out if the next is still near the last that was taken.
std::vector<int64_t> HpuPaddingAware(int64_t maximum) {
  const int64_t padding_max = AlignUp(maximum, 4) / 4;
  std::vector<int64_t> ladder;
  for (int64_t rung = kHpuBlock; rung < maximum; rung += kHpuBlock) {
    const int64_t next = rung + kHpuBlock;
    if (ladder.empty() || 4 * next > 5 * ladder.back() || next - ladder.back() > padding_max ||
        rung % padding_max == 0)
      ladder.push_back(rung);
  }
  ladder.push_back(maximum);
  return ladder;
}

// Doubles while that stays within the gap, then grows by it.
std::vector<int64_t> Tpu(int64_t gap, int64_t maximum) {
  std::vector<int64_t> ladder;
  for (int64_t rung = 16; rung < maximum;) {
    ladder.push_back(rung);
    rung += gap == 0 || 2 * rung <= gap ? rung : gap;
  }
  ladder.push_back(maximum);
  return ladder;
}

std::string_view HeadOf(std::string_view name) {
  return name.substr(0, name.find(':'));
}

}  // namespace

std::span<const PaddingPreset> PaddingPresets() {
  return kPresets;
}

const PaddingPreset* FindPaddingPreset(std::string_view name) {
  const auto* const found = std::find_if(
      std::begin(kPresets), std::end(kPresets),
      [name](const PaddingPreset& preset) { return HeadOf(preset.name) == HeadOf(name); });
  return found == std::end(kPresets) ? nullptr : found;
}

std::optional<std::vector<int64_t>> PresetLadder(std::string_view name,
                                                 std::span<const int64_t> arguments,
                                                 int64_t maximum) {
  if (name == "tpu" && arguments.size() <= 1 && (arguments.empty() || arguments[0] >= 0))
    return Tpu(arguments.empty() ? 256 : arguments[0], maximum);
  if (!arguments.empty()) return std::nullopt;
  if (name == "hpu-exponential") return HpuExponential(maximum);
  if (name == "hpu-padding-aware") return HpuPaddingAware(maximum);
  const std::vector<SteppedPreset>& presets = SteppedPresets();
  const auto found = std::ranges::find(presets, name, &SteppedPreset::name);
  if (found == presets.end()) return std::nullopt;
  return Climb(*found, maximum);
}

}  // namespace coppice
