// Module scope: directives, variables, functions.

#include "runtime/emulator/ptx/parser.h"

#include <limits>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fmt/format.h"

#include "runtime/emulator/ptx/body.h"
#include "runtime/emulator/ptx/cursor.h"
#include "runtime/emulator/ptx/declarations.h"
#include "runtime/emulator/ptx/validator.h"

namespace coppice::ptx {
namespace {

constexpr int64_t kVersionMax = 1000;
constexpr size_t kLaunchDimensions = 3;

class ModuleParser {
 public:
  explicit ModuleParser(Module& module) : module_(module), cursor_(*module.text) {}

  absl::Status Parse() {
    if (ParseHeader()) {
      while (!cursor_.AtEnd() && ParseStatement()) {
      }
    }
    return cursor_.status();
  }

 private:
  // ".version 9.0" is no float: 8.10 is later than 8.9.
  bool ParseHeader() {
    if (!cursor_.Accept(".version")) return cursor_.Fail(".version");
    const std::string_view text = cursor_.token().text;
    const size_t dot = text.find('.');
    if (!cursor_.At(Token::Kind::kNumber) || dot == std::string_view::npos)
      return cursor_.Fail("a version such as 9.0");
    const auto major = ParseNumber(text.substr(0, dot));
    const auto minor = ParseNumber(text.substr(dot + 1));
    for (const auto& part : {major, minor})
      if (!part.has_value() || part->kind != Number::Kind::kInteger || part->bits > kVersionMax)
        return cursor_.Fail("a version such as 9.0");
    module_.version_major = static_cast<int>(major->bits);
    module_.version_minor = static_cast<int>(minor->bits);
    cursor_.Take();
    return true;
  }

  bool ParseStatement() {
    if (cursor_.Accept(".target")) return ParseTarget();
    if (cursor_.Accept(".address_size")) return ParseAddressSize();
    if (cursor_.Accept(".file")) return ParseFile();
    if (cursor_.Accept(".section")) return SkipSection();
    if (cursor_.Accept(".alias")) return ParseAlias();
    if (cursor_.Accept(".pragma") || cursor_.Accept(".loc")) return SkipValues();
    if (cursor_.Accept(';')) return true;

    Linkage linkage = Linkage::kStatic;
    while (cursor_.At(".extern") || cursor_.At(".visible") || cursor_.At(".weak") ||
           cursor_.At(".common"))
      linkage = cursor_.Take() == ".extern" ? Linkage::kExtern : Linkage::kVisible;
    if (cursor_.At(".entry") || cursor_.At(".func")) return ParseFunction(linkage);
    if (SpaceHere(cursor_).has_value()) return ParseModuleVariables(linkage);
    return cursor_.Fail("a directive of module scope");
  }

  bool ParseTarget() {
    if (!cursor_.ExpectName(&module_.target)) return false;
    std::string_view option;
    while (cursor_.Accept(','))
      if (!cursor_.ExpectName(&option)) return false;
    return true;
  }

  bool ParseAddressSize() {
    int64_t bits = 0;
    if (!cursor_.ExpectInteger(0, 64, &bits)) return false;
    if (bits != 64) return cursor_.Refuse("only 64-bit addresses are supported");
    module_.address_bits = static_cast<int>(bits);
    return true;
  }

  // '.file 1 "a.cu", 1700000000, 4096'
  bool ParseFile() {
    int64_t number = 0;
    if (!cursor_.ExpectInteger(0, std::numeric_limits<int>::max(), &number)) return false;
    if (!cursor_.At(Token::Kind::kString)) return cursor_.Fail("a file's name");
    module_.files[static_cast<int>(number)] = cursor_.Take();
    while (cursor_.Accept(',')) {
      int64_t unused = 0;
      if (!cursor_.ExpectInteger(0, std::numeric_limits<int64_t>::max(), &unused)) return false;
    }
    return true;
  }

  // ".section .debug_str { ... }"
  bool SkipSection() {
    if (!cursor_.At(Token::Kind::kDirective) && !cursor_.At(Token::Kind::kWord))
      return cursor_.Fail("a section's name");
    cursor_.Take();
    return cursor_.SkipEnclosed('{', '}');
  }

  // What stands by itself: numbers and strings, and perhaps a semicolon.
  bool SkipValues() {
    while (cursor_.At(Token::Kind::kNumber) || cursor_.At(Token::Kind::kString) || cursor_.At(','))
      cursor_.Take();
    cursor_.Accept(';');
    return true;
  }

  // ".alias name, function;"
  bool ParseAlias() {
    Function alias;
    alias.line = cursor_.line();
    if (!cursor_.ExpectName(&alias.name) || !cursor_.Expect(',') ||
        !cursor_.ExpectName(&alias.alias_of) || !cursor_.Expect(';'))
      return false;
    return Add(std::move(alias));
  }

  bool ParseModuleVariables(Linkage linkage) {
    std::vector<Variable> variables;
    if (!ParseVariables(cursor_, linkage, &variables)) return false;
    for (Variable& variable : variables)
      if (!Add(std::move(variable))) return false;
    return true;
  }

  bool Add(Variable variable) {
    const auto [known, added] = variables_.try_emplace(variable.name, module_.variables.size());
    if (added) {
      module_.variables.push_back(std::move(variable));
      return true;
    }
    Variable& earlier = module_.variables[known->second];
    if (!earlier.external() && !variable.external())
      return cursor_.Refuse(variable.line, fmt::format("'{}' is declared twice", variable.name));
    if (earlier.type != variable.type ||
        (earlier.external() && variable.linkage == Linkage::kStatic))
      return RefuseOther(variable.line, variable.name, earlier.line);
    if (earlier.external()) earlier = std::move(variable);
    return true;
  }

  bool RefuseOther(int line, std::string_view name, int earlier) {
    return cursor_.Refuse(line, fmt::format("line {} declares '{}' differently", earlier, name));
  }

  bool ParseFunction(Linkage linkage) {
    Function function;
    function.linkage = linkage;
    function.line = cursor_.line();
    function.entry = cursor_.Take() == ".entry";
    if (!SkipAttributes(cursor_) || !ParsePrototype(cursor_, &function.type, &function.name) ||
        !ParseDirectives(function))
      return false;
    function.external = !cursor_.At('{');
    if (function.external ? !cursor_.Expect(';') : !BodyParser(cursor_, module_, function).Parse())
      return false;
    return Add(std::move(function));
  }

  // What stands between the type of a function and its body.
  bool ParseDirectives(Function& function) {
    while (cursor_.At(Token::Kind::kDirective)) {
      const bool required = cursor_.At(".reqntid");
      if (required || cursor_.At(".maxntid")) {
        cursor_.Take();
        if (!ParseDimensions(required ? function.required_threads : function.max_threads))
          return false;
      } else if (cursor_.Accept(".reqnctapercluster")) {
        if (!ParseDimensions(function.required_cluster)) return false;
      } else if (cursor_.Accept(".pragma")) {
        SkipValues();
      } else if (!SkipAttribute(cursor_)) {
        return false;
      }
    }
    return true;
  }

  bool ParseDimensions(std::vector<int>& threads) {
    threads.clear();
    do {
      int64_t count = 0;
      if (!cursor_.ExpectInteger(1, std::numeric_limits<int>::max(), &count)) return false;
      if (threads.size() == kLaunchDimensions) return cursor_.Fail("at most three dimensions");
      threads.push_back(static_cast<int>(count));
    } while (cursor_.Accept(','));
    return true;
  }

  // A definition takes the place of its declarations.
  bool Add(Function function) {
    const auto [known, added] = functions_.try_emplace(function.name, module_.functions.size());
    if (added) {
      module_.functions.push_back(std::move(function));
      return true;
    }
    Function& earlier = module_.functions[known->second];
    if (earlier.external && !function.alias_of.empty()) {
      earlier = std::move(function);
      return true;
    }
    if (!earlier.external)
      return cursor_.Refuse(function.line, fmt::format("'{}' is declared twice", function.name));
    const bool agrees = function.external || function.linkage == Linkage::kStatic ||
                        earlier.linkage == Linkage::kVisible;
    if (!agrees || (earlier.linkage == Linkage::kExtern && function.linkage != Linkage::kExtern) ||
        function.entry != earlier.entry || !AreSame(function.type, earlier.type))
      return RefuseOther(function.line, function.name, earlier.line);
    if (!function.external) earlier = std::move(function);
    return true;
  }

  Module& module_;
  Cursor cursor_;
  std::unordered_map<std::string_view, size_t> variables_;
  std::unordered_map<std::string_view, size_t> functions_;
};

}  // namespace

absl::StatusOr<Module> Parse(std::string text) {
  Module module;
  module.text = std::make_unique<const std::string>(std::move(text));
  const absl::Status status = ModuleParser(module).Parse();
  if (!status.ok()) return status;
  return module;
}

}  // namespace coppice::ptx
