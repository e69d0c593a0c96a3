// The texts that tests share: PTX that a compiler made, and tables. The build extracts the archives
// of tests/ptx/fixtures, each into a folder of its name.
//
// Threads: pure functions.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace coppice::ptx {

// The text of a fixture by its name, as cuda/calls.ptx. Ends the program if there is none.
std::string ReadFixture(std::string_view name);

// The names of all PTX.
std::vector<std::string> PtxFixtureNames();

}  // namespace coppice::ptx
