// What is found: who, where, what.

#include "runtime/emulator/ptx/findings.h"

#include <utility>

#include "fmt/format.h"

namespace coppice::ptx {

const char* NameOf(Finding::Kind kind) {
  switch (kind) {
    case Finding::Kind::kIllegalAddress:
      return "illegal address";
    case Finding::Kind::kMisaligned:
      return "misaligned address";
    case Finding::Kind::kAssert:
      return "assertion";
    case Finding::Kind::kTrap:
      return "trap";
    case Finding::Kind::kIllegalInstruction:
      return "illegal instruction";
    case Finding::Kind::kDeadlock:
      return "deadlock";
    case Finding::Kind::kRace:
      return "race";
    case Finding::Kind::kReplicas:
      return "replicas differ";
    case Finding::Kind::kUninitialized:
      return "uninitialized memory";
  }
  return "";
}

std::string Finding::Describe() const {
  return fmt::format("{}: kernel {}, block ({}, {}, {}), thread ({}, {}, {}), PTX line {}{}{}: {}",
                     NameOf(kind), kernel, block[0], block[1], block[2], thread[0], thread[1],
                     thread[2], line, source.empty() ? "" : ", ", source, message);
}

std::string SourceOf(const Whereabouts& where) {
  const Code& code = where.code;
  const size_t pc = static_cast<size_t>(&where.instr - code.instrs.data());
  if (pc >= code.sources.size() || code.files == nullptr) return {};
  const Location& source = code.sources[pc];
  const auto file = code.files->find(source.file);
  if (file == code.files->end()) return {};
  return fmt::format("{}:{}", file->second, source.line);
}

Finding Findings::Describe(Finding::Kind kind,
                           const Whereabouts& where,
                           std::string message,
                           uint64_t address) const {
  return {.kind = kind,
          .kernel = kernel_.code->name,
          .block = where.block,
          .thread = where.thread,
          .line = where.instr.line,
          .source = SourceOf(where),
          .message = std::move(message),
          .address = address};
}

void Findings::Fault(Finding::Kind kind,
                     const Whereabouts& where,
                     std::string message,
                     uint64_t address) {
  if (!fault_.has_value()) fault_ = Describe(kind, where, std::move(message), address);
}

void Findings::Report(Finding::Kind kind,
                      const Whereabouts& where,
                      std::string message,
                      uint64_t address) {
  if (!reported_.insert({kind, &where.instr}).second) return;
  findings_.push_back(Describe(kind, where, std::move(message), address));
}

bool Findings::WasReported(Finding::Kind kind, const Instr& instr) const {
  return reported_.contains({kind, &instr});
}

void Findings::ReportDoubtful(const Whereabouts& where, std::string message, uint64_t address) {
  const Instr* const instr = &where.instr;
  if (doubtful_.contains(instr)) return;
  doubtful_.emplace(instr, Describe(Finding::Kind::kRace, where, std::move(message), address));
}

void Findings::MoveTo(Outcome& outcome) {
  for (auto& [instr, finding] : doubtful_)
    if (!WasReported(Finding::Kind::kRace, *instr)) findings_.push_back(std::move(finding));
  outcome.fault = std::move(fault_);
  outcome.findings = std::move(findings_);
}

}  // namespace coppice::ptx
