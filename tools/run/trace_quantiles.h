// Quantiles of the Azure LLM inference traces of 2023: what the trace generator samples.
//
// Derived from "Azure LLM inference trace 2023, Microsoft", licensed CC-BY-4.0
// (https://github.com/Azure/AzurePublicDataset, AzureLLMInferenceTrace_conv and _code; Patel et
// al., "Splitwise", ISCA 2024): the first 60 % of the hour. The traces themselves are not included.
//
// A quantile at probability p of n sorted values is the value at rank p * (n - 1), linear between
// neighbours. Units: tokens and seconds. Threads: constants.

#pragma once

#include <array>
#include <span>

namespace coppice {

inline constexpr std::array<double, 25> kQuantileProbabilities = {
    0,   0.01, 0.05, 0.1,  0.15, 0.2,  0.25, 0.3,  0.35, 0.4,   0.45,  0.5, 0.55,
    0.6, 0.65, 0.7,  0.75, 0.8,  0.85, 0.9,  0.95, 0.99, 0.995, 0.999, 1};
using Quantiles = std::array<double, kQuantileProbabilities.size()>;

struct TraceQuantiles {
  Quantiles input_tokens;
  Quantiles output_tokens;
  Quantiles gap_seconds;  // Between an arrival and the one before.
};

inline constexpr TraceQuantiles kConversationQuantiles = {
    .input_tokens = {2,      42,   191,  369,  380,     390,     397,  404,  414,
                     647,    993,  1024, 1049, 1076,    1103,    1144, 1234, 1403.2,
                     2361.3, 4076, 4086, 4123, 4148.31, 5052.39, 14050},
    .output_tokens = {7,   16,  38,  49,  59,  69,  79,  86,  91,     96,      104, 115, 137,
                      163, 206, 378, 394, 399, 411, 423, 451, 601.61, 646.915, 937, 1000},
    .gap_seconds = {0,      0.001, 0.006,  0.015,  0.025,  0.034,  0.045, 0.058, 0.07,
                    0.0832, 0.097, 0.113,  0.132,  0.151,  0.175,  0.202, 0.233, 0.271,
                    0.326,  0.395, 0.5301, 0.8309, 0.9613, 1.2633, 4.315}};

inline constexpr TraceQuantiles kCodeQuantiles = {
    .input_tokens = {3,    17,   75,   146,  238,  381,  578,  767,  934,  1073, 1236, 1460, 1685,
                     1891, 2147, 2415, 2715, 3150, 3937, 5047, 7382, 7436, 7436, 7437, 7437},
    .output_tokens = {6,  6,  6,  7,  7,  8,  9,  9,  10,    11,    12,     13,  14,
                      16, 17, 19, 23, 28, 38, 55, 87, 247.6, 350.2, 831.12, 1899},
    .gap_seconds = {0,     0,     0,     0,      0.001, 0.001,   0.002,  0.003, 0.006,
                    0.015, 0.036, 0.059, 0.084,  0.094, 0.097,   0.1,    0.103, 0.151,
                    0.198, 0.247, 0.397, 2.1859, 7.811, 44.5184, 173.522}};

}  // namespace coppice
