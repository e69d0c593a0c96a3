// Compares what the manifest says of a target with what the image does.

#include "runtime/package/lint/images.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "coppice/base/status.h"
#include "coppice/base/units.h"
#include "coppice/runtime/package_target.h"

#include "runtime/package/lint/image_facts.h"
#include "runtime/package/lint/limits.h"

namespace coppice::package {
namespace {

using Three = std::array<uint32_t, 3>;

std::string TextOf(const Three& three) {
  return fmt::format("[{}, {}, {}]", three[0], three[1], three[2]);
}

int64_t ProductOf(const Three& three) {
  int64_t product = int64_t{three[0]} * three[1];
  return __builtin_mul_overflow(product, int64_t{three[2]}, &product) ? INT64_MAX : product;
}

// One target, and what is known of it.
struct LintedTarget {
  const Kernel& kernel;
  const Target& target;
  const File& file;
  Architecture architecture;
  const KernelFacts& facts;
  Place place;
  Report& report;

  void Error(const char* rule,
             const Place& at,
             std::string value,
             std::string what,
             std::string advice) const {
    report.Add(Severity::kError, rule, at, std::move(value), std::move(what), std::move(advice));
  }
};

void LintParameters(const LintedTarget& linted) {
  const Place at = Place() / "kernels" / linted.kernel.name / "parameters";
  const std::vector<int32_t>& said = linted.kernel.parameter_bytes;
  const std::vector<int32_t>& found = linted.facts.parameter_bytes;
  if (said.size() != found.size()) {
    linted.Error("parameter-count", at, std::to_string(said.size()),
                 fmt::format("{} of {} has {} parameters", linted.target.symbol, linted.file.name,
                             found.size()),
                 "list the size in bytes of every parameter that the image declares, including "
                 "trailing ones");
    return;
  }
  for (size_t i = 0; i < said.size(); ++i)
    if (said[i] != found[i])
      linted.Error("parameter-bytes", at / i, std::to_string(said[i]),
                   fmt::format("{} of {} has {} bytes there", linted.target.symbol,
                               linted.file.name, found[i]),
                   "write the size that the image declares");
}

void LintBlock(const LintedTarget& linted) {
  const Three& block = linted.target.block;
  const KernelFacts& facts = linted.facts;
  const Place at = linted.place / "block";
  const int64_t threads = ProductOf(block);
  for (size_t axis = 0; axis < 3; ++axis)
    if (block[axis] < 1 || block[axis] > kBlockMax[axis])
      linted.Error("block-limit", at / axis, std::to_string(block[axis]),
                   fmt::format("this axis takes 1 to {} threads", kBlockMax[axis]),
                   "choose a block size that devices support");
  if (facts.required_threads != Three{} && facts.required_threads != block)
    linted.Error("block-required", at, TextOf(block),
                 fmt::format("{} was compiled for a block of {} only", linted.target.symbol,
                             TextOf(facts.required_threads)),
                 "write the block that the kernel was compiled for");
  if (facts.max_threads > 0 && threads > facts.max_threads)
    linted.Error("block-bounds", at, TextOf(block),
                 fmt::format("{} threads, but {} was compiled for at most {}", threads,
                             linted.target.symbol, facts.max_threads),
                 "shrink the block, or compile the kernel with wider launch bounds");
  // Registers are given out to warps, 256 at a time.
  const int64_t warps = CeilDivide(threads, 32);
  const int64_t registers = warps * AlignUp(int64_t{facts.registers} * 32, 256);
  if (registers > kBlockRegistersMax)
    linted.Error(
        "block-registers", at, TextOf(block),
        fmt::format("the block needs {} registers, {} per thread, but a block has at most {}",
                    registers, facts.registers, kBlockRegistersMax),
        "shrink the block, or compile the kernel for fewer registers");
}

void LintShared(const LintedTarget& linted) {
  const int64_t most = SharedBytesMax(linted.architecture.capability);
  const int64_t bytes = linted.facts.shared_bytes + linted.target.shared_bytes;
  if (most > 0 && bytes > most)
    linted.Error(
        "shared-limit", linted.place / "shared_bytes", std::to_string(linted.target.shared_bytes),
        fmt::format("with {} static bytes the block needs {}, but on {} a block has at most {}",
                    linted.facts.shared_bytes, bytes, NameOf(linted.architecture), most),
        "compile the kernel for smaller tiles or fewer stages");
}

void LintCluster(const LintedTarget& linted) {
  const Three& cluster = linted.target.cluster;
  const int64_t blocks = ProductOf(cluster);
  const Place at = linted.place / "cluster";
  const bool required = ProductOf(linted.facts.cluster) > 1;
  if (required && linted.facts.cluster != cluster)
    linted.Error("cluster-required", at, TextOf(cluster),
                 fmt::format("{} was compiled for clusters of {}", linted.target.symbol,
                             TextOf(linted.facts.cluster)),
                 "write the cluster that the kernel was compiled for");
  if (blocks > kClusterBlocksPortable)
    linted.report.Add(Severity::kWarning, "cluster-portable", at, TextOf(cluster),
                      fmt::format("{} blocks, but only some devices support more than {}", blocks,
                                  kClusterBlocksPortable),
                      "use at most 8 blocks, or add a variant that does");
  if (blocks > 1 && linted.architecture.capability < kClusterCapability)
    linted.Error("cluster-architecture", at, TextOf(cluster),
                 fmt::format("{} has no clusters", NameOf(linted.architecture)),
                 "leave the cluster out, or compile for sm_90 or later");
  if (linted.target.programmatic && linted.architecture.capability < kProgrammaticCapability)
    linted.Error("programmatic-architecture", linted.place / "programmatic", "true",
                 fmt::format("{} has no programmatic launches", NameOf(linted.architecture)),
                 "leave \"programmatic\" out of this target");
}

void LintScratch(const LintedTarget& linted) {
  for (size_t i = 0; i < linted.target.scratch.size(); ++i) {
    const Scratch& scratch = linted.target.scratch[i];
    if (scratch.bytes_per_block % std::max<int64_t>(scratch.align, 1) != 0)
      linted.Error("scratch-align", linted.place / "scratch" / i / "bytes_per_block",
                   std::to_string(scratch.bytes_per_block),
                   fmt::format("not a multiple of its align {}, so the scratch of all blocks but "
                               "the first is not aligned",
                               scratch.align),
                   "round bytes_per_block up to align");
  }
}

// The image of each module, or nothing where it cannot be read, which is reported.
std::vector<std::optional<ImageFacts>> ReadAll(const Manifest& manifest,
                                               const FileReader& read,
                                               Report& report) {
  std::vector<std::optional<ImageFacts>> images;
  for (const Module& module : manifest.modules) {
    const Place place = Place() / "modules" / module.name;
    const File& file = manifest.files[static_cast<size_t>(module.file)];
    images.emplace_back();
    const auto architecture = ParseArchitecture(module.arch);
    if (!architecture) {
      report.Error("module-arch", place / "arch", module.arch, "this is not an architecture",
                   "write an architecture such as sm_90a");
      continue;
    }
    const auto bytes = read(file.name);
    if (!bytes.ok()) {
      report.Add(Severity::kError, "file-unreadable", place / "file", file.name,
                 MessageOf(bytes.status()), "make the package again", file.name);
      continue;
    }
    auto facts = ReadImage(*bytes, module, *architecture);
    if (!facts.ok())
      report.Add(Severity::kError, "module-image", place, file.name, MessageOf(facts.status()),
                 "compile the image again, or correct the module", file.name);
    else if (!facts->readable)
      report.Add(Severity::kNote, "module-compressed", place, file.name,
                 "its kernels are compressed, so the manifest cannot be checked against them",
                 "compile with nvcc --no-compress", file.name);
    else
      images.back() = *std::move(facts);
  }
  return images;
}

void LintTarget(const LintedTarget& linted) {
  LintParameters(linted);
  LintBlock(linted);
  LintShared(linted);
  LintCluster(linted);
  LintScratch(linted);
}

// Two targets that nothing tells apart: the second is never taken.
void LintChoices(const Manifest& manifest,
                 const Kernel& kernel,
                 const Place& place,
                 Report& report) {
  std::set<std::tuple<std::string, std::string, ImageFormat>> seen;
  for (size_t i = 0; i < kernel.targets.size(); ++i) {
    const Target& target = kernel.targets[i];
    const Module& module = manifest.modules[static_cast<size_t>(target.module)];
    if (!seen.emplace(target.variant, module.arch, module.format).second)
      report.Add(Severity::kWarning, "target-twice", place / "targets" / i,
                 fmt::format("{} '{}'", module.arch, target.variant),
                 "an earlier target has the same architecture, format and variant, so this target "
                 "is never chosen",
                 "name another variant, or leave this target out");
  }
}

}  // namespace

void LintImages(const Manifest& manifest, const FileReader& read, Report& report) {
  const std::vector<std::optional<ImageFacts>> images = ReadAll(manifest, read, report);
  for (const Kernel& kernel : manifest.kernels) {
    const Place place = Place() / "kernels" / kernel.name;
    LintChoices(manifest, kernel, place, report);
    for (size_t i = 0; i < kernel.targets.size(); ++i) {
      const Target& target = kernel.targets[i];
      const Module& module = manifest.modules[static_cast<size_t>(target.module)];
      const File& file = manifest.files[static_cast<size_t>(module.file)];
      const std::optional<ImageFacts>& image = images[static_cast<size_t>(target.module)];
      if (!image) continue;
      const Place at = place / "targets" / i;
      const auto found = image->kernels.find(target.symbol);
      if (found == image->kernels.end()) {
        std::string names;
        for (const auto& [name, facts] : image->kernels)
          names += (names.empty() ? "" : ", ") + name;
        report.Error(
            "symbol-missing", at / "symbol", target.symbol,
            fmt::format("{} has no kernel of this name; it has {}", file.name,
                        names.empty() ? "none" : names),
            "write the name exactly as the image has it, in mangled form if it is mangled");
        continue;
      }
      LintTarget(
          {kernel, target, file, *ParseArchitecture(module.arch), found->second, at, report});
    }
  }
}

}  // namespace coppice::package
