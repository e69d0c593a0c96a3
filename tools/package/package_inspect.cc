// A package as tables for people, and as JSON for programs.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"
#include "coppice/runtime/package.h"

#include "tools/package/bucket_memory.h"
#include "tools/package/key_file.h"
#include "tools/package/package.h"
#include "tools/support/byte_text.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

using package::Amount;
using package::Buffer;
using package::Manifest;
using package::Program;
using package::Symbol;
using Json = nlohmann::ordered_json;

constexpr const char* kFormats[] = {"cubin", "fatbin", "ptx"};
constexpr const char* kRoles[] = {"input", "output", "temporary", "constant", "seed"};

template <typename Enum, size_t kCount>
const char* WordOf(Enum value, const char* const (&words)[kCount]) {
  return words[static_cast<size_t>(value)];
}

std::string TextOf(const Amount& amount) {
  return amount.expression ? amount.expression->text() : std::to_string(amount.value);
}

std::string ShapeOf(const std::vector<Amount>& shape) {
  std::string text;
  for (const Amount& size : shape)
    text += (text.empty() ? "" : ", ") + TextOf(size);
  return "[" + text + "]";
}

std::string RangeOf(const Symbol& symbol) {
  const std::string max = symbol.max == INT64_MAX ? "" : std::to_string(symbol.max);
  return fmt::format("{}..{}{}", symbol.min, max,
                     symbol.multiple_of > 1 ? fmt::format(" by {}", symbol.multiple_of) : "");
}

std::string ClaimOf(const Symbol& symbol) {
  if (!symbol.claim) return "never padded";
  const Equality& equal = symbol.claim->equal;
  return fmt::format(
      "{} padding, {}", NameOf(symbol.claim->padding),
      equal.bits ? "equal bits"
                 : fmt::format("within {:g} + {:g} relative", equal.absolute, equal.relative));
}

std::string BucketsOf(const Symbol& symbol) {
  constexpr size_t kShown = 8;
  if (symbol.buckets_pow2) return "pow2";
  const size_t shown = std::min(symbol.buckets.size(), kShown);
  std::string text =
      fmt::format("{}", fmt::join(symbol.buckets.begin(), symbol.buckets.begin() + shown, " "));
  if (shown < symbol.buckets.size())
    text += fmt::format(" .. {} ({} sizes)", symbol.buckets.back(), symbol.buckets.size());
  return text;
}

// Whether it is a constant of which the package has no data.
bool LacksData(const Manifest& manifest, const Buffer& buffer) {
  return buffer.role == package::Role::kConstant &&
         manifest.constants[static_cast<size_t>(buffer.constant)].file < 0;
}

// What the steps are, as "kernel x 15, call x 2".
std::string StepsOf(const Program& program) {
  std::string text;
  for (const std::string_view op : package::kStepOps) {
    const auto count = std::ranges::count_if(program.steps, [&](const package::Step& step) {
      const auto is = [&]<typename Kind>(const Kind& /*action*/) { return op == Kind::kOp; };
      return std::visit(is, step.action);
    });
    if (count > 0) text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", op, count);
  }
  return text.empty() ? "no steps" : text;
}

std::string FormatProgram(const Manifest& manifest, const Program& program) {
  std::string text = fmt::format("\nprogram {}: {}\n", program.name, StepsOf(program));
  TextTable symbols("lllll", {"", "symbol", "sizes", "claim", "buckets"});
  for (const Symbol& symbol : program.symbols)
    symbols.Add({"", symbol.name, RangeOf(symbol), ClaimOf(symbol), BucketsOf(symbol)});
  if (!program.symbols.empty()) text += symbols.Format();
  for (const std::string& guard : program.guards)
    text += fmt::format("    guard {}\n", guard);
  TextTable buffers("lllll", {"", "buffer", "role", "dtype", "shape"});
  int64_t temporaries = 0;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.role == package::Role::kTemporary) {
      ++temporaries;
      continue;
    }
    buffers.Add({"", buffer.name,
                 fmt::format("{}{}{}{}", WordOf(buffer.role, kRoles),
                             buffer.mutated ? ", mutated" : "", buffer.is_static ? ", static" : "",
                             LacksData(manifest, buffer) ? ", to be given" : ""),
                 NameOf(buffer.dtype), ShapeOf(buffer.shape)});
  }
  if (!program.buffers.empty()) text += buffers.Format();
  text += fmt::format("    and {} temporaries\n", temporaries);
  TextTable peaks("llr", {"", "bucket", "live bytes at most"});
  for (const BucketMemory& bucket : MemoryOfBuckets(manifest, program))
    peaks.Add({"", bucket.sizes,
               bucket.live_bytes_max ? FormatBytes(*bucket.live_bytes_max) : "no value"});
  return text + peaks.Format();
}

std::string FormatKernels(const Manifest& manifest) {
  TextTable table("lllllrl", {"kernel", "arch", "format", "symbol", "block", "shared", "variant"});
  for (const package::Kernel& kernel : manifest.kernels)
    for (const package::Target& target : kernel.targets) {
      const package::Module& module = manifest.modules[static_cast<size_t>(target.module)];
      table.Add({kernel.name, module.arch, WordOf(module.format, kFormats), target.symbol,
                 fmt::format("{}", fmt::join(target.block, " x ")),
                 FormatBytes(target.shared_bytes), target.variant});
    }
  return "\n" + table.Format();
}

Json ToJson(const Manifest& manifest, const Program& program) {
  Json symbols = Json::array();
  for (const Symbol& symbol : program.symbols) {
    symbols.push_back({{"name", symbol.name},
                       {"min", symbol.min},
                       {"max", symbol.max == INT64_MAX ? Json(nullptr) : Json(symbol.max)},
                       {"multiple_of", symbol.multiple_of},
                       {"claim", ClaimOf(symbol)}});
  }
  Json buckets = Json::array();
  for (const BucketMemory& bucket : MemoryOfBuckets(manifest, program))
    buckets.push_back(
        {{"sizes", bucket.sizes},
         {"live_bytes_max", bucket.live_bytes_max ? Json(*bucket.live_bytes_max) : Json(nullptr)}});
  Json buffers = Json::array();
  for (const Buffer& buffer : program.buffers)
    buffers.push_back({{"name", buffer.name},
                       {"role", WordOf(buffer.role, kRoles)},
                       {"to_be_given", LacksData(manifest, buffer)},
                       {"dtype", NameOf(buffer.dtype)},
                       {"shape", ShapeOf(buffer.shape)}});
  return {{"name", program.name}, {"symbols", symbols}, {"guards", program.guards},
          {"buffers", buffers},   {"buckets", buckets}, {"steps", program.steps.size()}};
}

Json ToJson(const package::Package& opened) {
  const Manifest& manifest = opened.manifest();
  Json kernels = Json::array();
  for (const package::Kernel& kernel : manifest.kernels) {
    Json targets = Json::array();
    for (const package::Target& target : kernel.targets) {
      const package::Module& module = manifest.modules[static_cast<size_t>(target.module)];
      targets.push_back({{"arch", module.arch},
                         {"format", WordOf(module.format, kFormats)},
                         {"symbol", target.symbol},
                         {"block", target.block},
                         {"shared_bytes", target.shared_bytes},
                         {"variant", target.variant}});
    }
    kernels.push_back(
        {{"name", kernel.name}, {"parameters", kernel.parameter_bytes}, {"targets", targets}});
  }
  Json programs = Json::array();
  for (const Program& program : manifest.programs)
    programs.push_back(ToJson(manifest, program));
  Json files = Json::array();
  for (const package::File& file : manifest.files)
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  return {{"package", opened.path()},
          {"producer", {manifest.producer_name, manifest.producer_version}},
          {"sha256", manifest.sha256},
          {"entry", manifest.programs[static_cast<size_t>(manifest.entry)].name},
          {"programs", programs},
          {"kernels", kernels},
          {"files", files}};
}

std::string Format(const package::Package& opened) {
  const Manifest& manifest = opened.manifest();
  std::string text = fmt::format("package {}\n  by {} {}\n  sha256 {}\n  entry {}\n", opened.path(),
                                 manifest.producer_name, manifest.producer_version, manifest.sha256,
                                 manifest.programs[static_cast<size_t>(manifest.entry)].name);
  for (const Program& program : manifest.programs)
    text += FormatProgram(manifest, program);
  if (!manifest.kernels.empty()) text += FormatKernels(manifest);
  TextTable files("lr", {"file", "bytes"});
  for (const package::File& file : manifest.files)
    files.Add({file.name, FormatBytes(file.bytes)});
  return text + (manifest.files.empty() ? "" : "\n" + files.Format());
}

}  // namespace

ExitCode PackageInspect(const PackageOptions& options, const Console& console) {
  const absl::StatusOr<package::Package> opened = OpenSigned(options.path, options.trusted_keys);
  if (!opened.ok()) {
    Print(console.err, "coppice package inspect: {}\n", MessageOf(opened.status()));
    return kExitUsage;
  }
  const std::string text =
      options.json ? ToJson(*opened).dump(2, ' ', false, Json::error_handler_t::replace) + "\n"
                   : Format(*opened);
  Print(console.out, "{}", text);
  return kExitOk;
}

}  // namespace coppice
