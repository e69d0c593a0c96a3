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

void Report(Warp& on, std::string message) {
  ResidentWarp& warp = static_cast<ResidentWarp&>(on);
  const int lane = std::countr_zero(warp.mask());
  warp.state().findings.Report(Finding::Kind::kRace, warp.WhereIs(lane, warp.code(), warp.instr()),
                               std::move(message), 0);
}

}  // namespace

WarpgroupProducts::Registers WarpgroupProducts::Of(const Warp& warp, std::span<const Slot> slots) {
  const void* const frame = &static_cast<const ResidentWarp&>(warp).frame();
  Registers registers;
  for (const Slot slot : slots)
    registers.push_back({frame, slot.offset});
  return registers;
}

bool WarpgroupProducts::Meet(const Registers& some, const Registers& others) {
  return std::ranges::any_of(
      some, [&](const Register& one) { return std::ranges::count(others, one) != 0; });
}

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
  Product product{.instr = &static_cast<ResidentWarp&>(warp).instr(),
                  .accumulators = Of(warp, accumulators),
                  .fragments = Of(warp, fragments),
                  .group = queue.closed};
  if (!queue.fenced) {
    Report(warp, "starts a product before any wgmma.fence");
  } else if (Meet(queue.touched, product.accumulators) || Meet(queue.touched, product.fragments)) {
    Report(warp, "starts a product that uses registers touched since the last wgmma.fence");
  }
  for (const Product& other : queue.products) {
    // To the same accumulators products add in their order.
    const bool clash = Meet(product.fragments, other.accumulators) ||
                       Meet(product.accumulators, other.fragments) ||
                       (product.accumulators != other.accumulators &&
                        Meet(product.accumulators, other.accumulators));
    if (!clash) continue;
    Report(warp, fmt::format("starts a product that uses registers of the product on line {}, "
                             "but nothing has waited for that product",
                             other.instr->line));
    break;
  }
  TellRows(warp, rows, AccessKind::kProxyRead);
  product.digest = DigestOf(rows);
  product.rows = std::move(rows);
  queue.products.push_back(std::move(product));
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
      Report(warp, fmt::format("waits for the product on line {}, but the product's shared memory "
                               "was written before this wait",
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
  const Registers touched = Of(warp, registers);
  for (const Product& product : queue.products) {
    if (!Meet(touched, product.accumulators) && !Meet(touched, product.fragments)) continue;
    Report(
        warp,
        fmt::format(
            "touches a register of the product on line {}, but nothing has waited for that product",
            product.instr->line));
    break;
  }
  if (moves) return;
  for (const Register& one : touched)
    if (std::ranges::count(queue.touched, one) == 0) queue.touched.push_back(one);
}

}  // namespace coppice::ptx
