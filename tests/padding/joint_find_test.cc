// Goal: JointPolicy::Find never allocates. Method: operator new counts.

#include "coppice/padding/joint_policy.h"

#include "tests/support/host_allocations.h"
#include "tests/support/test.h"

namespace coppice {
namespace {

TEST(JointFindTest, NeverAllocates) {
  for (const char* text : {"pow2/linear:16", "exact/exact", "pow2/pow2/budget:4096",
                           "1x1024,2x256,4x64", "ordered:4x64,1x7"}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const JointPolicy plain, JointPolicy::Parse(text, {4, 1024}));
    COPPICE_ASSERT_OK_AND_ASSIGN(const JointPolicy policy, plain.WithGuard({.max_ratio = 2}));
    int64_t found = 0;
    const int64_t before = host_allocations.count;
    {
      const CountingScope counting(true);
      for (int64_t a = 0; a <= 5; ++a) {
        for (int64_t b = 0; b <= 1030; ++b)
          found += policy.Find(a, b) ? 1 : 0;
      }
    }
    EXPECT_EQ(host_allocations.count, before) << text;
    EXPECT_GT(found, 0) << text;
  }
}

}  // namespace
}  // namespace coppice
