// The table of all forms, and which form an opcode is.
//
// Threads: pure functions; the table is constant.

#pragma once

#include <span>
#include <string>
#include <string_view>

#include "runtime/emulator/ptx/form.h"

namespace coppice::ptx {

// Whether the host has AVX2 and FMA, so that AllForms() has the rows of `avx2`.
bool HasAvx2();

// All rows; an Instr's `form` is an index here.
std::span<const Form> AllForms();

// The opcode without what executes the same here: cache hints and operators, .nc, .uni, and of
// accesses to memory the orders and scopes, since execution is sequentially consistent; the source
// has the table. A space has one name, and stands first of atom's modifiers.
// "ld.global.nc.L1::no_allocate.b32" becomes "ld.global.b32",
// "atom.gpu.acq_rel.add.shared::cta.u32" becomes "atom.shared.add.u32".
std::string CanonicalOpcode(std::string_view opcode);

// The row of a canonical opcode; null if there is none.
const Form* FindForm(std::string_view opcode);

}  // namespace coppice::ptx
