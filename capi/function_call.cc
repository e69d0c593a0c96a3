// coppice_function_call out of a FunctionCall.

#include "capi/function_call.h"

#include <variant>

#include "absl/container/inlined_vector.h"

#include "coppice/base/status.h"

#include "capi/failure.h"
#include "capi/here.h"
#include "capi/tensors.h"

namespace coppice::capi {
namespace {

// DLTensors, and the tensors that their shapes lie in.
class Views {
 public:
  Views(std::span<const Tensor> given, DLDevice device) : tensors_(given.begin(), given.end()) {
    for (Tensor& tensor : tensors_)
      views_.push_back(DLTensorOf(tensor, device));
  }

  const DLTensor* data() const { return views_.data(); }
  int32_t count() const { return static_cast<int32_t>(views_.size()); }

 private:
  Tensors tensors_;
  absl::InlinedVector<DLTensor, 8> views_;
};

absl::InlinedVector<const char*, 8> PointersTo(const std::vector<std::string>& texts) {
  absl::InlinedVector<const char*, 8> pointers;
  for (const std::string& text : texts)
    pointers.push_back(text.c_str());
  return pointers;
}

}  // namespace

OptionTexts::OptionTexts(const FunctionOptions& options) {
  for (const auto& [name, value] : options) {
    names.push_back(name);
    const auto* const number = std::get_if<int64_t>(&value);
    values.push_back(number != nullptr ? fmt::format("{}", *number) : std::get<std::string>(value));
  }
}

const OptionTexts* StepFunctionRecord::Keep(OptionTexts options) {
  const std::lock_guard lock(mutex_);
  return &*options_.insert(std::move(options)).first;
}

absl::Status StepFunctionRecord::Call(std::span<const Tensor> inputs,
                                      std::span<const Tensor> outputs,
                                      const OptionTexts& options,
                                      CuStream stream,
                                      DLDevice device) const {
  const Views input_views(inputs, device);
  const Views output_views(outputs, device);
  const auto names = PointersTo(options.names);
  const auto values = PointersTo(options.values);
  const coppice_function_call call = {.struct_size = sizeof(coppice_function_call),
                                      .input_count = input_views.count(),
                                      .inputs = input_views.data(),
                                      .outputs = output_views.data(),
                                      .output_count = output_views.count(),
                                      .option_count = static_cast<int32_t>(names.size()),
                                      .option_names = names.data(),
                                      .option_values = values.data(),
                                      .stream = stream};
  Here here = WhoseCode();
  here.session = &session_;
  const HereScope scope(here);
  ForgetCallbackMessage();
  return StatusOfCallback(run_(user_.get(), &call), fmt::format("function {}", name_));
}

}  // namespace coppice::capi
