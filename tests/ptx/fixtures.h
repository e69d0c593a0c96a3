// The PTX texts that tests share: what a compiler made, in tests/ptx/fixtures.
//
// Threads: pure functions.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace coppice::ptx {

// The text of a fixture by its name without .ptx. Ends the program if there is none.
std::string ReadFixture(std::string_view name);

// The names of all fixtures.
std::vector<std::string> FixtureNames();

}  // namespace coppice::ptx
