// The generator of Python's module `random` and its distributions, so that what a script draws can
// be drawn here.
//
// Python seeds a Mersenne Twister with the words of an integer by a scheme of its own; from there
// on it is std::mt19937.
//
// Threads: one at a time per object.

#pragma once

#include <cstdint>
#include <random>

namespace coppice {

class PythonRandom {
 public:
  // As random.Random(seed).
  explicit PythonRandom(uint32_t seed);

  double Random();                               // In [0, 1).
  int64_t Range(int64_t lower, int64_t upper);   // randrange. Requires: a range of 1 to 2^32 - 1.
  double Exponential(double rate);               // expovariate.
  double LogNormal(double mean, double spread);  // lognormvariate.

 private:
  std::mt19937 engine_;
};

}  // namespace coppice
