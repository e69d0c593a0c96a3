// A histogram of two sizes, and the buckets that they are padded to, as a picture.
//
// The first size grows to the right, the second upwards; cells are the darker the more calls they
// have. Lines part sizes that have different buckets, and a bucket has a mark at its corner. Sizes
// are on a logarithmic scale where they span much.
//
// Threads: pure function; equal input gives equal text.

#pragma once

#include <string>
#include <string_view>

#include "coppice/padding/joint_histogram.h"
#include "coppice/padding/joint_policy.h"

namespace coppice {

struct JointPicture {
  std::string_view name_a;  // What the sizes are, for the axes.
  std::string_view name_b;
  JointCost cost;  // What waste is counted in; empty: elements.
};

// As SVG, up to the policy's limit.
std::string DrawJoint(const JointHistogram& histogram,
                      const JointPolicy& policy,
                      const JointPicture& picture);

}  // namespace coppice
