// `coppice prof kernels`: what the graphs of a trace launch, and how many blocks compute padding.
//
// As JSON it is what a reader of a GPU's timeline needs: the launches of each graph, as a profiler
// shows them, with the step that each comes from.
//
//   {"schema":"coppice.kernels/1","trace":"t.trace","package":"p.zip","nodes":[
//     {"node":5,"label":"decode 8","program":"decode","variant":"","bucket":[8],"lane":0,
//      "calls":120,"pieces":[1],
//      "kernels":[{"name":"attend","grid":[64,1,1],"block":[256,1,1],"shared_bytes":8192,
//                  "blocks":64,"program":"decode","step":12,"kernel":"attend",
//                  "source":"model.py:31","blocks_needed":48.5}],
//      "patched":[{"node":5,"calls":7,"grids":[[48,1,1]],"blocks_needed":[48.0]}]}]}
//
// The last five of a kernel are null without a package, and for kernels that it does not have.
// `blocks_needed` is the mean over the padded replays of the node; null if there are none. `pieces`
// says how many of the kernels each graph between two breaks launches. `patched` has the calls
// whose grids were patched: replays at exact sizes, and all replays of a node that shares the
// executable of `node` and so has no kernels of its own. Grids and blocks of kernels that the
// package does not have are null there. Without a package it is empty, and exact replays count as
// recorded.
//
// Threads: one at a time per process.

#pragma once

#include "tools/prof/prof.h"
#include "tools/support/console.h"

namespace coppice {

// Exit codes: 0; 2 the trace or the package cannot be read, or they do not belong together.
ExitCode ProfKernels(const ProfOptions& options, const Console& console);

}  // namespace coppice
