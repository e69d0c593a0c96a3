// Kernels of the tools.

#include <cmath>
#include <numeric>

#include "tests/ptx/twin_kernels.h"
#include "tools/bench/bench_params.h"
#include "tools/model/decoder_params.h"
#include "tools/probe/probe_kernels.h"
#include "tools/soak/soak_kernels.h"

namespace coppice {

extern const KernelImage bench_image;
extern const KernelImage decoder_image;

namespace ptx {
namespace {

// tools/model/decoder.cu: the main job's model.

constexpr int64_t kWidth = 64;
constexpr int64_t kHeads = 4;
constexpr int64_t kKvHeads = 2;
constexpr int64_t kHeadDim = 16;
constexpr int64_t kFfn = 176;
constexpr int64_t kVocab = 512;
constexpr int64_t kContext = 256;  // A fourth of the job's.

// Rows of a bucket, of which some are live.
struct TwinRows {
  int64_t padded = 0;
  int64_t live = 0;
  const int64_t* word = nullptr;

  unsigned grid() const { return static_cast<unsigned>(padded); }
};

TwinRows DrawTwinRows(TwinDraw& draw, TwinScene& scene, int64_t most) {
  TwinRows rows;
  rows.padded = draw.Int(1, most);
  rows.live = draw.Int(0, 2) == 0 ? draw.Int(1, rows.padded) : rows.padded;
  rows.word = scene.Array(std::vector<int64_t>{rows.live});
  return rows;
}

void DrawEmbed(TwinDraw& draw, TwinScene& scene) {
  const TwinRows rows = DrawTwinRows(draw, scene, 40);
  scene.Launch(EmbedParams{.table = scene.Array(draw.Floats(kVocab * kWidth)),
                           .tokens = scene.Array(draw.Ints<int32_t>(rows.padded, 0, kVocab - 1)),
                           .x = scene.Array(draw.Garbage(rows.padded * kWidth)),
                           .live_rows = rows.word,
                           .vocab = kVocab,
                           .width = kWidth},
               {rows.grid(), 1, 1});
}

// A sum of squares in another order, under a root: within a unit for each of its seven levels of
// additions, and three roundings behind it.
void DrawNorm(TwinDraw& draw, TwinScene& scene) {
  const TwinRows rows = DrawTwinRows(draw, scene, 40);
  const int64_t width = draw.Int(0, 1) == 0 ? kWidth : draw.Int(1, 400);
  const bool last = draw.Int(0, 2) == 0;
  scene.Launch(NormParams{.x = scene.Array(draw.Floats(rows.padded * width)),
                          .weight = scene.Array(draw.Floats(width)),
                          .y = scene.Floats(draw.Garbage(rows.padded * width), {.ulps = 10}),
                          .live_rows = rows.word,
                          .row_count = rows.padded,
                          .width = width,
                          .epsilon = 1e-5F,
                          .last_row_only = last ? 1 : 0},
               {last ? 1 : rows.grid(), 1, 1});
}

void DrawProject(TwinDraw& draw, TwinScene& scene) {
  const TwinRows rows = DrawTwinRows(draw, scene, 40);
  constexpr int64_t kShapes[][2] = {{kWidth, (kHeads + 2 * kKvHeads) * kHeadDim},
                                    {kHeads * kHeadDim, kWidth},
                                    {kWidth, 2 * kFfn},
                                    {kFfn, kWidth},
                                    {kWidth, kVocab},
                                    {37, 71}};
  const auto& [depth, width] = kShapes[draw.Int(0, 5)];
  const unsigned columns = Blocks(width, kProjectionColumns);
  const int64_t stride = int64_t{columns} * kProjectionColumns;
  scene.Launch(ProjectParams{.x = scene.Array(draw.Floats(rows.padded * depth)),
                             .weight = scene.Array(draw.Floats(depth * stride)),
                             .y = scene.Array(draw.Floats(rows.padded * width)),
                             .live_rows = rows.word,
                             .row_count = rows.padded,
                             .depth = depth,
                             .width = width,
                             .weight_stride = stride,
                             .accumulate = static_cast<int32_t>(draw.Int(0, 1))},
               {Blocks(rows.padded, kProjectionRows), columns, 1});
}

// A prefill of one slot, or a batch whose rows have slots of their own.
AttentionParams DrawAttention(TwinDraw& draw, TwinScene& scene, const TwinRows& rows) {
  const bool one_sequence = draw.Int(0, 1) == 0;
  const int64_t slots = rows.padded + 1;
  std::vector<int32_t> own(static_cast<size_t>(slots));
  std::iota(own.begin(), own.end(), 0);
  std::rotate(own.begin(), own.begin() + draw.Int(0, slots - 1), own.end());
  const int64_t cached = slots * kContext * kKvHeads * kHeadDim;
  AttentionParams params{
      .qkv = scene.Array(draw.Floats(rows.padded * (kHeads + 2 * kKvHeads) * kHeadDim)),
      .keys = scene.Array(draw.Floats(cached)),
      .values = scene.Array(draw.Floats(cached)),
      .positions = nullptr,
      .slots = scene.Array(own),
      .live_rows = rows.word,
      .slot_count = slots,
      .heads = kHeads,
      .kv_heads = kKvHeads,
      .head_dim = kHeadDim,
      .max_context = kContext};
  if (!one_sequence)
    params.positions = scene.Array(draw.Ints<int32_t>(rows.padded, 0, kContext - 1));
  return params;
}

void DrawRotate(TwinDraw& draw, TwinScene& scene) {
  const TwinRows rows = DrawTwinRows(draw, scene, 40);
  const int64_t angles = kContext * kHeadDim / 2;
  scene.Launch(RotateParams{.attention = DrawAttention(draw, scene, rows),
                            .cosines = scene.Array(draw.Floats(angles)),
                            .sines = scene.Array(draw.Floats(angles))},
               {rows.grid(), 1, 1});
}

// Weights are exponentials within 2 ulps by either half, scaled down once a tile, over a sum in
// another order; the values they weigh are below 1, and may cancel.
void DrawAttend(TwinDraw& draw, TwinScene& scene) {
  const TwinRows rows = DrawTwinRows(draw, scene, 12);
  const AttentionParams attention = DrawAttention(draw, scene, rows);
  const int64_t outputs = rows.padded * kHeads * kHeadDim;
  scene.Launch(AttendParams{.attention = attention,
                            .y = scene.Floats(draw.Garbage(outputs), {.ulps = 16, .floor = 1}),
                            .scale = 1 / std::sqrt(static_cast<float>(kHeadDim))},
               {rows.grid(), kHeads, 1});
}

// An exponential within 2 ulps by either half, and three roundings behind it.
void DrawGate(TwinDraw& draw, TwinScene& scene) {
  const TwinRows rows = DrawTwinRows(draw, scene, 40);
  scene.Launch(GateParams{.gate_up = scene.Array(draw.Floats(2 * rows.padded * kFfn, -20, 20)),
                          .y = scene.Floats(draw.Garbage(rows.padded * kFfn), {.ulps = 6}),
                          .live_rows = rows.word,
                          .width = kFfn},
               {rows.grid(), 1, 1});
}

void DrawSample(TwinDraw& draw, TwinScene& scene) {
  const TwinRows rows = DrawTwinRows(draw, scene, 32);
  const int64_t width = draw.Int(0, 1) == 0 ? kVocab : draw.Int(2, 700);
  std::vector<float> logits;  // Many are equal.
  for (const int32_t logit : draw.Ints<int32_t>(rows.padded * width, -40, 40))
    logits.push_back(static_cast<float>(logit) / 8);
  scene.Launch(SampleParams{.logits = scene.Array(logits),
                            .tokens = scene.Array(draw.Words<int32_t>(rows.padded)),
                            .live_rows = rows.word,
                            .width = width},
               {rows.grid(), 1, 1});
}

// tools/soak, tools/probe, tools/bench

void DrawSoakStep(TwinDraw& draw, TwinScene& scene) {
  const int64_t capacity = draw.Int(1, 900);
  const std::vector<int64_t> words = {0, draw.Int(0, capacity), static_cast<int64_t>(draw.Word())};
  scene.Launch(SoakStepParams{.newer = scene.Array(draw.Words<uint32_t>(capacity)),
                              .older = scene.Array(draw.Words<uint32_t>(capacity)),
                              .target = scene.Array(draw.Words<uint32_t>(capacity)),
                              .parameters = scene.Array(words),
                              .capacity = capacity,
                              .extent_word = 1,
                              .salt_word = 2,
                              .constant = SoakConstant(static_cast<int>(draw.Int(0, 5)))},
               {Blocks(capacity, kSoakThreads), 1, 1});
}

void DrawTouch(TwinDraw& draw, TwinScene& scene) {
  scene.Launch(TouchParams{.target = scene.Array(draw.Words<int64_t>(1)),
                           .value = static_cast<int64_t>(draw.Word())},
               {1, 1, 1});
}

void DrawBulk(TwinDraw& draw, TwinScene& scene) {
  BulkParams params{.target = scene.Array(draw.Words<int64_t>(1))};
  for (int64_t& word : params.words)
    word = draw.Int(-(int64_t{1} << 50), int64_t{1} << 50);
  scene.Launch(params, {1, 1, 1});
}

void DrawIncrement(TwinDraw& draw, TwinScene& scene) {
  const int64_t count = draw.Int(0, 2000);
  float* target = scene.Array(draw.Floats(count));
  const bool in_place = draw.Int(0, 1) == 0;
  scene.Launch(IncrementParams{.source = in_place ? target : scene.Array(draw.Floats(count)),
                               .target = target,
                               .count = count},
               {Blocks(count, 256), 1, 1});
}

}  // namespace

std::vector<Twin> ToolTwins() {
  return {{"project", &decoder_image, "Embed", DrawEmbed},
          {"project", &decoder_image, "Norm", DrawNorm},
          {"project", &decoder_image, "Project", DrawProject},
          {"project", &decoder_image, "Rotate", DrawRotate},
          {"project", &decoder_image, "Attend", DrawAttend},
          {"project", &decoder_image, "Gate", DrawGate},
          {"project", &decoder_image, "Sample", DrawSample},
          {"project", &soak_kernels_image, "SoakStep", DrawSoakStep},
          {"project", &probe_kernels_image, "Touch", DrawTouch},
          {"project", &probe_kernels_image, "Bulk", DrawBulk},
          {"project", &bench_image, "Increment", DrawIncrement}};
}

}  // namespace ptx
}  // namespace coppice
