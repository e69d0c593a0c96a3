// The bytes of a launch's arguments. Private to graphs/.
//
// Units: bytes. Threads: one.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"

#include "coppice/runtime/access_bounds.h"
#include "coppice/runtime/driver.h"
#include "coppice/runtime/manifest.h"

#include "graphs/package/frame.h"
#include "graphs/program/step_source.h"

namespace coppice::internal {

// What arguments may stand for beside buffers.
struct ArgumentPlaces {
  DeviceAddress parameters = 0;       // The parameter block.
  std::span<const int> symbol_words;  // Of the block, per symbol of the program.
  std::span<const int> scalar_words;  // The same per scalar; -1: not there.
  std::span<const Touch> scratch;     // Per scratch of the target.
};

class ArgumentPacker {
 public:
  // `values` are those that the step's expressions read. `driver` encodes tensor maps.
  ArgumentPacker(const Driver& driver,
                 const Frame& frame,
                 std::span<const int64_t> values,
                 const ArgumentPlaces& places,
                 std::vector<Touch>& touched,
                 std::vector<ArgumentBytes>& bounds)
      : driver_(driver),
        frame_(frame),
        values_(values),
        places_(places),
        touched_(touched),
        bounds_(bounds) {}

  // Appends the bytes of the kernel's argument `index` to `bytes`, and elsewhere what the launch
  // shares through it with other steps, and what the kernel may access by it. Errors:
  // kInvalidArgument arithmetic without a value, or a value that the argument's type cannot hold;
  // otherwise as EncodeTensorMap.
  absl::Status Pack(int index,
                    const package::Argument& argument,
                    std::vector<std::byte>& bytes) const;

  const Driver& driver() const { return driver_; }

 private:
  const Driver& driver_;
  const Frame& frame_;
  const std::span<const int64_t> values_;
  const ArgumentPlaces& places_;
  std::vector<Touch>& touched_;
  std::vector<ArgumentBytes>& bounds_;
};

}  // namespace coppice::internal
