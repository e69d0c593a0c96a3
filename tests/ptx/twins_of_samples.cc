// Kernels of the samples.

#include "samples/embed.h"
#include "samples/filter.h"
#include "samples/join.h"
#include "samples/layer.h"
#include "samples/prefix.h"
#include "samples/scale.h"
#include "tests/ptx/twin_kernels.h"

namespace coppice::ptx {
namespace {

void DrawSampleEmbed(TwinDraw& draw, TwinScene& scene) {
  const int64_t rows = draw.Int(1, 30);
  const int64_t length = draw.Int(1, 9);
  const int64_t features = draw.Int(1, 100);
  scene.Launch(samples::EmbedParams{.tokens = scene.Array(draw.Ints<int32_t>(rows * length, 0, 19)),
                                    .table = scene.Array(draw.Floats(20 * features)),
                                    .y = scene.Array(draw.Garbage(rows * features)),
                                    .length = length,
                                    .vocabulary = 20,
                                    .features = features},
               {static_cast<unsigned>(rows), 1, 1});
}

void DrawFilter(TwinDraw& draw, TwinScene& scene) {
  const int64_t capacity = draw.Int(1, 900);
  scene.Launch(samples::FilterParams{.words = scene.Array(draw.Ints<int64_t>(1, 0, capacity)),
                                     .x = scene.Array(draw.Floats(capacity)),
                                     .y = scene.Array(draw.Garbage(capacity)),
                                     .kept = scene.Array(draw.Words<int64_t>(1)),
                                     .capacity = capacity},
               {1, 1, 1});
}

void DrawPrefix(TwinDraw& draw, TwinScene& scene) {
  const int64_t rows = draw.Int(1, 400);
  const int64_t sequences = draw.Int(1, 9);
  std::vector<int32_t> offsets = draw.Ints<int32_t>(sequences + 1, 0, rows);
  std::sort(offsets.begin(), offsets.end());
  scene.Launch(samples::PrefixParams{.offsets = scene.Array(offsets),
                                     .x = scene.Array(draw.Ints<int64_t>(rows, -99, 99)),
                                     .y = scene.Array(draw.Words<int64_t>(rows)),
                                     .rows = rows},
               {static_cast<unsigned>(sequences), 1, 1});
}

void DrawSquare(TwinDraw& draw, TwinScene& scene) {
  const int64_t capacity = draw.Int(1, 900);
  scene.Launch(samples::SquareParams{.words = scene.Array(draw.Ints<int64_t>(1, 0, capacity)),
                                     .x = scene.Array(draw.Floats(capacity)),
                                     .y = scene.Array(draw.Garbage(capacity)),
                                     .capacity = capacity},
               {Blocks(capacity, 256), 1, 1});
}

void DrawJoin(TwinDraw& draw, TwinScene& scene) {
  samples::JoinParams params{
      .x_length = draw.Int(1, 200), .y_length = draw.Int(1, 200), .page = draw.Int(1, 100)};
  const unsigned rows = static_cast<unsigned>(draw.Int(1, 4));
  const unsigned pages = Blocks(params.x_length + params.y_length, params.page);
  params.x = scene.Array(draw.Floats(params.x_length));
  params.y = scene.Array(draw.Floats(params.y_length));
  params.joined = scene.Array(draw.Garbage(rows * (params.x_length + params.y_length)));
  params.sums = scene.Array(draw.Garbage(int64_t{rows} * pages));
  params.extents = scene.Array(std::vector<int64_t>{
      draw.Int(1, params.x_length), draw.Int(1, params.y_length), draw.Int(1, rows)});
  scene.Launch(params, {pages, rows, 1}, params.page * static_cast<int64_t>(sizeof(float)));
}

void DrawLayer(TwinDraw& draw, TwinScene& scene) {
  const int64_t rows = draw.Int(1, 20);
  const int64_t in = draw.Int(1, 60);
  const int64_t out = draw.Int(1, 200);
  scene.Launch(samples::LayerParams{.x = scene.Array(draw.Floats(rows * in)),
                                    .weights = scene.Array(draw.Floats(in * out)),
                                    .y = scene.Array(draw.Garbage(rows * out)),
                                    .in = in,
                                    .out = out},
               {static_cast<unsigned>(rows), 1, 1});
}

void DrawSampleScale(TwinDraw& draw, TwinScene& scene) {
  const int64_t count = draw.Int(0, 2000);
  scene.Launch(samples::ScaleParams{.x = scene.Array(draw.Floats(count)),
                                    .y = scene.Array(draw.Garbage(count)),
                                    .count = count,
                                    .factor = draw.Float(-9, 9)},
               {Blocks(count, 256), 1, 1});
}

}  // namespace

std::vector<Twin> SampleTwins() {
  return {{"samples", &samples::embed_image, "Embed", DrawSampleEmbed},
          {"samples", &samples::filter_image, "Filter", DrawFilter},
          {"samples", &samples::prefix_image, "Prefix", DrawPrefix},
          {"samples", &samples::filter_image, "Square", DrawSquare},
          {"samples", &samples::join_image, "Join", DrawJoin},
          {"samples", &samples::layer_image, "Layer", DrawLayer},
          {"samples", &samples::scale_image, "Scale", DrawSampleScale}};
}

}  // namespace coppice::ptx
