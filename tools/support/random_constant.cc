// The rounding of each operation is part of the rule.

#include "tools/support/random_constant.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "fmt/format.h"

#include "coppice/base/status.h"

namespace coppice {
namespace {

std::optional<double> FractionOf(const nlohmann::json& object, const char* field) {
  const auto found = object.find(field);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  const auto& text = found->get_ref<const std::string&>();
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

uint64_t SplitMix(uint64_t& state) {
  state += 0x9e3779b97f4a7c15;
  uint64_t word = state;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
  word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
  return word ^ (word >> 31);
}

}  // namespace

absl::StatusOr<std::vector<float>> DrawConstant(const package::Constant& constant,
                                                const nlohmann::json& described) {
  const std::string place = fmt::format("/constants/{}", constant.name);
  const auto how = described.find("x-random");
  if (how == described.end())
    return InvalidArgument("{} has no data and no x-random; export the package with one of the two",
                           place);
  const auto seed = how->find("seed");
  const std::optional<double> mean = FractionOf(*how, "mean");
  const std::optional<double> deviation = FractionOf(*how, "deviation");
  if (seed == how->end() || !seed->is_number_integer() || !mean || !deviation)
    return InvalidArgument(
        "{}/x-random must have `seed`, an integer, and `mean` and `deviation`, finite numbers "
        "written as strings",
        place);
  int64_t count = 1;
  bool dense = constant.dtype == DType::kFloat32;
  for (size_t axis = constant.shape.size(); axis-- > 0;) {
    dense = dense && constant.strides[axis] == count;
    count *= constant.shape[axis];
  }
  if (!dense)
    return InvalidArgument(
        "{} is filled with random numbers, so it must be f32 and row-major without gaps", place);

  auto state = static_cast<uint64_t>(seed->get<int64_t>());
  const double width = *deviation * std::sqrt(12.0);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    const double unit = static_cast<double>(SplitMix(state) >> 11) * 0x1p-53 - 0.5;
    value = static_cast<float>(*mean) + static_cast<float>(width * unit);
  }
  return values;
}

}  // namespace coppice
