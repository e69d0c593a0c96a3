// Which buckets have a label of their own, as long as a session lives. Private to graphs/.
//
// A node belongs to the series of its program's name and variant and of its bucket, on every lane.
// Series are numbered from 0 in the order in which they are asked for, and never go, so that what
// is counted of them never falls. Beyond the bounds of metrics.h there is one more per program, and
// one for all other programs.
//
// Threads: any; one lock, held while nothing else is called.

#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "coppice/graphs/program.h"

namespace coppice::internal {

class ReplaySeries {
 public:
  struct Labels {
    std::string program;
    std::string variant;
    std::string bucket;  // "batch=8,length=128"; "fixed" of a program without symbols.
  };

  // The number of the bucket of these extents. Allocates.
  int32_t NumberOf(const ProgramSpec& spec, std::span<const int64_t> extents);
  // Of all series, by number; they live as long as this.
  std::vector<const Labels*> labels() const;

 private:
  using ProgramName = std::pair<std::string, std::string>;
  using BucketName = std::tuple<std::string, std::string, std::string>;

  // Under the lock.
  int32_t Add(BucketName name);

  mutable std::mutex mutex_;            // Guards what is below.
  std::map<ProgramName, int> buckets_;  // How many have a label.
  std::map<BucketName, int32_t> numbers_;
  std::deque<Labels> labels_;
};

}  // namespace coppice::internal
