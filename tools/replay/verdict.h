// What is wrong with a case, in one line and as JSON.
//
// Threads: plain values.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/package/first_step.h"
#include "tools/package/input_reach.h"
#include "tools/replay/case_player.h"

namespace coppice {

enum class VerdictKind : uint8_t {
  kNothing,
  kOutOfBounds,
  kMisaligned,
  kRace,
  kUninitialized,
  kStaleInput,  // An input lies in memory that was freed, or never came.
  kWrongClaim,  // Padding reaches live outputs.
  kBakedIn,     // A kernel does not read an argument that it is given.
  kDiffers,     // Outputs differ from those that they should equal.
  kFault,       // A kernel ends in another way.
  kCannotReplay,
};
// "nothing", "out_of_bounds", ...
const char* NameOf(VerdictKind kind);

// Where the padding of one size of a call gets, if that alone is padded.
struct FollowedPadding {
  uint64_t call = 0;  // Its number.
  std::string program;
  std::string symbol;
  bool may_be_anything = false;     // By its claim: outputs must not depend on it.
  std::optional<PaddingPath> path;  // Nothing: it cannot be followed ...
  std::string why;                  // ... because of this.
};

// What the outputs of a program depend on, by one of its calls.
struct FollowedInputs {
  uint64_t call = 0;  // Its number.
  std::string program;
  std::optional<InputReach> reach;  // Nothing: they cannot be followed ...
  std::string why;                  // ... because of this.
};

struct Verdict {
  VerdictKind kind = VerdictKind::kNothing;
  std::string text;     // What happened, without where.
  uint64_t call = 0;    // Its number; 0: none.
  std::string program;  // Empty: none is known, below too.
  int step = -1;        // -1: none is known.
  std::string kernel;
  int ptx_line = 0;  // 0: none is known.
  std::string source;
  bool has_thread = false;
  std::array<unsigned, 3> block = {};
  std::array<unsigned, 3> thread = {};
  Hit hit;
  Way way;                       // In which it shows.
  std::vector<int64_t> extents;  // Of the call ...
  std::vector<int64_t> bucket;   // ... and those that it ran with.
  std::vector<std::string> notes;
  std::vector<FollowedPadding> padding;  // If it was asked for, as are ...
  std::vector<FollowedInputs> inputs;    // ... these.
  std::string shrunk;                    // The path of the shrunken case; empty: there is none.

  // Whether the same is wrong in `other`, perhaps at other sizes. There padding may take another
  // way, whose kernel may be told although it is not here, and another instruction may be the first
  // to do wrong to the same buffer.
  bool IsLike(const Verdict& other) const {
    if (kind != other.kind || program != other.program) return false;
    if (kind == VerdictKind::kWrongClaim && other.kernel.empty()) return true;
    return kernel == other.kernel &&
           (ptx_line == other.ptx_line || kind == VerdictKind::kWrongClaim ||
            (!hit.program.empty() && hit == other.hit));
  }
};

// One line, then a line per note.
std::string FormatVerdict(const Verdict& verdict, const std::string& path);
std::string FormatVerdictJson(const Verdict& verdict, const std::string& path);

}  // namespace coppice
