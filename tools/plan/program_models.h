// Lifetimes of well-known models, operation by operation, as a framework requests and releases
// memory: written by hand from the published models, not recorded.
//
// Weights and caches are no part of them. Half precision where nothing else is said; `eager` models
// keep the intermediates that fused kernels do not have.
//
// Units: bytes and steps. Threads: pure functions.

#pragma once

#include <cstdint>
#include <vector>

#include "coppice/allocator/plan.h"

namespace coppice {

// A decoder of the Llama kind with fused kernels; defaults are Llama 3 8B.
struct FusedDecoder {
  int64_t layers = 32;
  int64_t hidden = 4096;
  int64_t heads = 32;
  int64_t kv_heads = 8;
  int64_t head_size = 128;
  int64_t intermediate = 14336;
  int64_t vocabulary = 128256;
  int64_t ranks = 1;         // Tensor parallelism: heads, intermediate and vocabulary are split.
  int64_t experts = 0;       // 0: one dense layer.
  int64_t experts_used = 2;  // Per token.
  bool logits = true;        // The program computes logits.
  bool fp8 = false;          // Activations are quantised before each projection.
  bool decode = true;        // Attention splits the cache over multiprocessors.
};

std::vector<Buffer> FusedDecoderStep(const FusedDecoder& model, int64_t tokens);

// Llama 3 8B as separate operations: one token for each of `batch` sequences of `context` tokens.
std::vector<Buffer> EagerDecoderStep(int64_t batch, int64_t context);

// BERT large. `eager`: attention keeps its scores.
std::vector<Buffer> BertLarge(int64_t batch, int64_t sequence, bool eager);

// T5 base: the encoder over `sequence` tokens, then the decoder over `decoded`.
std::vector<Buffer> T5Base(int64_t batch, int64_t sequence, int64_t decoded);

// The UNet of Stable Diffusion 1.5 for an image of height x width pixels.
std::vector<Buffer> DiffusionUnet(int64_t batch, int64_t height, int64_t width);

// A training step of a GPT with 1024 hidden units on 4 x 1024 tokens: forward, backward, optimiser.
// `checkpointed`: a layer keeps only its input, and runs forward again before it runs backward.
std::vector<Buffer> GptTrainingStep(int64_t layers, bool checkpointed);

}  // namespace coppice
