// Sizes first, then the arrays that need them.

#include "tools/package/call_set.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "fmt/format.h"

#include "coppice/base/expression.h"
#include "coppice/base/float_format.h"
#include "coppice/base/status.h"
#include "coppice/graphs/staging.h"

#include "tools/package/given_value.h"

namespace coppice {
namespace {

using GivenValues = std::map<std::string, GivenValue>;

absl::StatusOr<GivenValues> ParseAll(const std::vector<std::string>& texts,
                                     absl::StatusOr<GivenValue> (*parse)(const std::string&)) {
  GivenValues values;
  for (const std::string& text : texts) {
    COPPICE_ASSIGN_OR_RETURN(GivenValue value, parse(text));
    const std::string name = value.name;
    if (!values.emplace(name, std::move(value)).second)
      return InvalidArgument("'{}' is given twice; give it once", name);
  }
  return values;
}

bool IsCopied(const package::Program& program, const std::string& name) {
  return std::ranges::any_of(program.inputs, [&](int index) {
    const package::Buffer& buffer = program.buffers[static_cast<size_t>(index)];
    return buffer.name == name && !buffer.is_static;
  });
}

bool IsStatic(const package::Program& program, const std::string& name) {
  return std::ranges::any_of(program.inputs, [&](int index) {
    const package::Buffer& buffer = program.buffers[static_cast<size_t>(index)];
    return buffer.name == name && buffer.is_static;
  });
}

template <typename Named>
bool HasName(const std::vector<Named>& all, const std::string& name) {
  return std::ranges::find(all, name, &Named::name) != all.end();
}

absl::Status CheckNames(const package::Program& program,
                        const GivenValues& inputs,
                        const GivenValues& extents) {
  for (const auto& [name, value] : inputs) {
    if (IsStatic(program, name))
      return InvalidArgument("'{}' is a static input of program '{}'; give it with --static", name,
                             program.name);
    const bool scalar = HasName(program.scalars, name);
    if (!scalar && !IsCopied(program, name))
      return InvalidArgument(
          "'{}' is neither an input nor a scalar of program '{}'; see `coppice package inspect`",
          name, program.name);
    if (scalar != (value.kind == GivenValue::Kind::kNumbers))
      return InvalidArgument("'{}' is {}; give {}", name, scalar ? "a scalar" : "an array",
                             scalar ? "a number" : "a file, random:SEED or zeros");
  }
  for (const auto& [name, value] : extents) {
    if (!HasName(program.symbols, name))
      return InvalidArgument("'{}' is not a symbol of program '{}'; name a symbol in --extent",
                             name, program.name);
    const int64_t least = std::ranges::min(value.numbers);
    if (least < 0)
      return InvalidArgument("'{}' is {} in --extent; give a size of 0 or more", name, least);
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> CountSets(const GivenValues& inputs,
                                 const GivenValues& extents,
                                 size_t folders) {
  size_t count = std::max<size_t>(folders, 1);
  for (const GivenValues* const values : {&inputs, &extents}) {
    for (const auto& [name, value] : *values) {
      if (value.numbers.size() <= 1 || value.numbers.size() == count) continue;
      if (count > 1)
        return InvalidArgument(
            "'{}' has {} numbers, but there are {} sets; give one number for each set, or one "
            "number for all sets",
            name, value.numbers.size(), count);
      count = value.numbers.size();
    }
  }
  if (folders > 1 && folders != count)
    return InvalidArgument(
        "there are {} folders of inputs, but {} sets; give one folder for each set", folders,
        count);
  return count;
}

int64_t NumberFor(const GivenValue& value, size_t set) {
  return value.numbers.size() == 1 ? value.numbers[0] : value.numbers[set];
}

absl::StatusOr<HostArray> UngivenArray(const package::Buffer& buffer,
                                       const std::vector<int64_t>& dims) {
  const bool complex = buffer.dtype == DType::kComplex64;
  if (complex || FloatFormat::Of(buffer.dtype))
    return DrawArray(buffer.dtype, dims, {.seed = 1, .low = {}, .high = {}});
  COPPICE_ASSIGN_OR_RETURN(HostArray array, ZeroArray(buffer.dtype, dims));
  const uint64_t bits = FillPattern(buffer.fill, buffer.dtype);
  const auto size = static_cast<size_t>(SizeOf(buffer.dtype));
  for (size_t at = 0; at < array.bytes.size(); at += size)
    std::memcpy(array.bytes.data() + at, &bits, size);
  return array;
}

// Makes one set.
class SetMaker {
 public:
  SetMaker(const package::Program& program,
           const GivenValues& inputs,
           const GivenValues& extents,
           std::string folder,
           size_t set)
      : program_(program),
        inputs_(inputs),
        given_extents_(extents),
        folder_(std::move(folder)),
        index_(set) {}

  absl::StatusOr<CallSet> Make() {
    set_.extents.assign(program_.symbols.size(), -1);
    COPPICE_RETURN_IF_ERROR(TakeScalars());
    for (const auto& [name, value] : given_extents_) {
      const auto symbol = std::ranges::find(program_.symbols, name, &package::Symbol::name);
      COPPICE_RETURN_IF_ERROR(Bind(static_cast<int>(symbol - program_.symbols.begin()),
                                   NumberFor(value, index_), "--extent"));
    }
    std::vector<std::optional<HostArray>> arrays;
    for (const int index : program_.inputs) {
      const package::Buffer& buffer = program_.buffers[static_cast<size_t>(index)];
      if (buffer.is_static) continue;
      COPPICE_ASSIGN_OR_RETURN(arrays.emplace_back(), Read(buffer));
    }
    COPPICE_RETURN_IF_ERROR(TakeHints());
    return Draw(std::move(arrays));
  }

 private:
  absl::Status TakeScalars() {
    for (const package::Scalar& scalar : program_.scalars) {
      const auto given = inputs_.find(scalar.name);
      const std::string path = PathOf(scalar.name);
      if (given != inputs_.end()) {
        set_.scalars.push_back(NumberFor(given->second, index_));
      } else if (!path.empty()) {
        COPPICE_ASSIGN_OR_RETURN(const HostArray array, ReadArray(path, DType::kInt64));
        if (array.bytes.size() != sizeof(int64_t))
          return InvalidArgument(
              "{}: the file of a scalar must have one element; save a single number as i64", path);
        std::copy_n(array.bytes.data(), sizeof(int64_t),
                    reinterpret_cast<char*>(&set_.scalars.emplace_back()));
      } else {
        return InvalidArgument(
            "scalar '{}' of program '{}' has no value; give one, such as --input {}=5", scalar.name,
            program_.name, scalar.name);
      }
    }
    for (size_t i = 0; i < program_.symbols.size(); ++i) {
      const int scalar = program_.symbols[i].scalar;
      if (scalar < 0) continue;
      set_.extents[i] = set_.scalars[static_cast<size_t>(scalar)];
      if (set_.extents[i] < 0)
        return InvalidArgument(
            "scalar '{}' is {}, but it is the size of symbol '{}'; give 0 or "
            "more",
            program_.scalars[static_cast<size_t>(scalar)].name, set_.extents[i],
            program_.symbols[i].name);
    }
    return absl::OkStatus();
  }

  // The file in the set's folder; empty if there is none.
  std::string PathOf(const std::string& name) const {
    if (folder_.empty()) return {};
    const std::filesystem::path path = std::filesystem::path(folder_) / (name + ".npy");
    std::error_code error;
    return std::filesystem::exists(path, error) ? path.string() : std::string();
  }

  absl::Status Bind(int symbol, int64_t extent, const std::string& who) {
    int64_t& known = set_.extents[static_cast<size_t>(symbol)];
    if (known >= 0 && known != extent)
      return InvalidArgument(
          "symbol '{}' is {} according to {}, but {} elsewhere; give sizes that agree",
          program_.symbols[static_cast<size_t>(symbol)].name, extent, who, known);
    known = extent;
    return absl::OkStatus();
  }

  // The array of an input that a file holds.
  absl::StatusOr<std::optional<HostArray>> Read(const package::Buffer& buffer) {
    const auto given = inputs_.find(buffer.name);
    const bool is_given = given != inputs_.end();
    if (is_given && given->second.kind != GivenValue::Kind::kFile)
      return std::optional<HostArray>();
    const std::string path = is_given ? given->second.file : PathOf(buffer.name);
    if (path.empty()) return std::optional<HostArray>();
    COPPICE_ASSIGN_OR_RETURN(HostArray array, ReadArray(path, buffer.dtype));
    if (array.dims.size() != buffer.shape.size())
      return InvalidArgument(
          "{}: the array is {}, but input '{}' has rank {}; save an array of that rank", path,
          ShapeText(array.dtype, array.dims), buffer.name, buffer.shape.size());
    for (size_t axis = 0; axis < array.dims.size(); ++axis) {
      const int symbol = BareSymbol(program_, buffer.shape[axis]);
      if (symbol >= 0) COPPICE_RETURN_IF_ERROR(Bind(symbol, array.dims[axis], path));
    }
    return std::optional<HostArray>(std::move(array));
  }

  absl::Status TakeHints() {
    for (size_t i = 0; i < program_.symbols.size(); ++i) {
      const package::Symbol& symbol = program_.symbols[i];
      if (set_.extents[i] < 0) set_.extents[i] = symbol.hint;
      if (set_.extents[i] < 0)
        return InvalidArgument(
            "symbol '{}' of program '{}' has no size; give one, such as --extent {}=33",
            symbol.name, program_.name, symbol.name);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<CallSet> Draw(std::vector<std::optional<HostArray>> arrays) {
    const std::vector<int64_t> values = ValuesOf(program_, set_.extents, set_.scalars);
    size_t next = 0;
    for (const int index : program_.inputs) {
      const package::Buffer& buffer = program_.buffers[static_cast<size_t>(index)];
      if (buffer.is_static) continue;
      std::optional<HostArray>& array = arrays[next++];
      if (!array) {
        COPPICE_ASSIGN_OR_RETURN(const std::vector<int64_t> dims,
                                 SizesAt(buffer.shape, values, buffer.name));
        absl::StatusOr<HostArray> made = DrawOne(buffer, dims, values);
        if (!made.ok())
          return InvalidArgument("input '{}': {}", buffer.name, MessageOf(made.status()));
        array = *std::move(made);
      }
      set_.inputs.push_back(*std::move(array));
    }
    return std::move(set_);
  }

  absl::StatusOr<HostArray> DrawOne(const package::Buffer& buffer,
                                    const std::vector<int64_t>& dims,
                                    const std::vector<int64_t>& values) const {
    const auto given = inputs_.find(buffer.name);
    if (given == inputs_.end()) return UngivenArray(buffer, dims);
    if (given->second.kind == GivenValue::Kind::kZeros) return ZeroArray(buffer.dtype, dims);
    DrawnRange range = given->second.range;
    if (!given->second.high.empty()) {
      COPPICE_ASSIGN_OR_RETURN(range.high, HighOf(given->second, values));
    }
    return DrawArray(buffer.dtype, dims, range);
  }

  // The end of a range at the sizes of the set.
  absl::StatusOr<double> HighOf(const GivenValue& given, const std::vector<int64_t>& values) const {
    COPPICE_ASSIGN_OR_RETURN(const Expression high,
                             Expression::Parse(given.high, program_.names()));
    const Computed end = high.Evaluate(values);
    if (!end.ok() || static_cast<double>(end.value) <= given.range.low)
      return InvalidArgument("the range [{}, {}) is empty if {}; give a larger HIGH",
                             *given.range.low, given.high, high.Describe(program_.names(), values));
    return static_cast<double>(end.value);
  }

  const package::Program& program_;
  const GivenValues& inputs_;
  const GivenValues& given_extents_;
  const std::string folder_;
  const size_t index_;
  CallSet set_;
};

}  // namespace

absl::StatusOr<std::vector<CallSet>> MakeCallSets(const package::Program& program,
                                                  const CallSetTexts& texts) {
  COPPICE_ASSIGN_OR_RETURN(const GivenValues inputs, ParseAll(texts.inputs, &ParseGivenValue));
  COPPICE_ASSIGN_OR_RETURN(const GivenValues extents, ParseAll(texts.extents, &ParseGivenNumbers));
  COPPICE_RETURN_IF_ERROR(CheckNames(program, inputs, extents));
  for (const std::string& folder : texts.folders) {
    std::error_code error;
    if (!std::filesystem::is_directory(folder, error))
      return InvalidArgument("{}: this is not a folder; give a folder with NAME.npy for each input",
                             folder);
  }
  COPPICE_ASSIGN_OR_RETURN(const size_t count, CountSets(inputs, extents, texts.folders.size()));
  std::vector<CallSet> sets;
  for (size_t i = 0; i < count; ++i) {
    std::string folder;
    if (!texts.folders.empty()) folder = texts.folders[texts.folders.size() == 1 ? 0 : i];
    COPPICE_ASSIGN_OR_RETURN(sets.emplace_back(),
                             SetMaker(program, inputs, extents, std::move(folder), i).Make());
  }
  return sets;
}

absl::StatusOr<std::vector<HostArray>> MakeStatics(const package::Program& program,
                                                   const std::vector<std::string>& texts) {
  COPPICE_ASSIGN_OR_RETURN(const GivenValues given, ParseAll(texts, &ParseGivenValue));
  for (const auto& [name, value] : given) {
    if (!IsStatic(program, name))
      return InvalidArgument("'{}' is not a static input of program '{}'; give it with --input",
                             name, program.name);
    if (value.kind == GivenValue::Kind::kNumbers)
      return InvalidArgument("'{}' is an array; give a file, random:SEED or zeros", name);
  }
  std::vector<HostArray> statics;
  for (const int index : program.inputs) {
    const package::Buffer& buffer = program.buffers[static_cast<size_t>(index)];
    if (!buffer.is_static) continue;
    COPPICE_ASSIGN_OR_RETURN(const std::vector<int64_t> dims,
                             SizesAt(buffer.shape, {}, buffer.name));
    const auto value = given.find(buffer.name);
    if (value == given.end() && !buffer.mutated)
      return InvalidArgument(
          "static input '{}' of program '{}' is not given; give --static "
          "{}=@x.npy or --static {}=zeros",
          buffer.name, program.name, buffer.name, buffer.name);
    if (value != given.end() && value->second.kind == GivenValue::Kind::kFile) {
      COPPICE_ASSIGN_OR_RETURN(statics.emplace_back(), ReadArray(value->second.file, buffer.dtype));
      if (statics.back().dims != dims)
        return InvalidArgument(
            "{}: the array is {}, but static input '{}' is {}; save the array in that shape",
            value->second.file, ShapeText(statics.back().dtype, statics.back().dims), buffer.name,
            ShapeText(buffer.dtype, dims));
      continue;
    }
    absl::StatusOr<HostArray> made =
        value != given.end() && value->second.kind == GivenValue::Kind::kRandom
            ? DrawArray(buffer.dtype, dims, value->second.range)
            : ZeroArray(buffer.dtype, dims);
    if (value != given.end() && !value->second.high.empty())
      return InvalidArgument("static input '{}': the end of its range is '{}'; give a number",
                             buffer.name, value->second.high);
    if (!made.ok())
      return InvalidArgument("static input '{}': {}", buffer.name, MessageOf(made.status()));
    statics.push_back(*std::move(made));
  }
  return statics;
}

std::vector<int64_t> ValuesOf(const package::Program& program,
                              std::span<const int64_t> extents,
                              std::span<const int64_t> scalars) {
  std::vector<int64_t> values(extents.begin(), extents.end());
  for (size_t i = 0; i < program.scalars.size(); ++i)
    values.push_back(program.scalars[i].parameter ? 0 : scalars[i]);
  return values;
}

absl::StatusOr<std::vector<int64_t>> SizesAt(const std::vector<package::Amount>& amounts,
                                             std::span<const int64_t> values,
                                             const std::string& buffer) {
  std::vector<int64_t> sizes;
  for (const package::Amount& amount : amounts) {
    if (amount.expression && values.empty())
      return InvalidArgument(
          "'{}': a static input must have a fixed size; export the package again", buffer);
    const Computed size = amount.At(values);
    if (size.fault != ArithmeticFault::kNone || size.value < 0)
      return InvalidArgument(
          "'{}': its size {} has no value, or is negative, at these extents; give other extents",
          buffer, amount.expression ? amount.expression->text() : "");
    sizes.push_back(size.value);
  }
  return sizes;
}

int BareSymbol(const package::Program& program, const package::Amount& amount) {
  if (!amount.expression) return -1;
  const auto symbol =
      std::ranges::find(program.symbols, amount.expression->text(), &package::Symbol::name);
  return symbol == program.symbols.end() ? -1 : static_cast<int>(symbol - program.symbols.begin());
}

}  // namespace coppice
