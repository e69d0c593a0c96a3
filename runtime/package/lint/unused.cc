// What nothing uses.

#include <algorithm>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "coppice/base/status.h"
#include "coppice/runtime/package_uses.h"

#include "runtime/package/lint/program_lint.h"

namespace coppice::package {
namespace {

void Note(Report& report,
          const char* rule,
          const Place& place,
          const std::string& name,
          const char* what) {
  report.Add(Severity::kNote, rule, place, name, what, "leave it out");
}

// Names among the values of a kernel that its steps read, by their place behind a program's names.
void ReadValues(const Manifest& manifest, std::vector<std::set<size_t>>& values) {
  for (const Program& program : manifest.programs) {
    const size_t names = program.symbols.size() + program.scalars.size();
    for (const Step& step : program.steps) {
      const auto* const kernel = std::get_if<KernelStep>(&step.action);
      if (kernel == nullptr) continue;
      Program alone;
      alone.steps.push_back(step);
      alone.steps.back().condition.reset();
      ForEachAmount(alone, [&](const Amount& amount) {
        if (!amount.expression) return;
        for (const size_t read : amount.expression->Reads())
          if (read >= names) values[static_cast<size_t>(kernel->kernel)].insert(read - names);
      });
    }
  }
}

void LintKernels(const Manifest& manifest, Report& report) {
  std::vector<std::set<int>> scratches(manifest.kernels.size());
  std::vector<std::set<size_t>> values(manifest.kernels.size());
  std::set<int> kernels;
  std::set<int> modules;
  for (const Program& program : manifest.programs)
    for (const Step& step : program.steps)
      if (const auto* const kernel = std::get_if<KernelStep>(&step.action)) {
        kernels.insert(kernel->kernel);
        const StepUses uses = UsesOf(manifest, step);
        scratches[static_cast<size_t>(kernel->kernel)].insert(uses.scratches.begin(),
                                                              uses.scratches.end());
      }
  ReadValues(manifest, values);
  for (size_t k = 0; k < manifest.kernels.size(); ++k) {
    const Kernel& kernel = manifest.kernels[k];
    const Place place = Place() / "kernels" / kernel.name;
    for (const Target& target : kernel.targets)
      modules.insert(target.module);
    if (!kernels.contains(static_cast<int>(k))) {
      Note(report, "kernel-unused", place, kernel.name, "no step runs it");
      continue;
    }
    for (size_t v = 0; v < kernel.value_names.size(); ++v)
      if (!values[k].contains(v))
        Note(report, "value-unused",
             place / "targets" / size_t{0} / "values" / kernel.value_names[v],
             kernel.value_names[v], "no grid and no argument reads it");
    for (size_t t = 0; t < kernel.targets.size(); ++t)
      for (size_t s = 0; s < kernel.targets[t].scratch.size(); ++s)
        if (!scratches[k].contains(static_cast<int>(s)) &&
            kernel.targets[t].scratch[s].bytes_per_block > 0)
          Note(report, "scratch-unused", place / "targets" / t / "scratch" / s, std::to_string(s),
               "no argument uses this scratch");
  }
  for (size_t m = 0; m < manifest.modules.size(); ++m)
    if (!modules.contains(static_cast<int>(m)))
      Note(report, "module-unused", Place() / "modules" / manifest.modules[m].name,
           manifest.modules[m].name, "no target uses this module");
}

void LintFiles(const Manifest& manifest, Report& report) {
  std::set<int> files;
  std::set<int> constants;
  for (const Module& module : manifest.modules)
    files.insert(module.file);
  for (const Constant& constant : manifest.constants)
    files.insert(constant.file);
  for (const Program& program : manifest.programs)
    for (const Buffer& buffer : program.buffers)
      if (buffer.role == Role::kConstant) constants.insert(buffer.constant);
  for (size_t i = 0; i < manifest.files.size(); ++i)
    if (!files.contains(static_cast<int>(i)))
      Note(report, "file-unused", Place() / "files" / manifest.files[i].name,
           manifest.files[i].name, "no module and no constant uses this file");
  for (size_t i = 0; i < manifest.constants.size(); ++i)
    if (!constants.contains(static_cast<int>(i)))
      Note(report, "constant-unused", Place() / "constants" / manifest.constants[i].name,
           manifest.constants[i].name, "no buffer of a program uses this constant");
}

void LintNames(const Program& program, Report& report) {
  std::set<size_t> read;
  const auto see = [&](const Amount& amount) {
    if (!amount.expression) return;
    const std::vector<size_t> reads = amount.expression->Reads();
    read.insert(reads.begin(), reads.end());
  };
  ForEachAmount(program, see);
  const std::vector<std::string> names = program.names();
  for (const std::string& guard : program.guards)
    if (auto parsed = Expression::Parse(guard, names); parsed.ok())
      see({.value = 0, .expression = *std::move(parsed)});
  const Place place = Place() / "programs" / program.name;
  for (size_t i = 0; i < program.scalars.size(); ++i) {
    const bool sizes =
        std::any_of(program.symbols.begin(), program.symbols.end(),
                    [&](const Symbol& symbol) { return symbol.scalar == static_cast<int>(i); });
    if (!program.scalars[i].parameter && !sizes && !read.contains(program.symbols.size() + i))
      Note(report, "scalar-unused", place / "scalars" / program.scalars[i].name,
           program.scalars[i].name,
           "nothing reads this scalar, but each of its values gets graphs of its own");
  }
}

void LintBuffers(const Manifest& manifest, const Program& program, Report& report) {
  std::set<int> reads;
  std::set<int> writes;
  for (const Step& step : program.steps) {
    const StepUses uses = UsesOf(manifest, step);
    reads.insert(uses.reads.begin(), uses.reads.end());
    writes.insert(uses.writes.begin(), uses.writes.end());
  }
  for (const Buffer& buffer : program.buffers)
    if (buffer.alias) reads.insert(buffer.alias->buffer);
  const Place place = Place() / "programs" / program.name / "buffers";
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& buffer = program.buffers[i];
    const bool is_read = reads.contains(static_cast<int>(i));
    const bool is_written = writes.contains(static_cast<int>(i));
    const Place at = place / buffer.name;
    if (buffer.role == Role::kTemporary && !is_read)
      Note(report, "temporary-unused", at, buffer.name,
           is_written ? "no step reads what is written to it" : "no step names it");
    if ((buffer.role == Role::kConstant || buffer.role == Role::kSeed) && !is_read)
      Note(report, "buffer-unused", at, buffer.name, "no step reads it");
    if (buffer.role == Role::kInput && !is_read && !is_written)
      Note(report, "input-unused", at, buffer.name, "no step names it");
    if (buffer.role == Role::kInput && buffer.mutated && !is_written)
      report.Add(Severity::kWarning, "mutated-unwritten", at / "mutated", "true",
                 "no step writes it", "leave \"mutated\" out, or declare the step's access");
  }
}

}  // namespace

void LintUnused(const Manifest& manifest, Report& report) {
  LintKernels(manifest, report);
  LintFiles(manifest, report);
  for (const Program& program : manifest.programs) {
    LintNames(program, report);
    LintBuffers(manifest, program, report);
  }
}

}  // namespace coppice::package
