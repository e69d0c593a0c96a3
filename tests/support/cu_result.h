// How GoogleTest prints and compares the results of raw driver calls.
//
// Threads: stateless.

#pragma once

#include <ostream>

#include "gtest/gtest.h"

#include "coppice/runtime/driver.h"

namespace coppice {

inline void PrintTo(CuResult result, std::ostream* out) {
  *out << NameOf(result);
}

}  // namespace coppice

// Expects that a driver call returns `result`, the name of a CuResult.
#define EXPECT_CU(result, call) EXPECT_EQ(::coppice::CuResult::result, call)
#define ASSERT_CU(result, call) ASSERT_EQ(::coppice::CuResult::result, call)
