// Accesses of copies that write later: from when they begin to when they have landed, nobody may
// look at their bytes.

#include <algorithm>
#include <cstring>

#include "runtime/emulator/ptx/accesses.h"
#include "runtime/emulator/ptx/actor.h"

namespace coppice::ptx {

// Of copies to one place that are under way at once it is not known what they will bring.
void Accesses::BeginCopy(Actor& actor, uint64_t offset, uint64_t bytes, bool changes) {
  if (!races_) return;
  BlockShadow& shadow = actor.shadow;
  const size_t end = ((offset + bytes - 1) >> shift_) + 1;
  for (size_t i = offset >> shift_; i < end; ++i) {
    const Stamp writer = shadow.writers[i];
    const Stamp reader = shadow.readers[i];
    if (writer.is_under_way()) continue;
    const bool written = !IsBefore(actor, writer);
    const bool read = !IsBefore(actor, reader);
    if ((written || read) && !changes) continue;
    const Access access = {Space::kShared, offset, bytes};
    if (written) {
      ReportRace(actor, access, Clash::kWritesWritten, InBlock(actor, writer));
    } else if (read) {
      ReportRace(actor, access, Clash::kWritesRead, InBlock(actor, reader));
    }
    shadow.writers[i] = Stamp::UnderWay();
  }
}

void Accesses::LandCopy(Actor& actor, uint64_t offset, uint64_t bytes) {
  BlockShadow& shadow = actor.shadow;
  if (uninitialized_) std::memset(shadow.written.data() + offset, 1, bytes);
  if (!races_) return;
  const size_t first = offset >> shift_;
  std::fill_n(shadow.writers.begin() + static_cast<ptrdiff_t>(first),
              ((offset + bytes - 1) >> shift_) + 1 - first, actor.stamp());
}

}  // namespace coppice::ptx
