// What is under way, and who comes between.

#include "runtime/emulator/ptx/warpgroup_products.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "fmt/format.h"

#include "runtime/emulator/ptx/resident_warp.h"

namespace coppice::ptx {
namespace {

uint64_t DigestOf(std::span<const uint64_t> rows) {
  uint64_t digest = 0;
  for (const uint64_t row : rows) {
    uint64_t words[2];
    std::memcpy(words, reinterpret_cast<const std::byte*>(row), sizeof(words));
    for (const uint64_t word : words)
      digest = (digest ^ word) * 0x9e3779b97f4a7c15u + (digest >> 29);
  }
  return digest;
}

void TellRows(Warp& warp, std::span<const uint64_t> rows, AccessKind kind) {
  for (; !rows.empty(); rows = rows.subspan(kLanes)) {
    LaneWords hosts;
    std::copy_n(rows.begin(), kLanes, hosts.begin());
    warp.Tell(kAllLanes, hosts, 16, kind);
  }
}

bool Meet(std::span<const Slot> some, std::span<const Slot> others) {
  return std::ranges::any_of(some, [&](Slot one) {
    return std::ranges::any_of(others, [one](Slot other) { return one.offset == other.offset; });
  });
}

void Report(Warp& on, std::string message) {
  ResidentWarp& warp = static_cast<ResidentWarp&>(on);
  const int lane = std::countr_zero(warp.mask());
  warp.state().findings.Report(Finding::Kind::kRace, warp.WhereIs(lane, warp.code(), warp.instr()),
                               std::move(message), 0);
}

}  // namespace

WarpgroupProducts::Queue& WarpgroupProducts::QueueOf(const Warp& warp) {
  for (Queue& queue : queues_)
    if (queue.warp == &warp) return queue;
  return queues_.emplace_back(Queue{.warp = &warp});
}

void WarpgroupProducts::Start(Warp& warp,
                              std::span<const Slot> accumulators,
                              std::span<const Slot> fragments,
                              std::vector<uint64_t> rows) {
  if (!warp.IsTold()) return;
  Queue& queue = QueueOf(warp);
  if (!queue.fenced) {
    Report(warp, "starts a product before any wgmma.fence");
  } else if (Meet(queue.touched, accumulators) || Meet(queue.touched, fragments)) {
    Report(warp, "starts a product of registers that were touched since the last wgmma.fence");
  }
  TellRows(warp, rows, AccessKind::kProxyRead);
  Product& product = queue.products.emplace_back();
  product.instr = &static_cast<ResidentWarp&>(warp).instr();
  product.registers.assign(accumulators.begin(), accumulators.end());
  product.registers.insert(product.registers.end(), fragments.begin(), fragments.end());
  product.digest = DigestOf(rows);
  product.rows = std::move(rows);
  product.group = queue.closed;
}

void WarpgroupProducts::Commit(Warp& warp) {
  if (warp.IsTold()) ++QueueOf(warp).closed;
}

void WarpgroupProducts::Wait(Warp& warp, uint32_t pending) {
  if (!warp.IsTold()) return;
  Queue& queue = QueueOf(warp);
  std::erase_if(queue.products, [&](const Product& product) {
    if (queue.closed - product.group <= pending) return false;
    TellRows(warp, product.rows, AccessKind::kRead);
    if (DigestOf(product.rows) != product.digest)
      Report(warp, fmt::format("waits for the product of line {}, whose shared memory was "
                               "written before it was waited for",
                               product.instr->line));
    return true;
  });
}

void WarpgroupProducts::Fence(Warp& warp) {
  if (!warp.IsTold()) return;
  Queue& queue = QueueOf(warp);
  queue.fenced = true;
  queue.touched.clear();
}

void WarpgroupProducts::Touch(Warp& warp, std::span<const Slot> registers, bool moves) {
  if (!warp.IsTold()) return;
  Queue& queue = QueueOf(warp);
  for (const Product& product : queue.products) {
    if (!Meet(registers, product.registers)) continue;
    Report(warp, fmt::format("touches a register of the product of line {}, which nobody has "
                             "waited for",
                             product.instr->line));
    break;
  }
  if (moves) return;
  for (const Slot one : registers)
    if (!Meet({&one, 1}, queue.touched)) queue.touched.push_back(one);
}

}  // namespace coppice::ptx
