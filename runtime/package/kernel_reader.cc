// Kernels of a manifest, and their targets.

#include <array>
#include <utility>

#include "coppice/base/units.h"

#include "base/json_fields.h"
#include "runtime/package/manifest_reader.h"

namespace coppice::package {
namespace {

constexpr int64_t kKernelsMax = 65'533;
constexpr int64_t kParametersMax = 1024;
constexpr int64_t kParameterBytesMax = 32'764;
constexpr int64_t kThreadsMax = 1024;
constexpr int64_t kClusterMax = 16;
constexpr int64_t kTargetsMax = 4096;
constexpr int64_t kValuesMax = 64;

absl::Status ReadParameters(Json parameters, Kernel& kernel) {
  COPPICE_RETURN_IF_ERROR(CheckList(parameters, 0, kParametersMax));
  int64_t sum = 0;
  for (const Json value : parameters) {
    COPPICE_ASSIGN_OR_RETURN(const int64_t bytes, IntegerOf(value, 1, kParameterBytesMax));
    sum += bytes;
    kernel.parameter_bytes.push_back(static_cast<int32_t>(bytes));
  }
  if (sum > kParameterBytesMax)
    return parameters.Error("the parameters have {} bytes in all; a kernel takes at most {}", sum,
                            kParameterBytesMax);
  return absl::OkStatus();
}

absl::Status ReadSource(Json value, Source& source) {
  if (!value.present()) return absl::OkStatus();
  COPPICE_RETURN_IF_ERROR(CheckFields(value, {"file?", "front_end?", "line?", "name?"}));
  COPPICE_ASSIGN_OR_RETURN(source.front_end, TextOr(value["front_end"], ""));
  COPPICE_ASSIGN_OR_RETURN(source.name, TextOr(value["name"], ""));
  COPPICE_ASSIGN_OR_RETURN(source.file, TextOr(value["file"], ""));
  COPPICE_ASSIGN_OR_RETURN(source.line, IntegerOr(value["line"], 0, 0, INT64_MAX));
  return absl::OkStatus();
}

// Three counts, whose product is at most `product_max`; absent: ones.
absl::StatusOr<std::array<uint32_t, 3>> ReadBox(Json value, int64_t product_max) {
  std::array<uint32_t, 3> box = {1, 1, 1};
  if (!value.present()) return box;
  COPPICE_RETURN_IF_ERROR(CheckList(value, 3, 3));
  size_t axis = 0;
  int64_t product = 1;
  for (const Json count : value) {
    COPPICE_ASSIGN_OR_RETURN(const int64_t number, IntegerOf(count, 1, product_max));
    product *= number;
    box[axis++] = static_cast<uint32_t>(number);
  }
  if (product > product_max)
    return value.Error("the product is {}; it must be at most {}", product, product_max);
  return box;
}

absl::Status ReadScratch(Json list, Target& target) {
  if (!list.present()) return absl::OkStatus();
  COPPICE_RETURN_IF_ERROR(CheckList(list, 0, kParametersMax));
  for (const Json value : list) {
    COPPICE_RETURN_IF_ERROR(CheckFields(value, {"align", "bytes_per_block"}));
    Scratch scratch;
    COPPICE_ASSIGN_OR_RETURN(scratch.bytes_per_block,
                             IntegerOf(value["bytes_per_block"], 0, INT64_MAX));
    COPPICE_ASSIGN_OR_RETURN(scratch.align, PowerOfTwoOr(value["align"], 1, kBufferAlignment));
    target.scratch.push_back(scratch);
  }
  return absl::OkStatus();
}

// Values of a target, whose names the first target of the kernel says.
absl::Status ReadValues(Json target_json, bool first, Kernel& kernel, Target& target) {
  std::vector<std::string> names;
  if (const Json values = target_json["values"]; values.present()) {
    COPPICE_RETURN_IF_ERROR(CheckObject(values, 0, kValuesMax));
    for (const Json value : values) {
      names.emplace_back(value.key());
      if (names.back().size() > kNameMax || !IsExpressionName(names.back()))
        return value.Error(
            "this name cannot be used in an expression; use letters, digits and _, and do not "
            "start with a digit");
      COPPICE_ASSIGN_OR_RETURN(const int64_t number, IntegerOf(value, INT64_MIN, INT64_MAX));
      target.values.push_back(number);
    }
  }
  if (first) kernel.value_names = names;
  if (names != kernel.value_names)
    return target_json.Error(
        "the names of its values are [{}], but in the first target they are [{}]; use the same "
        "names in all targets",
        fmt::join(names, ", "), fmt::join(kernel.value_names, ", "));
  return absl::OkStatus();
}

absl::StatusOr<Target> ReadTarget(Json value, const Manifest& manifest, Kernel& kernel) {
  COPPICE_RETURN_IF_ERROR(
      CheckFields(value, {"block", "cluster?", "cooperative?", "module", "programmatic?",
                          "scratch?", "shared_bytes?", "symbol", "values?", "variant?"}));
  Target target;
  COPPICE_ASSIGN_OR_RETURN(target.module,
                           ReferenceOf(value["module"], manifest.modules, "modules"));
  COPPICE_ASSIGN_OR_RETURN(target.symbol, TextOf(value["symbol"]));
  if (target.symbol.empty())
    return value["symbol"].Error("\"\"; write the name that the kernel has in the image");
  COPPICE_ASSIGN_OR_RETURN(target.block, ReadBox(value["block"], kThreadsMax));
  COPPICE_ASSIGN_OR_RETURN(const int64_t shared, IntegerOr(value["shared_bytes"], 0, 0, INT32_MAX));
  target.shared_bytes = static_cast<uint32_t>(shared);
  COPPICE_ASSIGN_OR_RETURN(target.cluster, ReadBox(value["cluster"], kClusterMax));
  COPPICE_ASSIGN_OR_RETURN(target.cooperative, BoolOr(value["cooperative"], false));
  COPPICE_ASSIGN_OR_RETURN(target.programmatic, BoolOr(value["programmatic"], false));
  COPPICE_RETURN_IF_ERROR(ReadScratch(value["scratch"], target));
  COPPICE_RETURN_IF_ERROR(ReadValues(value, kernel.targets.empty(), kernel, target));
  COPPICE_ASSIGN_OR_RETURN(target.variant, TextOr(value["variant"], ""));
  return target;
}

}  // namespace

absl::StatusOr<std::vector<Kernel>> ReadKernels(Json kernels, const Manifest& manifest) {
  COPPICE_RETURN_IF_ERROR(CheckObject(kernels, 0, kKernelsMax));
  std::vector<Kernel> read;
  for (const Json value : kernels) {
    COPPICE_RETURN_IF_ERROR(CheckName(value));
    COPPICE_RETURN_IF_ERROR(CheckFields(value, {"parameters", "source?", "targets"}));
    Kernel kernel{.name = std::string(value.key())};
    COPPICE_RETURN_IF_ERROR(ReadParameters(value["parameters"], kernel));
    COPPICE_RETURN_IF_ERROR(ReadSource(value["source"], kernel.source));
    COPPICE_RETURN_IF_ERROR(CheckList(value["targets"], 1, kTargetsMax));
    for (const Json target_json : value["targets"]) {
      COPPICE_ASSIGN_OR_RETURN(Target target, ReadTarget(target_json, manifest, kernel));
      kernel.targets.push_back(std::move(target));
    }
    read.push_back(std::move(kernel));
  }
  return read;
}

}  // namespace coppice::package
