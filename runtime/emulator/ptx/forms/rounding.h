// Rounding modes, which an instruction that does not round to nearest keeps in its flags.
//
// The host's own mode is changed for 32 lanes: its arithmetic is rounded correctly in every mode,
// and vector code obeys it too. The compiler must not know better (-frounding-math).
//
// Threads: a mode is a thread's.

#pragma once

#include <array>
#include <cfenv>
#include <cstddef>
#include <cstdint>

#include "runtime/emulator/ptx/forms/table.h"

namespace coppice::ptx {

enum class Rounding : uint8_t { kNearest, kTowardZero, kDown, kUp };

struct NamedRounding {
  const char* name;
  Rounding rounding;
};
inline constexpr std::array<NamedRounding, 4> kRoundings = {{{".rn", Rounding::kNearest},
                                                             {".rz", Rounding::kTowardZero},
                                                             {".rm", Rounding::kDown},
                                                             {".rp", Rounding::kUp}}};

class RoundingScope {
 public:
  explicit RoundingScope(Rounding rounding) : changed_(rounding != Rounding::kNearest) {
    constexpr std::array<int, 4> kModes = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    if (changed_) std::fesetround(kModes[static_cast<size_t>(rounding)]);
  }
  ~RoundingScope() {
    if (changed_) std::fesetround(FE_TONEAREST);
  }
  RoundingScope(const RoundingScope&) = delete;
  RoundingScope& operator=(const RoundingScope&) = delete;

 private:
  bool changed_;
};

template <auto of>
Step InMode(Warp& warp, const Instr& instr) {
  const RoundingScope scope(static_cast<Rounding>(instr.flags & 3));
  return EachLane<of>::Run(warp, instr);
}

// A row for one mode, or for each.
template <auto of>
void AddRounded(FormTable& table, std::string name, Rounding rounding) {
  const bool nearest = rounding == Rounding::kNearest;
  table.Add(std::move(name), EachLane<of>::Operands(), nearest ? EachLane<of>::Run : InMode<of>,
            static_cast<uint8_t>(rounding));
}

template <auto of>
void AddRounded(FormTable& table, const std::string& before, const std::string& behind) {
  for (const NamedRounding& mode : kRoundings)
    AddRounded<of>(table, before + mode.name + behind, mode.rounding);
}

}  // namespace coppice::ptx
