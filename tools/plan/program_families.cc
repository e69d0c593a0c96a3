// The text that the script wrote, cut into families and programs.

#include "tools/plan/program_families.h"

#include <charconv>
#include <system_error>

#include "coppice/base/check.h"

#include "tools/support/text_file.h"

extern "C" const char coppice_program_families[];

namespace coppice {
namespace {

struct BuiltIn {
  std::vector<PackedPrograms> families;
  std::vector<PackedPrograms> programs;
};

// A line `family NAME` or `program NAME` opens each; what it owns goes on to the next such line.
BuiltIn CutBuiltIn() {
  BuiltIn built_in;
  PackedPrograms* open = nullptr;
  std::string_view rest = coppice_program_families;
  while (!rest.empty()) {
    const std::string_view line = TakeLine(rest);
    const std::string_view word = line.substr(0, line.find(' '));
    if (word == "family" || word == "program") {
      auto& list = word == "family" ? built_in.families : built_in.programs;
      open = &list.emplace_back();
      open->name = line.substr(word.size() + 1);
      open->text = rest.substr(0, 0);
    } else {
      COPPICE_CHECK(open != nullptr, "a name comes first");
      open->text = {open->text.data(), static_cast<size_t>(rest.data() - open->text.data())};
    }
  }
  return built_in;
}

const BuiltIn& GetBuiltIn() {
  static const BuiltIn built_in = CutBuiltIn();
  return built_in;
}

std::vector<int64_t> NumbersOf(std::string_view line) {
  std::vector<int64_t> numbers;
  while (!line.empty()) {
    int64_t& number = numbers.emplace_back();
    const auto read = std::from_chars(line.data() + 1, line.data() + line.size(), number);
    COPPICE_CHECK(line.front() == ' ' && read.ec == std::errc(), "numbers, a space before each");
    line.remove_prefix(static_cast<size_t>(read.ptr - line.data()));
  }
  return numbers;
}

// The buffers of a shape; in place of its bytes each has its class.
std::vector<Buffer> ShapeOf(const std::vector<int64_t>& numbers) {
  COPPICE_CHECK(numbers.size() % 3 == 0, "three numbers per buffer");
  std::vector<Buffer> shape(numbers.size() / 3);
  int64_t begin = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    begin += numbers[3 * i];
    shape[i].lifetime = {Interval{.lower = begin, .upper = begin + numbers[3 * i + 1]}};
    shape[i].bytes = numbers[3 * i + 2];
  }
  return shape;
}

}  // namespace

std::vector<std::vector<Buffer>> PackedPrograms::Unpack() const {
  std::vector<std::vector<Buffer>> programs;
  std::vector<Buffer> shape;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view line = TakeLine(rest);
    const std::string_view word = line.substr(0, line.find(' '));
    COPPICE_CHECK(word == "shape" || word == "sizes", "a line must begin with shape or sizes");
    const std::vector<int64_t> numbers = NumbersOf(line.substr(word.size()));
    if (word == "shape") {
      shape = ShapeOf(numbers);
      continue;
    }
    for (Buffer& buffer : programs.emplace_back(shape)) {
      COPPICE_CHECK(buffer.bytes >= 0 && static_cast<size_t>(buffer.bytes) < numbers.size(),
                    "a class has a size");
      buffer.bytes = numbers[static_cast<size_t>(buffer.bytes)];
    }
  }
  return programs;
}

std::span<const PackedPrograms> BuiltInFamilies() {
  return GetBuiltIn().families;
}

std::span<const PackedPrograms> BuiltInPrograms() {
  return GetBuiltIn().programs;
}

}  // namespace coppice
