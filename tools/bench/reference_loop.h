// How fast this machine is at the moment: a fixed piece of work whose time stands beside others, so
// that a figure can be compared between machines and between loads.
//
// The work is of a planner's kind: reads that miss the first cache, compares that cannot be
// predicted, additions. It does the same on every machine.
//
// Units: milliseconds. Threads: any.

#pragma once

namespace coppice {

// Processor time of the calling thread so far: what work takes that neither waits nor is helped, on
// a machine that is busy with other things too.
double ThreadMs();

// The least processor time of three runs. Cost: about 20 ms; allocates.
double ReferenceLoopMs();

}  // namespace coppice
