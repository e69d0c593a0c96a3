// Reads the body of a function: statements, operands, scopes.
//
// Names of inner scopes are made distinct, so that a function has one flat set of them: "tmp" of
// the third scope becomes "tmp#3", which no text can say. Variables are declared ahead of their
// uses; labels may follow theirs, so a scope's jumps are settled when it closes, inner ones first.
//
// Threads: one thread at a time.

#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/emulator/ptx/cursor.h"
#include "runtime/emulator/ptx/declared_names.h"
#include "runtime/emulator/ptx/syntax.h"

namespace coppice::ptx {

class BodyParser {
 public:
  // All outlive the parser.
  BodyParser(Cursor& cursor, Module& module, Function& function)
      : cursor_(cursor), module_(module), function_(function) {}

  // From the brace that opens to the one that closes.
  bool Parse();

 private:
  using Names = std::unordered_map<std::string_view, std::string_view>;

  struct InnerScope {
    int number = 0;
    size_t first_instruction = 0;
    size_t first_list = 0;                  // Of label_lists_.
    DeclaredNames<std::string_view> names;  // Of the text, with the distinct ones.
    Names labels;
  };

  bool ParseStatement();
  bool ParseWordStatement();
  bool ParseDirective();
  bool ParseLocation();
  bool ParseDeclaration();
  bool ParseLabelled(std::string_view label);
  bool ParseTargets(std::string_view label);
  bool ParseInstruction(std::string_view opcode, int line);

  bool ParseOperand(int depth, Operand* operand);
  bool ParseSequence(char close, int depth, std::vector<Operand>* elements);
  bool ParseAddress(int depth, Operand* operand);
  bool ParseNumberOperand(Operand* operand);
  bool ParseNamed(int depth, Operand* operand);

  bool OpenScope();
  void CloseScope();
  std::string_view Intern(std::string_view name, int scope, std::string_view suffix = "");
  // What a name of a variable means here.
  std::string_view Resolve(std::string_view name);
  static void ResolveLabels(const Names& labels, std::vector<Operand>& operands);

  Cursor& cursor_;
  Module& module_;
  Function& function_;
  std::vector<InnerScope> scopes_;  // But the outermost, whose names stay.
  std::vector<std::vector<std::string_view>*> label_lists_;
  std::vector<Operand> operands_;  // Of the instruction that is read: one allocation for each.
  int scopes_opened_ = 0;
  Location source_;
  std::string_view guard_;
  bool guard_negated_ = false;
};

}  // namespace coppice::ptx
