// What every test includes: GoogleTest, the matchers that most tests name, those of statuses, the
// share of long tests, and what tests use of the language and of packages.
//
// A fixture's header includes this, and a test its fixture's header, or else this. Beside it a
// source includes what it uses of coppice, and what is not here.
//
// Threads: stateless.

#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <ostream>
#include <random>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coppice/base/status.h"
#include "coppice/base/units.h"

#include "tests/support/status_matchers.h"
#include "tests/support/test_share.h"

namespace coppice {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::UnorderedElementsAre;

}  // namespace coppice
