// The texts that tests share, in tests/ptx/fixtures: PTX that a compiler made, and tables.
//
// Threads: pure functions.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace coppice::ptx {

// The text of a fixture by its name without .ptx. Ends the program if there is none.
std::string ReadFixture(std::string_view name);

// The text of a table, by its name without .txt.
std::string ReadTable(std::string_view name);

// The names of all fixtures.
std::vector<std::string> FixtureNames();

}  // namespace coppice::ptx
