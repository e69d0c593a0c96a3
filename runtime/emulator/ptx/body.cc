// Statements of a body, and the names of its scopes.

#include "runtime/emulator/ptx/body.h"

#include <iterator>
#include <limits>
#include <utility>

#include "fmt/format.h"

#include "runtime/emulator/ptx/declarations.h"

namespace coppice::ptx {
namespace {

constexpr size_t kScopesMax = 32;  // Inside one another.
constexpr int kLineMax = std::numeric_limits<int>::max();

}  // namespace

bool BodyParser::Parse() {
  if (!cursor_.Expect('{')) return false;
  while (!cursor_.At('}') || !scopes_.empty()) {
    if (!ParseStatement()) return false;
  }
  // A label at the end is where a return would be.
  return cursor_.Expect('}');
}

bool BodyParser::ParseStatement() {
  if (cursor_.At(Token::Kind::kWord)) return ParseWordStatement();
  if (cursor_.At(Token::Kind::kDirective)) return ParseDirective();
  if (cursor_.Accept(';')) return true;
  if (cursor_.At('{')) return OpenScope();
  if (cursor_.Accept('}')) {
    CloseScope();
    return true;
  }
  if (!cursor_.Accept('@')) return cursor_.Fail("an instruction");
  guard_negated_ = cursor_.Accept('!');
  if (!cursor_.ExpectName(&guard_)) return false;
  guard_ = Resolve(guard_);
  if (!cursor_.At(Token::Kind::kWord)) return cursor_.Fail("an instruction");
  const int line = cursor_.line();
  return ParseInstruction(cursor_.TakeOpcode(), line);
}

// An instruction, or a label and what follows it.
bool BodyParser::ParseWordStatement() {
  const int line = cursor_.line();
  const std::string_view word = cursor_.TakeOpcode();
  if (!cursor_.Accept(':')) return ParseInstruction(word, line);
  std::string_view label = word;
  if (!scopes_.empty()) {
    const auto [known, added] = scopes_.back().labels.try_emplace(word);
    if (!added) return cursor_.Refuse(line, fmt::format("label '{}' is declared twice", word));
    label = known->second = Intern(word, scopes_.back().number);
  }
  return ParseLabelled(label);
}

bool BodyParser::ParseLabelled(std::string_view label) {
  if (cursor_.Accept(".callprototype")) {
    std::string_view unused;
    Prototype prototype;
    if (!ParsePrototype(cursor_, &prototype, &unused) || !SkipAttributes(cursor_)) return false;
    if (!function_.prototypes.emplace(label, std::move(prototype)).second)
      return cursor_.Refuse(fmt::format("label '{}' is declared twice", label));
    return cursor_.Expect(';');
  }
  if (cursor_.Accept(".branchtargets") || cursor_.Accept(".calltargets"))
    return ParseTargets(label);
  const auto index = static_cast<int>(function_.body.size());
  if (function_.labels.emplace(label, index).second) return true;
  return cursor_.Refuse(fmt::format("label '{}' is declared twice", label));
}

bool BodyParser::ParseTargets(std::string_view label) {
  const auto [known, added] = function_.target_lists.try_emplace(label);
  if (!added) return cursor_.Refuse(fmt::format("label '{}' is declared twice", label));
  std::vector<std::string_view>& targets = known->second;
  label_lists_.push_back(&targets);
  do {
    if (!cursor_.ExpectName(&targets.emplace_back())) return false;
  } while (cursor_.Accept(','));
  return cursor_.Expect(';');
}

bool BodyParser::ParseDirective() {
  if (cursor_.Accept(".loc")) return ParseLocation();
  if (SpaceHere(cursor_).has_value()) return ParseDeclaration();
  if (cursor_.Accept(".pragma")) {
    while (!cursor_.At(';') && !cursor_.AtEnd())
      cursor_.Take();
    return cursor_.Expect(';');
  }
  return cursor_.Fail("a declaration or an instruction");
}

// ".loc 1 279 0, function_name $L__info_string0+8, inlined_at 1 280 3": where the code is written;
// what it was inlined into is not kept.
bool BodyParser::ParseLocation() {
  int64_t file = 0;
  int64_t line = 0;
  int64_t column = 0;
  if (!cursor_.ExpectInteger(0, kLineMax, &file) || !cursor_.ExpectInteger(0, kLineMax, &line) ||
      !cursor_.ExpectInteger(0, kLineMax, &column))
    return false;
  source_ = {static_cast<int>(file), static_cast<int>(line)};
  while (cursor_.Accept(',')) {
    if (cursor_.Accept("function_name")) {
      std::string_view name;
      Number offset;
      if (!cursor_.ExpectName(&name)) return false;
      if (cursor_.At('+') && !cursor_.ExpectNumber(&offset)) return false;
    } else if (cursor_.Accept("inlined_at")) {
      for (int i = 0; i < 3; ++i)
        if (!cursor_.ExpectInteger(0, kLineMax, &file)) return false;
    } else {
      return cursor_.Fail("function_name or inlined_at");
    }
  }
  return true;
}

bool BodyParser::ParseDeclaration() {
  const size_t first = function_.variables.size();
  if (!ParseVariables(cursor_, Linkage::kStatic, &function_.variables)) return false;
  if (scopes_.empty()) return true;
  InnerScope& scope = scopes_.back();
  for (size_t i = first; i < function_.variables.size(); ++i) {
    Variable& variable = function_.variables[i];
    // The name of a range ends without a digit, so that its registers' numbers are no other's.
    const std::string_view distinct =
        Intern(variable.name, scope.number, variable.registers > 0 ? "_" : "");
    if (!scope.names.Add(variable.name, variable.registers, distinct))
      return cursor_.Refuse(variable.line, fmt::format("'{}' is declared twice", variable.name));
    variable.name = distinct;
  }
  return true;
}

bool BodyParser::OpenScope() {
  if (scopes_.size() == kScopesMax) return cursor_.Refuse("more than 32 nested scopes");
  cursor_.Take();
  InnerScope& scope = scopes_.emplace_back();
  scope.number = ++scopes_opened_;
  scope.first_instruction = function_.body.size();
  scope.first_list = label_lists_.size();
  return true;
}

void BodyParser::CloseScope() {
  const InnerScope& scope = scopes_.back();
  if (!scope.labels.empty()) {
    for (size_t i = scope.first_instruction; i < function_.body.size(); ++i)
      ResolveLabels(scope.labels, function_.body[i].operands);
    for (size_t i = scope.first_list; i < label_lists_.size(); ++i) {
      for (std::string_view& target : *label_lists_[i]) {
        const auto label = scope.labels.find(target);
        if (label != scope.labels.end()) target = label->second;
      }
    }
  }
  scopes_.pop_back();
}

// Distinct names have a #, which labels do not: nothing is settled twice.
void BodyParser::ResolveLabels(const Names& labels, std::vector<Operand>& operands) {
  for (Operand& operand : operands) {
    ResolveLabels(labels, operand.elements);
    const auto label = labels.find(operand.name);
    if (label != labels.end()) operand.name = label->second;
  }
}

std::string_view BodyParser::Intern(std::string_view name, int scope, std::string_view suffix) {
  return module_.names.emplace_back(fmt::format("{}#{}{}", name, scope, suffix));
}

std::string_view BodyParser::Resolve(std::string_view name) {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto found = scope->names.Find(name);
    if (found.value == nullptr) continue;
    if (found.number < 0) return *found.value;
    return module_.names.emplace_back(fmt::format("{}{}", *found.value, found.number));
  }
  return name;
}

}  // namespace coppice::ptx
