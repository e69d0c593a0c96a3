// The names of special registers.

#include "runtime/emulator/ptx/special.h"

#include <cstddef>
#include <iterator>
#include <utility>

namespace coppice::ptx {
namespace {

constexpr int kWord = 4;
constexpr int kDoubleWord = 8;

struct SpecialName {
  std::string_view name;
  size_t offset;
  int bytes = kWord;
  bool dimensions = false;  // Has .x, .y and .z.
};

constexpr SpecialName kSpecialNames[] = {
    {"%tid", offsetof(SpecialRegisters, tid), kWord, true},
    {"%ntid", offsetof(SpecialRegisters, ntid), kWord, true},
    {"%ctaid", offsetof(SpecialRegisters, ctaid), kWord, true},
    {"%nctaid", offsetof(SpecialRegisters, nctaid), kWord, true},
    {"%laneid", offsetof(SpecialRegisters, laneid)},
    {"%warpid", offsetof(SpecialRegisters, warpid)},
    {"%nwarpid", offsetof(SpecialRegisters, nwarpid)},
    {"%lanemask_eq", offsetof(SpecialRegisters, lanemask_eq)},
    {"%lanemask_le", offsetof(SpecialRegisters, lanemask_le)},
    {"%lanemask_lt", offsetof(SpecialRegisters, lanemask_lt)},
    {"%lanemask_ge", offsetof(SpecialRegisters, lanemask_ge)},
    {"%lanemask_gt", offsetof(SpecialRegisters, lanemask_gt)},
    {"%smid", offsetof(SpecialRegisters, smid)},
    {"%nsmid", offsetof(SpecialRegisters, nsmid)},
    {"%gridid", offsetof(SpecialRegisters, gridid), kDoubleWord},
    {"%total_smem_size", offsetof(SpecialRegisters, total_smem_size)},
    {"%aggr_smem_size", offsetof(SpecialRegisters, total_smem_size)},
    {"%dynamic_smem_size", offsetof(SpecialRegisters, dynamic_smem_size)},
    {"%clusterid", offsetof(SpecialRegisters, clusterid), kWord, true},
    {"%nclusterid", offsetof(SpecialRegisters, nclusterid), kWord, true},
    {"%cluster_ctaid", offsetof(SpecialRegisters, cluster_ctaid), kWord, true},
    {"%cluster_nctaid", offsetof(SpecialRegisters, cluster_nctaid), kWord, true},
    {"%cluster_ctarank", offsetof(SpecialRegisters, cluster_ctarank)},
    {"%cluster_nctarank", offsetof(SpecialRegisters, cluster_nctarank)},
    {"%is_explicit_cluster", offsetof(SpecialRegisters, is_explicit_cluster), 0},
    {"%current_graph_exec", offsetof(SpecialRegisters, wide_zero), kDoubleWord},
};

constexpr std::pair<std::string_view, const char*> kClocks[] = {
    {"%clock", "mov.clock"},
    {"%clock_hi", "mov.clock_hi"},
    {"%clock64", "mov.clock64"},
    {"%globaltimer", "mov.globaltimer"},
    {"%globaltimer_lo", "mov.globaltimer_lo"},
    {"%globaltimer_hi", "mov.globaltimer_hi"},
};

SpecialSlot SlotAt(size_t offset, int bytes) {
  return {Slot::At(Area::kSpecial, offset), bytes};
}

// The number of %envreg<number>.
std::optional<int> EnvironmentRegister(std::string_view name) {
  constexpr std::string_view kPrefix = "%envreg";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  if (name.empty() || name.size() > 2 || (name.size() == 2 && name[0] == '0')) return std::nullopt;
  int number = 0;
  for (const char digit : name) {
    if (digit < '0' || digit > '9') return std::nullopt;
    number = number * 10 + (digit - '0');
  }
  if (number >= SpecialRegisters::kEnvironmentRegisters) return std::nullopt;
  return number;
}

}  // namespace

std::optional<SpecialSlot> FindSpecial(std::string_view name, char component) {
  const bool dimension = component >= 'x' && component <= 'z';
  for (const SpecialName& row : kSpecialNames) {
    if (row.name != name) continue;
    if (row.dimensions != dimension || (!dimension && component != 0)) return std::nullopt;
    const size_t index = dimension ? static_cast<size_t>(component - 'x') : 0;
    return SlotAt(row.offset + index * sizeof(SpecialRegisters::Lanes), row.bytes);
  }
  if (const auto number = EnvironmentRegister(name); number.has_value() && component == 0) {
    const size_t index = static_cast<size_t>(*number);
    return SlotAt(offsetof(SpecialRegisters, envreg) + index * sizeof(SpecialRegisters::Lanes),
                  kWord);
  }
  return std::nullopt;
}

const char* FindClockForm(std::string_view name) {
  for (const auto& [clock, form] : kClocks)
    if (clock == name) return form;
  return nullptr;
}

}  // namespace coppice::ptx
