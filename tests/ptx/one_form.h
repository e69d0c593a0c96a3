// One instruction, decoded from text and run on a warp of its own.
//
//   OneForm form("add.u32", "Www");
//   form.Fill(1, values);    // The lanes of operand 1, and of 2 ...
//   form.Run(row, mask);     // ... by a row's handler, which is the table's own or another's.
//   form.Lane(0, lane)       // What is in operand 0.
//
// Operands are what letters say (form.h), each a register of its own.
//
// Threads: one.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/emulator/ptx/code.h"
#include "runtime/emulator/ptx/decoder.h"
#include "runtime/emulator/ptx/form.h"
#include "runtime/emulator/ptx/syntax.h"
#include "runtime/emulator/ptx/warp.h"

namespace coppice::ptx {

// An operand: its letter, and whether it is written and read.
struct FormOperand {
  char letter = 0;  // h, w, d, p, k or i.
  bool written = false;
  bool read = false;
  Slot slot;

  int bits() const { return letter == 'h' ? 16 : letter == 'w' ? 32 : letter == 'd' ? 64 : 1; }
};

// The operands of letters; each element of a vector is one.
std::vector<FormOperand> PlacesOf(std::string_view letters);

class TestWarp : public Warp {
 public:
  explicit TestWarp(const Code& code);

  void SetMask(uint32_t mask) { mask_ = active_ = live_ = mask; }
  // A value of a lane, of so many bits of it.
  uint64_t Get(const FormOperand& place, int lane) const;
  void Set(const FormOperand& place, int lane, uint64_t value);

 private:
  struct alignas(64) Line {
    std::array<std::byte, 64> bytes;
  };
  std::vector<Line> frame_;
  std::vector<Line> constants_;
  std::vector<Line> special_;
};

class OneForm {
 public:
  // `immediate` is written where the letters have an i; `text` in place of operands, if it is
  // given.
  OneForm(std::string_view opcode,
          std::string_view letters,
          uint64_t immediate = 0,
          std::string_view text = {});

  // Why the instruction is not decoded; empty if it is.
  const std::string& error() const { return error_; }
  const std::vector<FormOperand>& places() const { return places_; }
  TestWarp& warp() { return *warp_; }
  Instr& instr() { return code_.instrs.front(); }

  // Executes it as `row` does: of the same name, perhaps compiled for another instruction set.
  void Run(const Form& row, uint32_t mask);

 private:
  Module module_;
  Code code_;
  std::unique_ptr<FunctionDecoder> decoder_;
  std::unique_ptr<TestWarp> warp_;
  std::vector<FormOperand> places_;
  std::string error_;
};

}  // namespace coppice::ptx
