// Rules of single opcodes, by their first word.

#include "runtime/emulator/ptx/validator_async.h"

#include <algorithm>

#include "fmt/format.h"

namespace coppice::ptx {
namespace {

bool Has(std::string_view opcode, std::string_view part) {
  return opcode.find(part) != std::string_view::npos;
}

// The value of an operand that is an integer; `otherwise` of others.
uint64_t IntegerOr(const Instruction& instruction, size_t operand, uint64_t otherwise) {
  if (operand >= instruction.operands.size()) return otherwise;
  const Operand& found = instruction.operands[operand];
  return found.kind == Operand::Kind::kInteger ? found.bits : otherwise;
}

std::string OfProduct(const Instruction& instruction) {
  const std::string_view opcode = instruction.opcode;
  if (Has(opcode, ".wait_group") && static_cast<int64_t>(IntegerOr(instruction, 0, 0)) < 0)
    return "takes the number of groups that may still be pending, at least 0";
  if (!Has(opcode, ".mma_async")) return {};
  const bool integers = Has(opcode, ".s32.");
  const bool halves = opcode.ends_with(".f16.f16") || opcode.ends_with(".bf16");
  const bool fragments =
      instruction.operands.size() > 1 && instruction.operands[1].kind == Operand::Kind::kVector;
  const size_t count = integers ? 4 : !halves ? 6 : fragments ? 7 : 8;
  if (instruction.operands.size() != count) return fmt::format("takes {} operands", count);
  return {};
}

std::string OfBulkCopy(const Instruction& instruction) {
  const std::string_view opcode = instruction.opcode;
  if (!Has(opcode, ".bulk")) return {};
  if (Has(opcode, ".multicast::cluster") && !Has(opcode, ".shared::cluster."))
    return "copies to several blocks of a cluster, so its target must be .shared::cluster";
  if (Has(opcode, ".bulk_group") && Has(opcode, ".shared::cluster"))
    return "must read from .shared::cta";
  const bool row = instruction.operands.size() > 2 && !Has(opcode, ".tensor");
  if (row && IntegerOr(instruction, 2, 0) % 16 != 0) return "must copy a multiple of 16 bytes";
  return {};
}

// Fields of a tensor map that have a place per dimension, and those that are constants.
struct Field {
  std::string_view name;
  uint64_t most;
  bool constant;
};
constexpr Field kFields[] = {
    {".box_dim.", 4, false},        {".global_dim.", 4, false}, {".global_stride.", 4, false},
    {".element_stride.", 4, false}, {".elemtype.", 12, true},   {".interleave_layout.", 2, true},
    {".swizzle_mode.", 3, true},    {".fill_mode.", 1, true},
};

std::string OfTensorMap(const Instruction& instruction) {
  for (const Field& field : kFields) {
    if (!Has(instruction.opcode, field.name)) continue;
    const uint64_t given = IntegerOr(instruction, 1, ~uint64_t{0});
    if (given > field.most)
      return fmt::format("takes a constant from 0 to {} after the address", field.most);
  }
  return {};
}

std::string OfBarrier(const Instruction& instruction) {
  const std::string_view opcode = instruction.opcode;
  const bool arrives = opcode.starts_with("mbarrier.arrive");
  if (arrives && (Has(opcode, ".expect_tx") || Has(opcode, ".noComplete")) &&
      instruction.operands.size() < 3)
    return "needs a count after the address";
  if (arrives && !Has(opcode, ".expect_tx") &&
      static_cast<int64_t>(IntegerOr(instruction, 2, 1)) < 1)
    return "must count at least one arrival";
  if (opcode.starts_with("mbarrier.test_wait") && instruction.operands.size() > 3)
    return "takes no time limit; only mbarrier.try_wait takes one";
  if (!Has(opcode, ".shared::cluster")) return {};
  if (!arrives && !Has(opcode, ".expect_tx") && !Has(opcode, ".complete_tx"))
    return "works only on an mbarrier of its own block";
  if (arrives && instruction.operands.front().kind != Operand::Kind::kSink)
    return "returns no state for another block's barrier: write _ for the result";
  return {};
}

std::string OfFence(const Instruction& instruction) {
  const std::string_view opcode = instruction.opcode;
  if (!Has(opcode, ".tensormap") || !Has(opcode, ".acquire"))
    return instruction.operands.empty() ? std::string() : "takes no operands";
  return instruction.operands.size() == 2 && IntegerOr(instruction, 1, 0) == 128 &&
                 instruction.operands[0].kind == Operand::Kind::kAddress
             ? std::string()
             : "takes an address and the size 128";
}

std::string OfRegisters(const Instruction& instruction) {
  const uint64_t count = IntegerOr(instruction, 0, 24);
  return count < 24 || count > 256 || count % 8 != 0 ? "takes a multiple of 8 from 24 to 256"
                                                     : std::string();
}

}  // namespace

bool NeedsSpecificTarget(std::string_view opcode) {
  return opcode.starts_with("wgmma.") || opcode.starts_with("setmaxnreg.") ||
         opcode.starts_with("tensormap.replace.");
}

bool IsArrivalOfSm90(const Instruction& instruction) {
  const std::string_view opcode = instruction.opcode;
  if (!opcode.starts_with("mbarrier.arrive")) return false;
  return Has(opcode, "expect_tx") ||
         (instruction.operands.size() > 2 && !Has(opcode, ".noComplete"));
}

std::string WhatIsWrong(const Instruction& instruction) {
  const std::string_view opcode = instruction.opcode;
  if (opcode.starts_with("fence.") || opcode.starts_with("membar.") ||
      opcode.starts_with("griddepcontrol."))
    return OfFence(instruction);
  if (instruction.operands.empty()) return {};
  if (opcode.starts_with("wgmma.")) return OfProduct(instruction);
  if (opcode.starts_with("cp.")) return OfBulkCopy(instruction);
  if (opcode.starts_with("tensormap.replace.")) return OfTensorMap(instruction);
  if (opcode.starts_with("mbarrier.")) return OfBarrier(instruction);
  if (opcode.starts_with("setmaxnreg.")) return OfRegisters(instruction);
  if ((opcode.starts_with("mapa.shared") || opcode.starts_with("getctarank.shared")) &&
      !Has(opcode, "::cluster"))
    return "must use .shared::cluster";
  if (opcode == "elect.sync" && instruction.operands.front().kind != Operand::Kind::kPair)
    return "must write a register and a predicate, as in d|p";
  return {};
}

}  // namespace coppice::ptx
