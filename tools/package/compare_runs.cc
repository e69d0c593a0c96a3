// Bits first, words last.

#include "tools/package/compare_runs.h"

#include <cstring>
#include <optional>
#include <span>

#include "fmt/format.h"

#include "coppice/base/float_format.h"

namespace coppice {
namespace {

std::span<const std::byte> BytesOf(const HostArray& array) {
  return std::as_bytes(std::span(array.bytes.data(), array.bytes.size()));
}

// What people read of element `index`.
std::string ElementText(const HostArray& array, int64_t index) {
  const auto size = static_cast<size_t>(SizeOf(array.dtype));
  uint64_t bits = 0;
  std::memcpy(&bits, array.bytes.data() + static_cast<size_t>(index) * size, size);
  if (array.dtype == DType::kComplex64) {
    const FloatFormat format = *FloatFormat::Of(DType::kFloat32);
    return fmt::format("{:.9g} + {:.9g}i", format.NumberOf(bits & 0xFFFFFFFFU),
                       format.NumberOf(bits >> 32));
  }
  if (const std::optional<FloatFormat> format = FloatFormat::Of(array.dtype))
    return fmt::format("{:.9g}", format->NumberOf(bits));
  const int shift = 64 - 8 * static_cast<int>(size);
  const auto shifted = static_cast<int64_t>(bits << shift);
  const bool is_signed = NameOf(array.dtype)[0] == 'i';
  return is_signed ? fmt::format("{}", shifted >> shift) : fmt::format("{}", bits);
}

// "y[2, 3]"
std::string PlaceText(const std::string& buffer, const HostArray& array, int64_t element) {
  std::string text;
  for (size_t axis = array.dims.size(); axis-- > 0;) {
    text = fmt::format("{}{}{}", element % array.dims[axis], text.empty() ? "" : ", ", text);
    element /= array.dims[axis];
  }
  return text.empty() ? buffer : fmt::format("{}[{}]", buffer, text);
}

}  // namespace

Equality EqualityOfProgram(const package::Program& program,
                           const std::map<std::string, std::optional<PaddingClaim>>& claims) {
  Equality equal;
  for (const package::Symbol& symbol : program.symbols) {
    const auto given = claims.find(symbol.name);
    const std::optional<PaddingClaim>& claim = given == claims.end() ? symbol.claim : given->second;
    if (claim) equal = Joined(equal, claim->equal);
  }
  return equal;
}

std::vector<Difference> CompareArrays(const std::string& buffer,
                                      const Equality& equal,
                                      const HostArray& expected,
                                      const HostArray& actual) {
  if (expected.dims != actual.dims || expected.dtype != actual.dtype)
    return {{buffer, -1,
             fmt::format("{} is {}, but {} in an unpadded run", buffer,
                         ShapeText(actual.dtype, actual.dims),
                         ShapeText(expected.dtype, expected.dims))}};
  const std::optional<int64_t> element =
      FindDisagreement(equal, expected.dtype, BytesOf(expected), BytesOf(actual));
  if (!element) return {};
  return {{buffer, *element,
           fmt::format("{} is {}, but {} in an unpadded run without graphs",
                       PlaceText(buffer, actual, *element), ElementText(actual, *element),
                       ElementText(expected, *element))}};
}

std::vector<Difference> CompareRuns(const package::Program& program,
                                    const Equality& equal,
                                    const RunOutcome& expected,
                                    const RunOutcome& actual) {
  std::vector<Difference> differences;
  const auto add = [&](const std::string& name, const HostArray& a, const HostArray& b) {
    for (Difference& difference : CompareArrays(name, equal, a, b))
      differences.push_back(std::move(difference));
  };
  for (size_t i = 0; i < expected.outputs.size(); ++i) {
    const auto buffer = static_cast<size_t>(program.outputs[i]);
    add(program.buffers[buffer].name, expected.outputs[i], actual.outputs[i]);
  }
  const std::vector<std::string> mutated = MutatedNames(program);
  for (size_t i = 0; i < expected.mutated.size(); ++i)
    add(mutated[i], expected.mutated[i], actual.mutated[i]);
  return differences;
}

const char* NameOf(Poison poison) {
  switch (poison) {
    case Poison::kOff:
      return "";
    case Poison::kNan:
      return "nan";
    case Poison::kPattern:
      return "pattern";
    case Poison::kNoise:
      return "noise";
  }
  return "";
}

std::string FileNameOf(const std::string& name) {
  std::string file;
  for (const char c : name) {
    const bool escaped = c == '/' || c == '%' || (c == '.' && file.empty());
    file += escaped ? fmt::format("%{:02X}", static_cast<unsigned char>(c)) : std::string(1, c);
  }
  return file;
}

}  // namespace coppice
