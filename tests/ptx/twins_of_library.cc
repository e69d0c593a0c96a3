// Kernels of the library, and of its tests.

#include <array>
#include <cstring>

#include "coppice/graphs/staging_params.h"

#include "tests/ptx/twin_kernels.h"
#include "tests/sim/traffic_kernels.h"
#include "tests/support/test_kernels.h"

namespace coppice {

extern const KernelImage pack_image;
extern const KernelImage staging_image;

namespace ptx {
namespace {

// tests/support/test_kernels.cu

void DrawFill(TwinDraw& draw, TwinScene& scene) {
  const int64_t count = draw.Int(0, 1000);
  scene.Launch(
      FillParams{
          .target = scene.Array(draw.Garbage(count)), .count = count, .value = draw.Float(-9, 9)},
      {GridFor(count), 1, 1});
}

void DrawScale(TwinDraw& draw, TwinScene& scene) {
  const int64_t count = draw.Int(0, 1000);
  scene.Launch(ScaleParams{.x = scene.Array(draw.Floats(count)),
                           .y = scene.Array(draw.Garbage(count)),
                           .count = count,
                           .factor = draw.Float(-9, 9)},
               {GridFor(count), 1, 1});
}

void DrawAdd(TwinDraw& draw, TwinScene& scene) {
  const int64_t count = draw.Int(0, 1000);
  scene.Launch(AddParams{.x = scene.Array(draw.Floats(count)),
                         .y = scene.Array(draw.Floats(count)),
                         .z = scene.Array(draw.Garbage(count)),
                         .count = count},
               {GridFor(count), 1, 1});
}

void DrawMaskedScale(TwinDraw& draw, TwinScene& scene) {
  const unsigned blocks = static_cast<unsigned>(draw.Int(1, 12));
  const int64_t padded = int64_t{blocks} * kTestThreads;
  const auto word = static_cast<int32_t>(draw.Int(0, 5));
  scene.Launch(MaskedScaleParams{.x = scene.Array(draw.Floats(padded)),
                                 .y = scene.Array(draw.Garbage(padded)),
                                 .words = scene.Array(draw.Ints<int64_t>(6, 0, padded)),
                                 .word = word,
                                 .factor = draw.Float(-9, 9)},
               {blocks, 1, 1});
}

void DrawCompact(TwinDraw& draw, TwinScene& scene) {
  const int64_t capacity = draw.Int(1, 200);
  scene.Launch(
      CompactParams{
          .x = scene.Array(draw.Floats(capacity)),
          .y = scene.Array(draw.Garbage(capacity)),
          .words = scene.Array(draw.Ints<int64_t>(4, 0, capacity)),
          .word = static_cast<int32_t>(draw.Int(0, 3)),
          .capacity = capacity,
          .count = draw.Int(0, 1) == 0 ? nullptr : scene.Array(draw.Words<int64_t>(1)),
          .narrow_count = draw.Int(0, 1) == 0 ? nullptr : scene.Array(draw.Words<int32_t>(1))},
      {static_cast<unsigned>(draw.Int(1, 3)), 1, 1});
}

void DrawPhilox(TwinDraw& draw, TwinScene& scene) {
  const int64_t count = draw.Int(0, 500);
  const std::vector<int64_t> state = {0, static_cast<int64_t>(draw.Word()), draw.Int(0, 1L << 40)};
  scene.Launch(PhiloxParams{.y = scene.Array(draw.Words<uint32_t>(count)),
                            .words = scene.Array(state),
                            .count = count,
                            .word = 1,
                            .sequences = static_cast<int32_t>(draw.Int(0, 1))},
               {GridFor(count), 1, 1});
}

void DrawRaggedRows(TwinDraw& draw, TwinScene& scene) {
  RaggedRowsParams params{.words = scene.Array(draw.Ints<int64_t>(3, 0, 90)),
                          .sequences = draw.Int(0, 12),
                          .rows = draw.Int(0, 80),
                          .length = draw.Int(0, 1) * draw.Int(1, 9),
                          .width = draw.Int(1, 5),
                          .word = static_cast<int32_t>(draw.Int(0, 2))};
  if (draw.Int(0, 1) == 0)
    params.offsets = scene.Array(draw.Ints<int64_t>(params.sequences + 1, -5, 90));
  else
    params.narrow_offsets = scene.Array(draw.Ints<int32_t>(params.sequences + 1, -5, 90));
  const int64_t rows = params.length == 0 ? params.rows : params.sequences * params.length;
  params.x = scene.Array(draw.Floats(rows * params.width));
  params.y = scene.Array(draw.Garbage(rows * params.width));
  scene.Launch(params, {GridFor(rows * params.width), 1, 1});
}

void DrawStore(TwinDraw& draw, TwinScene& scene) {
  scene.Launch(StoreParams{.target = scene.Array(draw.Words<int64_t>(1)),
                           .value = static_cast<int64_t>(draw.Word())},
               {static_cast<unsigned>(draw.Int(1, 4)), 1, 1});
}

// Keys are eighths of small integers, so that the block's sum has no roundings in any order.
void DrawCollectives(TwinDraw& draw, TwinScene& scene) {
  const std::array<unsigned, 3> grid = {static_cast<unsigned>(draw.Int(1, 5)),
                                        static_cast<unsigned>(draw.Int(1, 3)), 1};
  const int64_t blocks = int64_t{grid[0]} * grid[1];
  const int64_t threads = blocks * kTestThreads;
  std::vector<float> keys;
  const int64_t most = draw.Int(0, 1) == 0 ? 5 : 1000;  // Few distinct ones, or hardly any equal.
  for (const int32_t key : draw.Ints<int32_t>(threads, -most, most))
    keys.push_back(static_cast<float>(key) / 8);
  scene.Launch(CollectivesParams{.keys = scene.Array(keys),
                                 .sum = scene.Array(draw.Garbage(blocks)),
                                 .maximum = scene.Array(draw.Garbage(blocks)),
                                 .arg_max = scene.Array(draw.Words<int32_t>(blocks)),
                                 .positive_total = scene.Array(draw.Words<int32_t>(blocks)),
                                 .positive_rank = scene.Array(draw.Words<int32_t>(threads)),
                                 .sorted_keys = scene.Array(draw.Garbage(threads)),
                                 .sorted_threads = scene.Array(draw.Words<int32_t>(threads)),
                                 .reversed = scene.Array(draw.Garbage(threads))},
               grid);
}

void DrawCube(TwinDraw& draw, TwinScene& scene) {
  const std::array<unsigned, 3> grid = {static_cast<unsigned>(draw.Int(1, 4)),
                                        static_cast<unsigned>(draw.Int(1, 3)),
                                        static_cast<unsigned>(draw.Int(1, 3))};
  const int64_t words = draw.Int(0, 300);
  const int64_t blocks = int64_t{grid[0]} * grid[1] * grid[2];
  scene.Launch(
      CubeParams{.target = scene.Array(draw.Words<int64_t>(blocks)), .shared_words = words}, grid,
      words * static_cast<int64_t>(sizeof(int64_t)));
}

// tests/sim/traffic_kernels.cu

TrafficElements DrawElements(TwinDraw& draw, TwinScene& scene, int64_t count, int64_t bytes) {
  return {scene.Array(draw.Words<uint8_t>(count * bytes)), bytes};
}

void DrawTrafficMix(TwinDraw& draw, TwinScene& scene) {
  const int64_t count = draw.Int(0, 500);
  const auto bytes = [&] { return int64_t{1} << draw.Int(0, 3); };
  TrafficMixParams params{.x = DrawElements(draw, scene, count, bytes()),
                          .z = DrawElements(draw, scene, count, bytes()),
                          .words = scene.Array(draw.Ints<int64_t>(8, 0, 600)),
                          .count = count,
                          .y_count = draw.Int(1, 600),
                          .salt = draw.Word(),
                          .live_word = static_cast<int32_t>(draw.Int(-1, 3)),
                          .salt_word = static_cast<int32_t>(draw.Int(0, 3)),
                          .salt_count = static_cast<int32_t>(draw.Int(0, 4))};
  if (draw.Int(0, 2) > 0) params.y = DrawElements(draw, scene, params.y_count, bytes());
  scene.Launch(params, {Blocks(count, kTrafficThreads), 1, 1});
}

// Each sums in order, but a softmax by two functions expf, each within 2 ulps, over 40 terms of one
// sign: 2 ulps of the numerator, 2 of the sum, and the last roundings.
void DrawTrafficReduce(TwinDraw& draw, TwinScene& scene) {
  TrafficReduceParams params{.n = draw.Int(1, 40),
                             .reduction = static_cast<TrafficReduction>(draw.Int(0, 3))};
  const bool floats = params.reduction == TrafficReduction::kSoftmax;
  params.count = draw.Int(1, 9) * params.n;
  const int64_t bytes = int64_t{1} << draw.Int(0, 3);
  params.x = DrawElements(draw, scene, params.count, bytes);
  params.none = draw.Int(0, 1) == 0 ? params.x.At(draw.Int(0, params.count - 1)) : draw.Word();
  if (floats) {
    float* z = scene.Floats(draw.Garbage(params.count), {.ulps = 8});
    params.z = {reinterpret_cast<uint8_t*>(z), sizeof(float)};
  } else {
    params.z = DrawElements(draw, scene, params.count, bytes);
  }
  scene.Launch(params, {Blocks(params.count, kTrafficThreads), 1, 1});
}

void DrawTrafficCount(TwinDraw& draw, TwinScene& scene) {
  scene.Launch(TrafficCountParams{.x = DrawElements(draw, scene, 1, int64_t{1} << draw.Int(0, 3)),
                                  .z = DrawElements(draw, scene, 1, int64_t{4} << draw.Int(0, 1)),
                                  .words = scene.Array(draw.Ints<int64_t>(3, 0, 9)),
                                  .live_word = static_cast<int32_t>(draw.Int(0, 2))},
               {1, 1, 1});
}

// graphs/staging/staging.cu

// Sequences whose lengths may be anything, and the rows that packed tensors have of them.
StagedRagged DrawSequences(TwinDraw& draw, TwinScene& scene, int total_word) {
  StagedRagged ragged{.count = draw.Int(0, 6),
                      .rows = draw.Int(0, 40),
                      .total_word = static_cast<int16_t>(total_word),
                      .narrow = draw.Int(0, 1) == 0,
                      .by_offsets = draw.Int(0, 1) == 0};
  if (draw.Int(0, 4) == 0) ragged.count = draw.Int(250, 600);  // Several rounds of a scan.
  ragged.slots = ragged.count + draw.Int(0, 9);
  ragged.stride = draw.Int(1, 2);
  const int64_t entries = (ragged.count + 1) * ragged.stride;
  const int64_t longest = draw.Int(0, 3) == 0 ? 60 : ragged.count > 100 ? 1 : 9;
  if (draw.Int(0, 7) > 0)
    ragged.lengths =
        ragged.narrow
            ? reinterpret_cast<uint64_t>(scene.Array(draw.Ints<int32_t>(entries, -1, longest)))
            : reinterpret_cast<uint64_t>(scene.Array(draw.Ints<int64_t>(entries, -1, longest)));
  ragged.offsets =
      ragged.narrow
          ? reinterpret_cast<uint64_t>(scene.Array(draw.Words<int32_t>(ragged.slots + 1)))
          : reinterpret_cast<uint64_t>(scene.Array(draw.Words<int64_t>(ragged.slots + 1)));
  return ragged;
}

// A copy with as many axes as there may be.
struct DrawnCopy {
  StagedCopy copy = {};
  StagedAxis axes[kStagingRankMax] = {};
};

// Makes a plain copy one of packed rows or of a rectangle. Returns the elements of its source.
int64_t DrawRows(TwinDraw& draw, const StagingHeader& header, int64_t source, DrawnCopy& drawn) {
  StagedCopy& copy = drawn.copy;
  StagedAxis* const axes = drawn.axes;
  const auto index = draw.Int(0, header.ragged_count - 1);
  const StagedRagged& ragged = header.ragged[index];
  copy.ragged = static_cast<int8_t>(index);
  if (copy.rank > 1 && draw.Int(0, 1) == 0) {
    copy.rows = StagedRows::kRectangle;
    if (copy.padding == StagedPadding::kRepeatLast) copy.padding = StagedPadding::kFill;
    axes[0].stride = 0;
    axes[0].size = std::min(axes[0].padded, ragged.count);
    return std::max<int64_t>(ragged.rows * axes[1].stride, 1);
  }
  copy.rows = StagedRows::kPacked;
  axes[0].size = std::min(axes[0].padded, ragged.rows);
  return source;
}

DrawnCopy DrawCopy(TwinDraw& draw, TwinScene& scene, const StagingHeader& header, int rank) {
  DrawnCopy drawn;
  StagedCopy& copy = drawn.copy;
  copy.rank = static_cast<int8_t>(rank);
  copy.element_bytes = static_cast<int8_t>(1 << draw.Int(0, 3));
  copy.noise_set = static_cast<int8_t>(draw.Int(-1, 8 * copy.element_bytes - 1));
  copy.noise_clear = static_cast<int8_t>(draw.Int(0, std::max<int64_t>(copy.noise_set, 0)));
  copy.padding = static_cast<StagedPadding>(draw.Int(0, 3));
  copy.fill = draw.Word() >> (64 - 8 * copy.element_bytes);
  constexpr int64_t kLongest[] = {9000, 90, 20, 8, 6, 4, 4, 3};  // By rank.
  const bool gaps = draw.Int(0, 2) == 0;
  int64_t source = 1;
  int64_t target = 1;
  for (int i = rank - 1; i >= 0; --i) {
    StagedAxis& axis = drawn.axes[i];
    axis.padded = draw.Int(draw.Int(0, 9) == 0 ? 0 : 1, kLongest[rank - 1]);
    axis.size = draw.Int(0, 3) == 0 ? draw.Int(0, axis.padded) : axis.padded;
    axis.stride = source;
    axis.target_stride = target;
    source *= std::max<int64_t>(axis.padded, 1) + (gaps ? draw.Int(0, 2) : 0);
    target *= std::max<int64_t>(axis.padded, 1) + (gaps ? draw.Int(0, 2) : 0);
  }
  // The outermost one may be what the device decides, which is at most this.
  const int64_t word = draw.Int(0, kStagingCountsMax - 1);
  if (header.counts[word] != 0 && header.words[word] <= drawn.axes[0].padded)
    drawn.axes[0].size = -1 - word;
  if (header.ragged_count > 0 && draw.Int(0, 1) == 0)
    source = DrawRows(draw, header, source, drawn);
  const int64_t bytes = copy.element_bytes;
  const auto place = [&](int64_t elements) {
    const auto offset = static_cast<size_t>(draw.Int(0, 1) * draw.Int(0, 16 / bytes) * bytes);
    return reinterpret_cast<uint64_t>(scene.Array(draw.Words<uint8_t>(elements * bytes), offset));
  };
  copy.source = draw.Int(0, 7) == 0 ? 0 : place(source);
  copy.target = place(target);
  return drawn;
}

// Returns the tiles of all.
template <int kBytes>
int64_t DrawCopies(TwinDraw& draw, TwinScene& scene, StagingParamsOf<kBytes>& params) {
  const auto rank = static_cast<int>(draw.Int(1, kStagingRankMax));
  const int64_t bytes = StagedCopyBytes(rank);
  const int64_t room = static_cast<int64_t>(sizeof(params.copies)) / bytes;
  params.header.copy_bytes = static_cast<int16_t>(bytes);
  params.header.copy_count = static_cast<int16_t>(draw.Int(0, std::min<int64_t>(room, 40)));
  int64_t tiles = 0;
  for (int i = 0; i < params.header.copy_count; ++i) {
    // Some have fewer axes than there is room for.
    const auto axes = static_cast<int>(draw.Int(0, 2) == 0 ? draw.Int(1, rank) : rank);
    DrawnCopy drawn = DrawCopy(draw, scene, params.header, axes);
    int64_t elements = 1;
    for (int axis = 0; axis < axes; ++axis)
      elements *= drawn.axes[axis].padded;
    tiles += TilesFor(elements, drawn.copy.element_bytes);
    drawn.copy.end_tile = tiles;
    std::memcpy(params.copies + i * bytes, &drawn, static_cast<size_t>(bytes));
  }
  return tiles;
}

template <int kBytes, bool ragged>
void DrawStaging(TwinDraw& draw, TwinScene& scene) {
  StagingParamsOf<kBytes> params = {};
  StagingHeader& header = params.header;
  header.word_count = static_cast<int16_t>(draw.Int(0, kParameterWordsMax));
  header.parameter_block =
      reinterpret_cast<uint64_t>(scene.Array(draw.Words<int64_t>(kParameterWordsMax)));
  for (int64_t& word : header.words)
    word = draw.Int(0, 60);
  for (int i = 0; i < kStagingCountsMax; ++i) {
    if (i >= header.word_count || draw.Int(0, 1) == 0) continue;
    if (draw.Int(0, 1) == 0) {
      header.counts[i] = reinterpret_cast<uint64_t>(scene.Array(draw.Ints<int64_t>(1, -3, 60)));
    } else {
      header.counts[i] = reinterpret_cast<uint64_t>(scene.Array(draw.Ints<int32_t>(1, -3, 60)));
      header.narrow_counts = static_cast<uint8_t>(header.narrow_counts | 1 << i);
    }
  }
  if (ragged && header.word_count >= kStagingRaggedMax)
    header.ragged_count = static_cast<uint8_t>(draw.Int(0, kStagingRaggedMax));
  for (int i = 0; i < header.ragged_count; ++i)
    header.ragged[i] = DrawSequences(draw, scene, i);
  const int64_t tiles = DrawCopies(draw, scene, params);
  // Some blocks may have no tile.
  scene.Launch(params, {Blocks(tiles, 1) + static_cast<unsigned>(draw.Int(0, 1)), 1, 1});
}

// graphs/staging/pack.cu

void DrawPack(TwinDraw& draw, TwinScene& scene) {
  PackParams params{.sequences = draw.Int(0, 20),
                    .length = draw.Int(0, 9),
                    .rows = draw.Int(0, 60),
                    .row_units = draw.Int(1, 40),
                    .unit_bytes = 1 << draw.Int(0, 4),
                    .offset_bytes = draw.Int(0, 1) == 0 ? 4 : 8};
  params.limit = reinterpret_cast<uint64_t>(scene.Array(draw.Ints<int64_t>(1, 0, 9)));
  std::vector<int64_t> offsets = draw.Ints<int64_t>(params.sequences + 1, 0, 60);
  std::sort(offsets.begin(), offsets.end());
  params.offsets = params.offset_bytes == 8
                       ? reinterpret_cast<uint64_t>(scene.Array(offsets))
                       : reinterpret_cast<uint64_t>(
                             scene.Array(std::vector<int32_t>(offsets.begin(), offsets.end())));
  const auto bytes = [&](int64_t rows) {
    return reinterpret_cast<uint64_t>(
        scene.Array(draw.Words<uint8_t>(rows * params.row_units * params.unit_bytes)));
  };
  params.source = bytes(params.sequences * params.length);
  params.target = bytes(params.rows);
  scene.Launch(params, {Blocks(params.rows * params.row_units, kPackUnitsPerBlock), 1, 1});
}

}  // namespace

std::vector<Twin> LibraryTwins() {
  return {{"project", &test_kernels_image, "Fill", DrawFill},
          {"project", &test_kernels_image, "Scale", DrawScale},
          {"project", &test_kernels_image, "Add", DrawAdd},
          {"project", &test_kernels_image, "MaskedScale", DrawMaskedScale},
          {"project", &test_kernels_image, "Compact", DrawCompact},
          {"project", &test_kernels_image, "Philox", DrawPhilox},
          {"project", &test_kernels_image, "RaggedRows", DrawRaggedRows},
          {"project", &test_kernels_image, "Store", DrawStore},
          {"project", &test_kernels_image, "Collectives", DrawCollectives},
          {"project", &test_kernels_image, "Cube", DrawCube},
          {"project", &traffic_kernels_image, "TrafficMix", DrawTrafficMix},
          {"project", &traffic_kernels_image, "TrafficReduce", DrawTrafficReduce},
          {"project", &traffic_kernels_image, "TrafficCount", DrawTrafficCount},
          {"project", &pack_image, "PackRows", DrawPack},
          {"project", &staging_image, "StageSmall", DrawStaging<kSmallStagingBytes, false>},
          {"project", &staging_image, "StageMedium", DrawStaging<kMediumStagingBytes, false>},
          {"project", &staging_image, "StageWide", DrawStaging<kWideStagingBytes, false>},
          {"project", &staging_image, "StageRaggedSmall", DrawStaging<kSmallStagingBytes, true>},
          {"project", &staging_image, "StageRaggedMedium", DrawStaging<kMediumStagingBytes, true>},
          {"project", &staging_image, "StageRaggedWide", DrawStaging<kWideStagingBytes, true>}};
}

}  // namespace ptx
}  // namespace coppice
