// Sizes and places.

#include "graphs/package/frame.h"

#include <algorithm>
#include <utility>

#include "coppice/base/status.h"

#include "graphs/node/input_layout.h"

namespace coppice::internal {

std::string AmountText(const package::Amount& amount) {
  return amount.expression ? amount.expression->text() : std::to_string(amount.value);
}

Frame::Frame(const package::Program& program, std::vector<int64_t> values)
    : program_(program), values_(std::move(values)), places_(program.buffers.size()) {}

absl::StatusOr<int64_t> Frame::At(const package::Amount& amount,
                                  std::span<const int64_t> values,
                                  const char* what) {
  const Computed computed = amount.At(values);
  if (computed.ok()) return computed.value;
  return InvalidArgument("{} '{}' has no value: {}", what, amount.expression->text(),
                         NameOf(computed.fault));
}

absl::StatusOr<int64_t> Frame::SizeAt(const package::Amount& amount,
                                      std::span<const int64_t> values,
                                      const char* what) {
  COPPICE_ASSIGN_OR_RETURN(const int64_t value, At(amount, values, what));
  if (value >= 0) return value;
  return InvalidArgument("{} '{}' is {}; it must be 0 or more", what, AmountText(amount), value);
}

absl::StatusOr<Tensor> Frame::ShapeOf(DType dtype,
                                      const std::vector<package::Amount>& shape,
                                      const std::vector<package::Amount>& strides) const {
  Tensor tensor{.dtype = dtype, .rank = static_cast<int8_t>(shape.size())};
  int64_t last = 0;  // Element.
  int64_t dense = 1;
  bool fits = true;
  for (size_t axis = shape.size(); axis-- > 0;) {
    COPPICE_ASSIGN_OR_RETURN(tensor.sizes[axis], SizeAt(shape[axis], values_, "size"));
    tensor.strides[axis] = dense;
    if (!strides.empty()) {
      COPPICE_ASSIGN_OR_RETURN(tensor.strides[axis], SizeAt(strides[axis], values_, "stride"));
    }
    const int64_t size = std::max<int64_t>(tensor.sizes[axis], 1);
    int64_t reach = 0;
    fits = fits && !__builtin_mul_overflow(size - 1, tensor.strides[axis], &reach) &&
           !__builtin_add_overflow(last, reach, &last) &&
           !__builtin_mul_overflow(dense, size, &dense);
  }
  if (fits && last < kAstronomicalBytes / SizeOf(dtype)) return tensor;
  return InvalidArgument("a tensor of rank {} is larger than the memory of any device",
                         shape.size());
}

absl::StatusOr<int64_t> Frame::BytesOf(const package::Buffer& buffer) const {
  COPPICE_ASSIGN_OR_RETURN(const Tensor tensor,
                           ShapeOf(buffer.dtype, buffer.shape, buffer.strides));
  return tensor.span() * SizeOf(buffer.dtype);
}

absl::StatusOr<Tensor> Frame::TensorOf(const package::View& view) const {
  COPPICE_ASSIGN_OR_RETURN(Tensor tensor, ShapeOf(view.dtype, view.shape, view.strides));
  COPPICE_ASSIGN_OR_RETURN(tensor.data, AddressOf(view.operand, values_));
  const Place& root = place(view.operand.buffer);
  const int64_t end =
      static_cast<int64_t>(tensor.data - root.address) + tensor.span() * SizeOf(tensor.dtype);
  if (end <= root.bytes) return tensor;
  return InvalidArgument("a view of buffer '{}' ends at byte {}, but the buffer has only {} bytes",
                         program_.buffers[static_cast<size_t>(view.operand.buffer)].name, end,
                         root.bytes);
}

absl::StatusOr<DeviceAddress> Frame::AddressOf(const package::Operand& operand,
                                               std::span<const int64_t> values) const {
  COPPICE_ASSIGN_OR_RETURN(int64_t offset, At(operand.offset, values, "offset"));
  if (const auto& alias = program_.buffers[static_cast<size_t>(operand.buffer)].alias) {
    COPPICE_ASSIGN_OR_RETURN(const int64_t begin, At(alias->offset, values_, "offset"));
    if (__builtin_add_overflow(offset, begin, &offset)) offset = -1;
  }
  const Place& root = place(operand.buffer);
  if (offset < 0 || offset > root.bytes)
    return InvalidArgument("offset {} lies outside of buffer '{}' of {} bytes", offset,
                           program_.buffers[static_cast<size_t>(operand.buffer)].name, root.bytes);
  return root.address + static_cast<DeviceAddress>(offset);
}

absl::StatusOr<DeviceAddress> Frame::AddressOfAlias(int buffer) const {
  const package::Operand operand{.buffer = buffer};
  COPPICE_ASSIGN_OR_RETURN(const DeviceAddress address, AddressOf(operand, values_));
  COPPICE_ASSIGN_OR_RETURN(const int64_t bytes,
                           BytesOf(program_.buffers[static_cast<size_t>(buffer)]));
  const int64_t behind = BytesBehind(operand, address);
  if (bytes <= behind) return address;
  return InvalidArgument("the alias needs {} bytes, but its buffer has only {} left", bytes,
                         behind);
}

void Frame::AddTouch(const package::Operand& operand,
                     bool writes,
                     std::vector<Touch>& touched) const {
  const Place& root = place(operand.buffer);
  if (root.shared)
    touched.push_back({.begin = root.address, .bytes = root.bytes, .writes = writes});
}

}  // namespace coppice::internal
