// The manifest's own fields, files, modules and constants.

#include "runtime/package/manifest_reader.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "coppice/base/units.h"

#include "base/json_fields.h"

namespace coppice::package {
namespace {

constexpr int64_t kMajor = 1;
constexpr int64_t kEntriesMax = 65'533;
constexpr int64_t kProgramsMax = 256;
constexpr int64_t kStepsRunMax = int64_t{1} << 20;
constexpr const char* kFormats[] = {"cubin", "fatbin", "ptx"};

bool IsDigest(std::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// sm_80, sm_90a, sm_100f.
bool IsArchitecture(std::string_view text) {
  if (!text.starts_with("sm_")) return false;
  text.remove_prefix(3);
  if (text.ends_with('a') || text.ends_with('f')) text.remove_suffix(1);
  return text.size() >= 2 && text.size() <= 3 && text[0] != '0' &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Whether this library is one that may read it at all, and whether it knows all of it.
absl::Status ReadVersion(JsonDocument& document) {
  const Json root = document.root();
  COPPICE_RETURN_IF_ERROR(CheckKind(root, JsonKind::kObject));
  const Json schema = root["schema"];
  if (!schema.is(JsonKind::kText) || schema.text() != "coppice.kernel_package")
    return root.Error(
        "its \"schema\" is not \"coppice.kernel_package\"; give the manifest of a "
        "kernel package");
  const Json version = root["schema_version"];
  if (!version.present()) return root.Error("has no field \"schema_version\"; add it");
  COPPICE_RETURN_IF_ERROR(CheckList(version, 2, 2));
  std::vector<int64_t> numbers;
  for (const Json number : version) {
    COPPICE_ASSIGN_OR_RETURN(const int64_t value, IntegerOf(number, 0, INT32_MAX));
    numbers.push_back(value);
  }
  if (numbers[0] != kMajor)
    return MakeError(absl::StatusCode::kUnimplemented,
                     "{}: /schema_version: the format has version {}.{}, but this library reads "
                     "{}.x; use another version of the library",
                     document.name(), numbers[0], numbers[1], kMajor);
  if (numbers[1] > 0) document.IgnoreUnknown();
  const Json required = root["requires"];
  if (!required.present()) return absl::OkStatus();
  COPPICE_RETURN_IF_ERROR(CheckKind(required, JsonKind::kList));
  for (const Json feature : required) {
    COPPICE_RETURN_IF_ERROR(CheckKind(feature, JsonKind::kText));
    return MakeError(
        absl::StatusCode::kUnimplemented,
        "{}: {}: requires {}, which this library does not know; use a later version of the library",
        document.name(), feature.Pointer(), feature.Show());
  }
  return absl::OkStatus();
}

absl::Status ReadProducer(Json producer, Manifest& manifest) {
  COPPICE_RETURN_IF_ERROR(CheckKind(producer, JsonKind::kObject));
  for (const char* const name : {"name", "version"}) {
    if (!producer[name].present()) return producer.Error("has no field \"{}\"; add it", name);
  }
  COPPICE_ASSIGN_OR_RETURN(manifest.producer_name, TextOf(producer["name"]));
  COPPICE_ASSIGN_OR_RETURN(manifest.producer_version, TextOf(producer["version"]));
  return absl::OkStatus();
}

absl::Status ReadFiles(Json files, Manifest& manifest) {
  COPPICE_RETURN_IF_ERROR(CheckObject(files, 0, kEntriesMax));
  for (const Json value : files) {
    File file{.name = std::string(value.key())};
    if (!IsFileName(file.name) || file.name == "manifest.json" || file.name == "manifest.sig")
      return value.Error(
          "{} is not a valid file name; use 1 to 255 characters of A-Z a-z 0-9 . _ - /, no empty "
          "part, no . or .. part, and not manifest.json or manifest.sig",
          QuoteText(file.name, kNameMax));
    COPPICE_RETURN_IF_ERROR(CheckFields(value, {"bytes", "sha256"}));
    COPPICE_ASSIGN_OR_RETURN(file.bytes, IntegerOf(value["bytes"], 0, INT64_MAX));
    COPPICE_ASSIGN_OR_RETURN(file.sha256, TextOf(value["sha256"]));
    if (!IsDigest(file.sha256))
      return value["sha256"].Error("{}; write 64 hexadecimal digits in lower case",
                                   value["sha256"].Show());
    manifest.files.push_back(std::move(file));
  }
  return absl::OkStatus();
}

absl::Status ReadModules(Json modules, Manifest& manifest) {
  COPPICE_RETURN_IF_ERROR(CheckObject(modules, 0, kEntriesMax));
  for (const Json value : modules) {
    COPPICE_RETURN_IF_ERROR(CheckName(value));
    COPPICE_RETURN_IF_ERROR(CheckFields(value, {"arch", "file", "format"}));
    Module module{.name = std::string(value.key())};
    COPPICE_ASSIGN_OR_RETURN(module.file, ReferenceOf(value["file"], manifest.files, "files"));
    COPPICE_ASSIGN_OR_RETURN(const int format, WordOf(value["format"], kFormats));
    module.format = static_cast<ImageFormat>(format);
    COPPICE_ASSIGN_OR_RETURN(module.arch, TextOf(value["arch"]));
    if (!IsArchitecture(module.arch))
      return value["arch"].Error("{}; write an architecture such as sm_80, sm_90a or sm_100f",
                                 value["arch"].Show());
    manifest.modules.push_back(std::move(module));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> ReadSizes(Json list) {
  COPPICE_RETURN_IF_ERROR(CheckList(list, 0, kRankMax));
  std::vector<int64_t> sizes;
  for (const Json value : list) {
    COPPICE_ASSIGN_OR_RETURN(const int64_t size, IntegerOf(value, 0, INT64_MAX));
    sizes.push_back(size);
  }
  return sizes;
}

// Strides of a row-major layout, unless there are some; and that int64 holds its bytes.
absl::Status ReadConstantLayout(Json value, Constant& constant) {
  COPPICE_ASSIGN_OR_RETURN(constant.shape, ReadSizes(value["shape"]));
  const size_t rank = constant.shape.size();
  bool overflow = false;
  int64_t stride = 1;
  if (value["strides"].present()) {
    COPPICE_ASSIGN_OR_RETURN(constant.strides, ReadSizes(value["strides"]));
    if (constant.strides.size() != rank)
      return value["strides"].Error("{}; write one stride for each dimension ({} in all)",
                                    value["strides"].Show(), rank);
  } else {
    constant.strides.resize(rank);
    for (size_t axis = rank; axis-- > 0;) {
      constant.strides[axis] = stride;
      overflow |=
          __builtin_mul_overflow(stride, std::max<int64_t>(constant.shape[axis], 1), &stride);
    }
  }
  int64_t last = 0;
  for (size_t axis = 0; axis < rank; ++axis) {
    int64_t reach = 0;
    overflow |= __builtin_mul_overflow(std::max<int64_t>(constant.shape[axis] - 1, 0),
                                       constant.strides[axis], &reach);
    overflow |= __builtin_add_overflow(last, reach, &last);
  }
  overflow |= __builtin_add_overflow(last, 1, &last);
  overflow |= __builtin_mul_overflow(last, SizeOf(constant.dtype), &last);
  if (overflow) return value.Error("has 2^63 bytes or more; make it smaller");
  return absl::OkStatus();
}

absl::Status ReadConstants(Json constants, Manifest& manifest) {
  COPPICE_RETURN_IF_ERROR(CheckObject(constants, 0, kEntriesMax));
  for (const Json value : constants) {
    COPPICE_RETURN_IF_ERROR(CheckName(value));
    COPPICE_RETURN_IF_ERROR(CheckFields(value, {"data?", "dtype", "shape", "strides?"}));
    Constant constant{.name = std::string(value.key())};
    COPPICE_ASSIGN_OR_RETURN(constant.dtype, DTypeOf(value["dtype"]));
    COPPICE_RETURN_IF_ERROR(ReadConstantLayout(value, constant));
    if (const Json data = value["data"]; data.present()) {
      COPPICE_RETURN_IF_ERROR(CheckFields(data, {"file", "tensor"}));
      COPPICE_ASSIGN_OR_RETURN(constant.file, ReferenceOf(data["file"], manifest.files, "files"));
      COPPICE_ASSIGN_OR_RETURN(constant.tensor, TextOf(data["tensor"]));
    }
    manifest.constants.push_back(std::move(constant));
  }
  return absl::OkStatus();
}

// That no program is part of itself, and that one run of it ends. `state` of each: 0 not seen, 1 on
// the way, 2 done; `steps` of those that are done: with those of children, as often as they run.
struct Nesting {
  std::vector<uint8_t> state;
  std::vector<int64_t> steps;
};

absl::Status CheckNesting(Json programs,
                          const Manifest& manifest,
                          size_t program,
                          Nesting& nesting) {
  const Program& outer = manifest.programs[program];
  nesting.state[program] = 1;
  int64_t steps = static_cast<int64_t>(outer.steps.size());
  for (size_t step = 0; step < outer.steps.size(); ++step) {
    const auto* child = std::get_if<ChildStep>(&outer.steps[step].action);
    if (child == nullptr) continue;
    const auto inner = static_cast<size_t>(child->program);
    if (nesting.state[inner] == 1)
      return programs[outer.name]["steps"].Error(
          "step {} runs the program {} inside itself; remove the cycle", step,
          QuoteText(manifest.programs[inner].name, kNameMax));
    if (nesting.state[inner] == 0)
      COPPICE_RETURN_IF_ERROR(CheckNesting(programs, manifest, inner, nesting));
    steps += nesting.steps[inner];
  }
  if (steps > kStepsRunMax)
    return programs[outer.name]["steps"].Error(
        "the program runs {} steps, including the steps of its children; at most {} are allowed",
        steps, kStepsRunMax);
  nesting.steps[program] = steps;
  nesting.state[program] = 2;
  return absl::OkStatus();
}

absl::Status ReadPrograms(Json programs, Manifest& manifest) {
  COPPICE_RETURN_IF_ERROR(CheckObject(programs, 1, kProgramsMax));
  ExpressionBudget budget;
  for (const Json value : programs) {
    COPPICE_RETURN_IF_ERROR(CheckName(value));
    COPPICE_ASSIGN_OR_RETURN(Program program, ReadProgram(value, manifest, budget));
    manifest.programs.push_back(std::move(program));
  }
  size_t index = 0;
  for (const Json value : programs) {
    Program& program = manifest.programs[index++];
    COPPICE_ASSIGN_OR_RETURN(program.steps, ReadSteps(value["steps"], manifest, program, budget));
  }
  const size_t count = manifest.programs.size();
  Nesting nesting{.state = std::vector<uint8_t>(count), .steps = std::vector<int64_t>(count)};
  for (size_t program = 0; program < count; ++program) {
    if (nesting.state[program] == 0)
      COPPICE_RETURN_IF_ERROR(CheckNesting(programs, manifest, program, nesting));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsFileName(std::string_view name) {
  if (name.empty() || name.size() > kNameMax) return false;
  size_t begin = 0;
  while (begin <= name.size()) {
    const size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    const bool good = std::all_of(part.begin(), part.end(), [](char c) {
      return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
             c == '.' || c == '_' || c == '-';
    });
    if (!good) return false;
    begin = end + 1;
  }
  return true;
}

absl::StatusOr<Manifest> ReadManifest(JsonDocument& document, const std::string& sha256) {
  COPPICE_RETURN_IF_ERROR(ReadVersion(document));
  const Json root = document.root();
  COPPICE_RETURN_IF_ERROR(
      CheckFields(root, {"constants", "entry", "files", "integrity", "kernels", "modules",
                         "producer", "programs", "requires?", "schema", "schema_version"}));
  COPPICE_RETURN_IF_ERROR(CheckFields(root["integrity"], {"manifest_sha256"}));
  Manifest manifest{.sha256 = sha256};
  COPPICE_RETURN_IF_ERROR(ReadProducer(root["producer"], manifest));
  COPPICE_RETURN_IF_ERROR(ReadFiles(root["files"], manifest));
  COPPICE_RETURN_IF_ERROR(ReadModules(root["modules"], manifest));
  COPPICE_ASSIGN_OR_RETURN(manifest.kernels, ReadKernels(root["kernels"], manifest));
  COPPICE_RETURN_IF_ERROR(ReadConstants(root["constants"], manifest));
  COPPICE_RETURN_IF_ERROR(ReadPrograms(root["programs"], manifest));
  COPPICE_ASSIGN_OR_RETURN(manifest.entry,
                           ReferenceOf(root["entry"], manifest.programs, "programs"));
  return manifest;
}

}  // namespace coppice::package
