// Arguments, kind by kind.

#include "graphs/package/argument_packer.h"

#include <variant>

#include "coppice/base/status.h"
#include "coppice/base/units.h"

#include "graphs/package/tensor_map.h"

namespace coppice::internal {
namespace {

void AppendAddress(DeviceAddress address, std::vector<std::byte>& bytes) {
  const auto* const raw = reinterpret_cast<const std::byte*>(&address);
  bytes.insert(bytes.end(), raw, raw + sizeof(address));
}

bool Holds(const package::IntegerArgument& argument, int64_t value) {
  if (argument.bytes == 8) return argument.is_signed || value >= 0;
  const int bits = 8 * argument.bytes;
  const int64_t end = int64_t{1} << (argument.is_signed ? bits - 1 : bits);
  return value < end && value >= (argument.is_signed ? -end : 0);
}

struct Visitor {
  const ArgumentPacker& packer;
  const int index;
  const Frame& frame;
  std::span<const int64_t> values;
  const ArgumentPlaces& places;
  std::vector<Touch>& touched;
  std::vector<ArgumentBytes>& bounds;
  std::vector<std::byte>& bytes;

  // A kernel may go back from an operand's address: what is ordered and planned is the buffer.
  void AddBuffer(const package::Operand& operand, package::Access access) const {
    const bool writes = access != package::Access::kRead;
    frame.AddTouch(operand, writes, touched);
    const Frame::Place& root = frame.place(operand.buffer);
    bounds.push_back({.argument = index,
                      .name = frame.program().buffers[static_cast<size_t>(operand.buffer)].name,
                      .begin = root.address,
                      .bytes = root.bytes,
                      .writes = writes});
  }

  absl::Status operator()(const package::BufferArgument& argument) const {
    COPPICE_ASSIGN_OR_RETURN(const DeviceAddress address,
                             frame.AddressOf(argument.operand, values));
    AppendAddress(address, bytes);
    AddBuffer(argument.operand, argument.access);
    return absl::OkStatus();
  }
  absl::Status operator()(const package::IntegerArgument& argument) const {
    COPPICE_ASSIGN_OR_RETURN(const int64_t value, frame.At(argument.value, values, "argument"));
    if (!Holds(argument, value)) {
      return InvalidArgument("argument '{}' is {}, which does not fit in {}{}",
                             AmountText(argument.value), value, argument.is_signed ? "i" : "u",
                             8 * argument.bytes);
    }
    const auto* const raw = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), raw, raw + argument.bytes);
    return absl::OkStatus();
  }
  absl::Status operator()(const package::BytesArgument& argument) const {
    bytes.insert(bytes.end(), argument.bytes.begin(), argument.bytes.end());
    return absl::OkStatus();
  }
  absl::Status operator()(const package::ScratchArgument& argument) const {
    const Touch& scratch = places.scratch[static_cast<size_t>(argument.index)];
    AppendAddress(scratch.begin, bytes);
    bounds.push_back({.argument = index,
                      .name = "scratch",
                      .begin = scratch.begin,
                      .bytes = scratch.bytes,
                      .writes = true});
    return absl::OkStatus();
  }
  absl::Status operator()(const package::RealArgument& argument) const {
    const int word = argument.symbol >= 0
                         ? places.symbol_words[static_cast<size_t>(argument.symbol)]
                         : places.scalar_words[static_cast<size_t>(argument.scalar)];
    const DeviceAddress address =
        places.parameters + static_cast<DeviceAddress>(word) * sizeof(int64_t);
    AppendAddress(address, bytes);
    bounds.push_back({.argument = index,
                      .name = "real size",
                      .begin = address,
                      .bytes = static_cast<int64_t>(sizeof(int64_t))});
    return absl::OkStatus();
  }
  absl::Status operator()(const package::TensorMapArgument& argument) const {
    COPPICE_ASSIGN_OR_RETURN(const CuTensorMap map,
                             EncodeTensorMap(packer.driver(), frame, values, argument));
    const auto* const raw = reinterpret_cast<const std::byte*>(&map);
    bytes.insert(bytes.end(), raw, raw + sizeof(map));
    AddBuffer(argument.operand, argument.access);
    return absl::OkStatus();
  }
  absl::Status operator()(const package::StructArgument& argument) const {
    const size_t begin = bytes.size();
    const auto pad_to = [&](int64_t align) {
      const auto size = static_cast<int64_t>(bytes.size() - begin);
      bytes.resize(begin + static_cast<size_t>(AlignUp(size, align)));
    };
    for (const package::Argument& member : argument.members) {
      pad_to(package::LayoutOf(member).align);
      COPPICE_RETURN_IF_ERROR(packer.Pack(index, member, bytes));
    }
    pad_to(argument.align);
    return absl::OkStatus();
  }
};

}  // namespace

absl::Status ArgumentPacker::Pack(int index,
                                  const package::Argument& argument,
                                  std::vector<std::byte>& bytes) const {
  return std::visit(Visitor{*this, index, frame_, values_, places_, touched_, bounds_, bytes},
                    argument);
}

}  // namespace coppice::internal
