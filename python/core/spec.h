// Specs of programs, out of what Python gives: dicts, tuples, texts.
//
// Threads: the GIL is held.

#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "python/core/status.h"

namespace coppice::python {

// A spec of C out of a dict of Python; its texts live as long as this.
class ProgramSpec {
 public:
  explicit ProgramSpec(const nb::dict& given);
  const coppice_program_spec& spec() const { return spec_; }

 private:
  const char* Kept(std::string text);
  const char* Text(nb::handle value);  // As str() has it.
  const char* const* Texts(nb::handle values);
  coppice_symbol_spec SymbolOf(nb::handle given);
  coppice_tensor_spec TensorOf(nb::handle given);
  void ReadJoint(nb::handle given);
  void ReadRagged(const nb::list& given);

  std::deque<std::string> texts_;
  std::deque<std::vector<const char*>> lists_;
  std::deque<coppice_policy> policies_;
  std::deque<coppice_claim> claims_;
  std::vector<coppice_symbol_spec> symbols_;
  std::vector<coppice_joint_policy> joint_;
  std::vector<coppice_ragged_spec> ragged_;
  std::vector<coppice_tensor_spec> inputs_;
  std::vector<coppice_tensor_spec> outputs_;
  std::vector<coppice_scalar_spec> scalars_;
  coppice_program_spec spec_ = Blank<coppice_program_spec>();
};

// "pow2", or ("pow2", 64), or ("pow2", 64, half-life in calls of what is observed). The text is put
// into `texts`.
coppice_policy PolicyOf(nb::handle given, std::deque<std::string>& texts);
// The same of two symbols: "1x512,4x128", or ("pow2/pow2", (4, 512)).
coppice_joint_policy JointPolicyOf(nb::handle given, std::deque<std::string>& texts);
// The same with the two symbols' names: ("batch", "length").
coppice_joint_policy JointPolicyOf(nb::handle symbols,
                                   nb::handle given,
                                   std::deque<std::string>& texts);
// ("finite", absolute, relative).
coppice_claim ClaimOf(nb::handle given);
// The number of `name` among `names`; raises InvalidArgument with `what`.
int32_t NumberOf(const std::string& name, const std::vector<const char*>& names, const char* what);

}  // namespace coppice::python
