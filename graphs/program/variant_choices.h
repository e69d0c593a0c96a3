// Which variants of kernels a program launches where a package has several, per bucket. Private to
// graphs/.
//
// A choice stands from the first that is set: requests and steps of a bucket follow from it, and a
// recording must find those that its script noted.
//
// Units: microseconds. Threads: any.

#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace coppice::internal {

// A kernel with several variants that fit the device, in the order of the package.
struct KernelChoices {
  std::string kernel;
  std::vector<std::string> variants;
};

// The variant that is launched of each of them, by index.
using VariantChoice = std::vector<int>;

// Per kernel and variant the median of a run's launches of it; empty: nobody timed it.
using VariantTimes = std::vector<std::vector<double>>;

class VariantChoices {
 public:
  // Of a program with so many symbols, and the scalars of its key marked.
  VariantChoices(std::vector<KernelChoices> kernels, size_t symbols, std::vector<bool> key_scalars)
      : kernels_(std::move(kernels)), symbols_(symbols), key_scalars_(std::move(key_scalars)) {}

  // Whether there is nothing to choose.
  bool none() const { return kernels_.empty(); }
  std::span<const KernelChoices> kernels() const { return kernels_; }

  // Of the symbols the padded extents; others behind them are ignored, and so is the value of any
  // scalar that is not part of the key.
  bool Has(std::span<const int64_t> extents, std::span<const int64_t> scalars) const;
  // The first of each kernel until a choice is set. Allocates.
  VariantChoice At(std::span<const int64_t> extents, std::span<const int64_t> scalars) const;

  // Keeps a choice unless there is one. Requires: one index per kernel, each of a variant
  // (checked).
  void Set(std::span<const int64_t> extents,
           std::span<const int64_t> scalars,
           VariantChoice choice,
           VariantTimes times);

  // The names of what At says, by kernel, and the reverse: returns false, and keeps nothing, if a
  // kernel is not named or has no such variant.
  std::map<std::string, std::string> NamesAt(std::span<const int64_t> extents,
                                             std::span<const int64_t> scalars) const;
  bool SetByName(std::span<const int64_t> extents,
                 std::span<const int64_t> scalars,
                 const std::map<std::string, std::string>& names);

  // All that were set, by extents and scalars.
  struct Chosen {
    std::vector<int64_t> extents;
    std::vector<int64_t> scalars;  // All of the program, 0 for those that are not in the key.
    VariantChoice choice;
    VariantTimes times;
  };
  std::vector<Chosen> all() const;

 private:
  using Key = std::pair<std::vector<int64_t>, std::vector<int64_t>>;
  Key KeyOf(std::span<const int64_t> extents, std::span<const int64_t> scalars) const;

  const std::vector<KernelChoices> kernels_;
  const size_t symbols_;
  const std::vector<bool> key_scalars_;
  mutable std::mutex mutex_;
  std::map<Key, std::pair<VariantChoice, VariantTimes>> chosen_;  // Guarded by mutex_.
};

}  // namespace coppice::internal
