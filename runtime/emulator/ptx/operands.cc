// Instructions and their operands.

#include <iterator>
#include <utility>

#include "runtime/emulator/ptx/body.h"

namespace coppice::ptx {
namespace {

constexpr int kOperandDepthMax = 4;  // A vector in an address in a list is 3.

bool IsComponent(std::string_view text) {
  return text.size() == 2 && std::string_view("xyzwrgba").find(text[1]) != std::string_view::npos;
}

// x, y, z, w of a vector may be called r, g, b, a.
char ComponentOf(std::string_view text) {
  const size_t color = std::string_view("rgba").find(text[1]);
  return color == std::string_view::npos ? text[1] : "xyzw"[color];
}

}  // namespace

bool BodyParser::ParseInstruction(std::string_view opcode, int line) {
  Instruction& instruction = function_.body.emplace_back();
  instruction.opcode = opcode;
  instruction.guard = std::exchange(guard_, {});
  instruction.guard_negated = std::exchange(guard_negated_, false);
  instruction.line = line;
  instruction.source = source_;
  operands_.clear();
  if (!cursor_.Accept(';') && !ParseSequence(';', 0, &operands_)) return false;
  instruction.operands.assign(std::make_move_iterator(operands_.begin()),
                              std::make_move_iterator(operands_.end()));
  return true;
}

// Operands up to the mark that ends them.
bool BodyParser::ParseSequence(char close, int depth, std::vector<Operand>* elements) {
  do {
    Operand operand;
    if (!ParseOperand(depth, &operand)) return false;
    elements->push_back(std::move(operand));
  } while (cursor_.Accept(','));
  return cursor_.Expect(close);
}

bool BodyParser::ParseOperand(int depth, Operand* operand) {
  if (depth == kOperandDepthMax) return cursor_.Refuse("operands are nested too deeply");
  if (cursor_.At(Token::Kind::kWord)) return ParseNamed(depth, operand);
  if (cursor_.Accept('[')) return ParseAddress(depth, operand);
  if (cursor_.Accept('{')) {
    operand->kind = Operand::Kind::kVector;
    return ParseSequence('}', depth + 1, &operand->elements);
  }
  if (cursor_.Accept('(')) {
    operand->kind = Operand::Kind::kList;
    return cursor_.Accept(')') || ParseSequence(')', depth + 1, &operand->elements);
  }
  if (cursor_.Accept('!')) {
    operand->negated = true;
    if (!cursor_.At(Token::Kind::kWord)) return cursor_.Fail("a predicate");
    return ParseNamed(depth, operand);
  }
  return ParseNumberOperand(operand);
}

// "12", "-1.5", and "-%r1".
bool BodyParser::ParseNumberOperand(Operand* operand) {
  if (!cursor_.At(Token::Kind::kNumber) && !cursor_.At('-') && !cursor_.At('+'))
    return cursor_.Fail("an operand");
  const bool negative = cursor_.Accept('-');
  if (negative && cursor_.At(Token::Kind::kWord)) {
    operand->negated = true;
    return ParseNamed(kOperandDepthMax - 1, operand);
  }
  Number number;
  if (!cursor_.ExpectNumber(&number, negative)) return false;
  operand->bits = number.bits;
  switch (number.kind) {
    case Number::Kind::kInteger:
      operand->kind = Operand::Kind::kInteger;
      break;
    case Number::Kind::kFloat32:
      operand->kind = Operand::Kind::kFloat32;
      break;
    case Number::Kind::kFloat64:
      operand->kind = Operand::Kind::kFloat64;
      break;
  }
  return true;
}

// "%r1", "%tid.x", "variable+8", "p|q", "_".
bool BodyParser::ParseNamed(int depth, Operand* operand) {
  const std::string_view text = cursor_.Take();
  if (text == "_") {
    operand->kind = Operand::Kind::kSink;
  } else {
    operand->name = Resolve(text);
    if (cursor_.At(Token::Kind::kDirective) && IsComponent(cursor_.token().text))
      operand->component = ComponentOf(cursor_.Take());
    Number offset;
    if (cursor_.At('+') || cursor_.At('-')) {
      if (!cursor_.ExpectNumber(&offset)) return false;
      operand->bits = offset.bits;
    }
  }
  if (!cursor_.Accept('|')) return true;
  Operand first = std::move(*operand);
  Operand second;
  if (!ParseOperand(depth + 1, &second)) return false;
  *operand = Operand{.kind = Operand::Kind::kPair};
  operand->elements.push_back(std::move(first));
  operand->elements.push_back(std::move(second));
  return true;
}

// "[%rd1+16]", "[variable]", "[64]", and "[%rd1, {%r1, %r2}]" of textures and tensors.
bool BodyParser::ParseAddress(int depth, Operand* operand) {
  operand->kind = Operand::Kind::kAddress;
  if (cursor_.At(Token::Kind::kWord)) operand->name = Resolve(cursor_.Take());
  if (operand->name.empty() || cursor_.At('+') || cursor_.At('-')) {
    Number offset;
    if (!cursor_.ExpectNumber(&offset)) return false;
    if (offset.kind != Number::Kind::kInteger)
      return cursor_.Refuse("an address cannot be a floating-point number");
    operand->bits = offset.bits;
  }
  if (cursor_.Accept(',')) return ParseSequence(']', depth + 1, &operand->elements);
  return cursor_.Expect(']');
}

}  // namespace coppice::ptx
