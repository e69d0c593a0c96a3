// What devices allow a launch, by architecture.
//
// Units: bytes, threads, blocks. Threads: constants.

#pragma once

#include <array>
#include <cstdint>

namespace coppice::package {

inline constexpr std::array<int64_t, 3> kGridMax = {0x7FFFFFFF, 65535, 65535};
inline constexpr std::array<uint32_t, 3> kBlockMax = {1024, 1024, 64};
inline constexpr int64_t kClusterBlocksPortable = 8;  // More only where a device allows it.
inline constexpr int kClusterCapability = 90;         // The first that has clusters,
inline constexpr int kProgrammaticCapability = 90;    // and programmatic launches.
inline constexpr int64_t kBlockRegistersMax = 65536;

// Shared memory of a block, static and dynamic, that a function may be allowed: the CUDA
// Programming Guide's table of compute capabilities, as cuda::arch_traits of CCCL 3 has it too.
struct SharedLimit {
  int capability = 0;
  int64_t block_bytes = 0;
};
inline constexpr SharedLimit kSharedLimits[] = {
    {70, 96 * 1024},   {72, 96 * 1024},   {75, 64 * 1024},   {80, 163 * 1024}, {86, 99 * 1024},
    {87, 163 * 1024},  {88, 99 * 1024},   {89, 99 * 1024},   {90, 227 * 1024}, {100, 227 * 1024},
    {101, 227 * 1024}, {103, 227 * 1024}, {110, 227 * 1024}, {120, 99 * 1024}, {121, 99 * 1024}};

// 0 for an architecture that is not in the table.
constexpr int64_t SharedBytesMax(int capability) {
  for (const SharedLimit& limit : kSharedLimits)
    if (limit.capability == capability) return limit.block_bytes;
  return 0;
}

}  // namespace coppice::package
