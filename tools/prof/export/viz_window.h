// A window of addresses in which plans run, as events and blocks of a snapshot: disjoint uses.
//
// Units: bytes, steps. Threads: one at a time per window.

#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tools/prof/export/viz_snapshot.h"

namespace coppice {

class VizWindow {
 public:
  // Events of `device` go to the end of `snapshot.devices[device]`, which must be there.
  VizWindow(VizSnapshot& snapshot, int device) : snapshot_(snapshot), device_(device) {}

  // What is allocated lies above this address.
  static constexpr int64_t kAddress = int64_t{1} << 44;

  // The window is `bytes` high from here on.
  void Map(int64_t time, int64_t bytes);

  // Puts [offset, offset + event.bytes) in use; `event` says all but address and action. Whatever
  // is in use there ends.
  void Alloc(int64_t offset, VizEvent event);

  // Ends what begins at `offset`, if it came by the number `token`, which Alloc returned.
  void Free(int64_t time, int64_t offset, int64_t token);

  // The token of the latest Alloc, from 1.
  int64_t token() const { return token_; }

  // The token of what begins at `offset`; 0: nothing does.
  int64_t TokenAt(int64_t offset) const;

  // True if nothing in use meets [begin, end).
  bool IsFree(int64_t begin, int64_t end) const;

  // Adds the window as it is to the segments.
  void Close(int pool);

 private:
  struct Used {
    int64_t bytes = 0;
    int64_t token = 0;
    int frame = -1;
    int stream = 0;
  };
  using Uses = std::map<int64_t, Used>;  // By offset.

  void End(int64_t time, Uses::iterator at);
  std::vector<VizEvent>& events() { return snapshot_.devices[static_cast<size_t>(device_)]; }

  VizSnapshot& snapshot_;
  int device_;
  int64_t bytes_ = 0;
  int64_t token_ = 0;
  Uses uses_;
};

}  // namespace coppice
