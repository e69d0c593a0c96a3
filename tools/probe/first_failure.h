// Keeps the first of several failures, so that what comes after one still happens.
//
// Threads: one at a time.

#pragma once

#include "absl/status/status.h"

namespace coppice {

class FirstFailure {
 public:
  void Note(const absl::Status& status) {
    if (status_.ok()) status_ = status;
  }
  const absl::Status& status() const { return status_; }  // OK if there was none.

 private:
  absl::Status status_;
};

}  // namespace coppice
