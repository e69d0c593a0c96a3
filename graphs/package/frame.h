// A program of a package at the sizes of one run: what its expressions are, and where its buffers
// lie. Private to graphs/.
//
// Units: bytes. Threads: one.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/base/tensor.h"
#include "coppice/runtime/driver.h"
#include "coppice/runtime/manifest.h"
#include "coppice/runtime/package_uses.h"

#include "graphs/program/step_source.h"

namespace coppice::internal {

// The expression of an amount, or its number.
std::string AmountText(const package::Amount& amount);

class Frame {
 public:
  // `values` are those of program.names(). Both outlive it.
  Frame(const package::Program& program, std::vector<int64_t> values);

  const package::Program& program() const { return program_; }
  std::span<const int64_t> values() const { return values_; }

  // The value of an amount over `values`: the frame's, of a kernel step with those of its target
  // behind them. `what` and the text of its expression are in the message. Errors: kInvalidArgument
  // it has none.
  static absl::StatusOr<int64_t> At(const package::Amount& amount,
                                    std::span<const int64_t> values,
                                    const char* what);
  // The same of one that is no size if it is negative.
  static absl::StatusOr<int64_t> SizeAt(const package::Amount& amount,
                                        std::span<const int64_t> values,
                                        const char* what);

  // Bytes that a buffer has by its shape and strides. Errors: also more than any device has.
  absl::StatusOr<int64_t> BytesOf(const package::Buffer& buffer) const;
  // The tensor of these sizes at an operand's address.
  absl::StatusOr<Tensor> TensorOf(const package::View& view) const;

  // Where a buffer lies.
  struct Place {
    DeviceAddress address = 0;
    int64_t bytes = 0;
    bool shared = true;  // Whether some step may write it.
  };
  void Put(int buffer, const Place& place) { places_[static_cast<size_t>(buffer)] = place; }
  // Of an alias, that of the buffer whose bytes it has.
  const Place& place(int buffer) const {
    return places_[static_cast<size_t>(package::RootOf(program_, buffer))];
  }

  // The address of an operand, and what it may touch: all of its buffer. Errors: kInvalidArgument
  // an offset outside of the buffer.
  absl::StatusOr<DeviceAddress> AddressOf(const package::Operand& operand,
                                          std::span<const int64_t> values) const;
  // The address of an alias. Errors: kInvalidArgument it does not lie inside of its buffer.
  absl::StatusOr<DeviceAddress> AddressOfAlias(int buffer) const;
  // Bytes from an operand's address to the end of its buffer.
  int64_t BytesBehind(const package::Operand& operand, DeviceAddress address) const {
    const Place& root = place(operand.buffer);
    return root.bytes - static_cast<int64_t>(address - root.address);
  }
  void AddTouch(const package::Operand& operand, bool writes, std::vector<Touch>& touched) const;

 private:
  // A tensor of these sizes that lies nowhere.
  absl::StatusOr<Tensor> ShapeOf(DType dtype,
                                 const std::vector<package::Amount>& shape,
                                 const std::vector<package::Amount>& strides) const;

  const package::Program& program_;
  const std::vector<int64_t> values_;
  std::vector<Place> places_;  // Per buffer.
};

}  // namespace coppice::internal
