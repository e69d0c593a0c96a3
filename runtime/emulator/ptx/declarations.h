// Reads declarations: variables with their initialisers, and what functions take and return.
//
// Threads: pure functions of the cursor that they move.

#pragma once

#include <optional>
#include <vector>

#include "runtime/emulator/ptx/cursor.h"
#include "runtime/emulator/ptx/syntax.h"

namespace coppice::ptx {

// The state space whose directive is here; nothing: another token. Moves nothing.
std::optional<Space> SpaceHere(const Cursor& cursor);

// ".global .align 4 .u32 a, b[4] = {1, 2};" Appends the variables.
bool ParseVariables(Cursor& cursor, Linkage linkage, std::vector<Variable>* variables);

// "(.param .align 8 .b8 x[16], .param .u64 y)". Appends the parameters.
bool ParseParameters(Cursor& cursor, std::vector<Variable>* parameters);

// "(.param .b32 _) _ (.param .b64 _) .noreturn", or without either list; the name goes to `name`.
bool ParsePrototype(Cursor& cursor, Prototype* prototype, std::string_view* name);

// Goes past a directive behind the type of a function, with the numbers and strings it has; and
// past all that are here.
bool SkipAttribute(Cursor& cursor);
bool SkipAttributes(Cursor& cursor);

}  // namespace coppice::ptx
