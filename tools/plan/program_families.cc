// Which models make which family, and the same from files.

#include "tools/plan/program_families.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "coppice/base/status.h"

#include "tools/plan/lifetime_csv.h"
#include "tools/plan/program_models.h"
#include "tools/plan/python_random.h"

namespace coppice {
namespace {

using Buckets = std::vector<std::vector<Buffer>>;

// first, first + step, ..., last.
std::vector<int64_t> Ramp(int64_t first, int64_t step, int64_t last) {
  std::vector<int64_t> extents;
  for (int64_t extent = first; extent <= last; extent += step)
    extents.push_back(extent);
  return extents;
}

// The batches that servers capture: 1, 2, 4, then multiples of 8.
std::vector<int64_t> DecodeBatches(int64_t last) {
  std::vector<int64_t> batches = {1, 2, 4};
  const std::vector<int64_t> ramp = Ramp(8, 8, last);
  batches.insert(batches.end(), ramp.begin(), ramp.end());
  return batches;
}

template <typename Make>
Buckets OneEach(const std::vector<int64_t>& extents, Make make) {
  Buckets buckets;
  for (const int64_t extent : extents)
    buckets.push_back(make(extent));
  return buckets;
}

Buckets DecodeFamily(const FusedDecoder& model) {
  return OneEach(DecodeBatches(512), [&](int64_t batch) { return FusedDecoderStep(model, batch); });
}

Buckets LlamaDecode() {
  return DecodeFamily({});
}

Buckets LlamaDecodeWithoutLogits() {
  return DecodeFamily({.logits = false});
}

Buckets Llama70Decode() {
  return DecodeFamily(
      {.layers = 80, .hidden = 8192, .heads = 64, .intermediate = 28672, .ranks = 8, .fp8 = true});
}

Buckets MixtralDecode() {
  return DecodeFamily({.vocabulary = 32000, .experts = 8});
}

Buckets LlamaEagerDecode() {
  return OneEach(DecodeBatches(128), [](int64_t batch) { return EagerDecoderStep(batch, 1024); });
}

Buckets LlamaPrefill() {
  return OneEach({16,  32,  48,  64,   96,   128,  160,  192,  224,  256,  320,  384,  448,  512,
                  640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 6144, 8192},
                 [](int64_t tokens) { return FusedDecoderStep({.decode = false}, tokens); });
}

Buckets BertEager() {
  return OneEach(Ramp(16, 16, 512),
                 [](int64_t sequence) { return BertLarge(32, sequence, /*eager=*/true); });
}

Buckets BertFused() {
  return OneEach(Ramp(16, 16, 512),
                 [](int64_t sequence) { return BertLarge(32, sequence, /*eager=*/false); });
}

Buckets BertTwoDimensions() {
  Buckets buckets;
  for (const int64_t batch : {1, 2, 4, 8, 16, 32}) {
    for (const int64_t sequence : {32, 64, 96, 128, 192, 256, 320, 384, 448, 512})
      buckets.push_back(BertLarge(batch, sequence, /*eager=*/true));
  }
  return buckets;
}

Buckets T5() {
  return OneEach(Ramp(32, 32, 1024), [](int64_t sequence) { return T5Base(8, sequence, 32); });
}

Buckets Unet() {
  constexpr std::array<std::pair<int64_t, int64_t>, 8> kImages = {{{512, 512},
                                                                   {512, 768},
                                                                   {768, 512},
                                                                   {640, 640},
                                                                   {768, 768},
                                                                   {768, 1024},
                                                                   {896, 896},
                                                                   {1024, 1024}}};
  Buckets buckets;
  for (const int64_t batch : {1, 2, 4}) {
    for (const auto& [height, width] : kImages)
      buckets.push_back(DiffusionUnet(batch, height, width));
  }
  return buckets;
}

template <int64_t kLayers, bool kCheckpointed>
std::vector<Buffer> Training() {
  return GptTrainingStep(kLayers, kCheckpointed);
}

template <int64_t kCount, Lives kLives>
std::vector<Buffer> Random() {
  return RandomProgram(kCount, kLives, /*seed=*/1);
}

constexpr std::array kFamilies = {
    Generator<Buckets>{"bert_large_eager_bxs60", &BertTwoDimensions},
    Generator<Buckets>{"bert_large_eager_seq32", &BertEager},
    Generator<Buckets>{"bert_large_sdpa_seq32", &BertFused},
    Generator<Buckets>{"llama70b_fp8_tp8_decode67", &Llama70Decode},
    Generator<Buckets>{"llama8b_eager_decode19", &LlamaEagerDecode},
    Generator<Buckets>{"llama8b_fused_decode67", &LlamaDecode},
    Generator<Buckets>{"llama8b_nologits_decode67", &LlamaDecodeWithoutLogits},
    Generator<Buckets>{"llama8b_prefill28", &LlamaPrefill},
    Generator<Buckets>{"mixtral_decode67", &MixtralDecode},
    Generator<Buckets>{"t5_base_seq32", &T5},
    Generator<Buckets>{"unet_sd15_24", &Unet}};

using Program = Generator<std::vector<Buffer>>;

constexpr std::array kPrograms = {Program{"long_1000", &Random<1000, Lives::kLong>},
                                  Program{"long_20000", &Random<20000, Lives::kLong>},
                                  Program{"long_5000", &Random<5000, Lives::kLong>},
                                  Program{"mix_1000", &Random<1000, Lives::kMixed>},
                                  Program{"mix_20000", &Random<20000, Lives::kMixed>},
                                  Program{"mix_5000", &Random<5000, Lives::kMixed>},
                                  Program{"short_1000", &Random<1000, Lives::kShort>},
                                  Program{"short_20000", &Random<20000, Lives::kShort>},
                                  Program{"short_5000", &Random<5000, Lives::kShort>},
                                  Program{"gpt_L12", &Training<12, false>},
                                  Program{"gpt_L120", &Training<120, false>},
                                  Program{"gpt_L360", &Training<360, false>},
                                  Program{"gpt_L48", &Training<48, false>},
                                  Program{"gptckpt_L240", &Training<240, true>},
                                  Program{"gptckpt_L48", &Training<48, true>}};

// The entries of a folder that `wanted` accepts, by name.
template <typename Wanted>
std::vector<std::filesystem::path> Entries(const std::filesystem::path& folder, Wanted wanted) {
  std::vector<std::filesystem::path> paths;
  std::error_code code;
  for (std::filesystem::directory_iterator entry(folder, code), end; !code && entry != end;
       entry.increment(code))
    if (wanted(*entry)) paths.push_back(entry->path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

std::span<const Generator<Buckets>> BuiltInFamilies() {
  return kFamilies;
}

std::span<const Generator<std::vector<Buffer>>> BuiltInPrograms() {
  return kPrograms;
}

std::vector<Buffer> RandomProgram(int64_t count, Lives lives, uint32_t seed) {
  constexpr double kShortSteps = 40;
  PythonRandom random(seed);
  const auto short_life = [&] {
    return 1 + static_cast<int64_t>(random.Exponential(1 / kShortSteps));
  };
  const auto life = [&] {
    if (lives == Lives::kLong) return random.Range(1, 2 * count);
    if (lives == Lives::kShort || random.Random() < 0.9) return short_life();
    return 1 + static_cast<int64_t>(random.Exponential(1 / (static_cast<double>(count) / 2)));
  };
  std::vector<Buffer> buffers(static_cast<size_t>(count));
  for (Buffer& buffer : buffers) {
    const int64_t begin = random.Range(0, 4 * count);
    const int64_t end = std::min(4 * count, begin + life()) + 1;
    buffer.lifetime = {Interval{.lower = begin, .upper = end}};
    buffer.bytes = 512 * std::max<int64_t>(1, static_cast<int64_t>(random.LogNormal(5, 2)));
  }
  return buffers;
}

absl::StatusOr<ProgramFolder> ReadProgramFolder(const std::string& path) {
  const auto folders = Entries(path, [](const auto& entry) { return entry.is_directory(); });
  ProgramFolder programs;
  for (const std::filesystem::path& folder : folders) {
    const std::string name = folder.filename().string();
    const auto files =
        Entries(folder, [](const auto& entry) { return entry.path().extension() == ".csv"; });
    if (files.empty())
      return InvalidArgument("{}: there is no .csv file; give one per bucket", folder.string());
    ProgramFamily family = {.name = name};
    for (const std::filesystem::path& file : files) {
      COPPICE_ASSIGN_OR_RETURN(LifetimeTable table, ReadLifetimes(file.string()));
      if (name == "train" || name == "random") {
        programs.programs.push_back({file.stem().string(), std::move(table.buffers)});
      } else {
        family.buckets.push_back(std::move(table.buffers));
      }
    }
    if (!family.buckets.empty()) programs.families.push_back(std::move(family));
  }
  if (programs.families.empty() && programs.programs.empty())
    return InvalidArgument("{}: there is no folder of families; give a folder with one per family",
                           path);
  return programs;
}

}  // namespace coppice
