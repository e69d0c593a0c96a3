// Rules follow from the letters and the name of a form.

#include "runtime/emulator/ptx/taint_rules.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <iterator>
#include <string_view>

#include "runtime/emulator/ptx/form_table.h"
#include "runtime/emulator/ptx/forms/access.h"
#include "runtime/emulator/ptx/forms/operands.h"
#include "runtime/emulator/ptx/forms/resize.h"

namespace coppice::ptx {
namespace {

using Kind = TaintRule::Kind;

// As form.h describes them; integers have no slot. The carry flag is a small letter, whoever writes
// it.
std::vector<TaintOperand> OperandsOf(std::string_view letters,
                                     bool reads_carry,
                                     bool writes_carry) {
  std::vector<TaintOperand> operands;
  while (!letters.empty()) {
    const char letter = letters.front();
    letters.remove_prefix(1);
    int count = 0;
    for (; !letters.empty() && letters.front() >= '0' && letters.front() <= '9';
         letters.remove_prefix(1))
      count = count * 10 + (letters.front() - '0');
    const char lower = static_cast<char>(std::tolower(letter));
    if (letter == '|' || lower == 'i') continue;
    operands.insert(operands.end(), static_cast<size_t>(std::max(count, 1)),
                    {.written = letter != lower || (lower == 'k' && writes_carry),
                     .updated = lower == 'k' && writes_carry && reads_carry,
                     .bytes = BytesOfLetter(lower)});
  }
  return operands;
}

bool Mentions(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool IsOneOf(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

// Forms that name registers by their letters.
Kind KindByLetters(std::string_view name,
                   std::string_view base,
                   const std::vector<TaintOperand>& operands) {
  const bool words =
      std::ranges::all_of(operands, [](const TaintOperand& each) { return each.bytes == 4; });
  const bool writes = std::ranges::any_of(operands, &TaintOperand::written);
  if (base == "selp") return Kind::kSelect;
  if (name.starts_with("mov.clock") || name.starts_with("mov.globaltimer")) return Kind::kClock;
  if (base == "and") return Kind::kAnd;
  if (base == "or") return Kind::kOr;
  if (base == "prmt") return name == "prmt.b32" ? Kind::kPermute : Kind::kByLane;
  if (base == "shfl") return Kind::kShuffle;
  if (base == "mma") return Kind::kMatrix;
  if (IsOneOf(base, {"vote", "match", "redux", "movmatrix", "wmma", "activemask", "elect"}))
    return Kind::kWarp;
  if (IsOneOf(base, {"bar", "barrier"})) return writes ? Kind::kGap : Kind::kNothing;
  if (IsOneOf(base, {"wgmma", "cp"}))
    return Mentions(name, "wait_group") ? Kind::kNothing : Kind::kGap;
  if (base == "cvt" && operands.size() == 3 && Mentions(name, "x2.f32") && words)
    return Kind::kPack;
  if (IsOneOf(base, {"xor", "not", "mov", "lop3"}) && !Mentions(name, "lop3.and") &&
      !Mentions(name, "lop3.or"))
    return Kind::kParts;
  if (IsOneOf(base, {"mul", "mad"}) && Mentions(name, ".lo.")) return Kind::kProduct;
  if (Mentions(name, "16x2") && words && base != "cvt") return Kind::kParts;
  return Kind::kByLane;
}

// Forms that a function decodes.
Kind KindByName(std::string_view name, std::string_view base) {
  if (IsOneOf(base, {"ld", "ldu"})) return Kind::kLoad;
  if (base == "st") return Kind::kStore;
  if (IsOneOf(base, {"atom", "red"})) return Kind::kAtomic;
  if (base == "mov") return Kind::kMove;
  if (base == "cvt") return Kind::kConvert;
  if (base == "ldmatrix") return Kind::kLoadMatrices;
  if (base == "stmatrix") return Kind::kStoreMatrices;
  if (name.starts_with("cp.async.ca.") || name.starts_with("cp.async.cg.")) return Kind::kCopyAsync;
  if (Mentions(name, ".red")) return Kind::kGap;  // Of barriers.
  const bool orders = Mentions(name, "commit_group") || Mentions(name, "wait_group") ||
                      Mentions(name, "wait_all") || Mentions(name, "prefetch") ||
                      Mentions(name, "fence");
  return orders || IsOneOf(base, {"applypriority", "bar", "barrier", "bra", "brkpt", "brx", "call",
                                  "createpolicy", "discard", "exit", "griddepcontrol", "membar",
                                  "nanosleep", "pmevent", "ret", "setmaxnreg", "trap"})
             ? Kind::kNothing
             : Kind::kGap;
}

// "cvt.u16.s32": between integers, and without saturation.
bool IsIntegerCut(std::string_view name) {
  const auto is_integer = [](std::string_view type) {
    return !type.empty() && (type[0] == 'u' || type[0] == 's') && type.size() > 1 &&
           std::isdigit(static_cast<unsigned char>(type[1])) != 0;
  };
  const size_t last = name.rfind('.');
  const size_t first = name.rfind('.', last - 1);
  return name.substr(0, first) == "cvt" && is_integer(name.substr(last + 1)) &&
         is_integer(name.substr(first + 1, last - first - 1));
}

int NumberBehind(std::string_view name, std::string_view mark) {
  size_t at = name.find(mark);
  if (at == std::string_view::npos) return 0;
  int number = 0;
  for (at += mark.size(); at < name.size() && name[at] >= '0' && name[at] <= '9'; ++at)
    number = number * 10 + (name[at] - '0');
  return number;
}

// Of the type that the name ends with.
int ElementBytes(std::string_view name) {
  const std::string_view type = name.substr(name.rfind('.') + 1);
  const bool packed = type.ends_with("x2");
  const std::string_view digits = packed ? type.substr(0, type.size() - 2) : type;
  const size_t first = digits.find_first_of("0123456789");
  return (packed ? 2 : 1) * NumberBehind(digits, digits.substr(0, first)) / 8;
}

TaintRule Make(const Form& form) {
  const std::string_view name = form.name;
  const std::string_view base = name.substr(0, name.find('.'));
  const bool reads_carry = IsOneOf(base, {"addc", "subc", "madc"});
  TaintRule rule{.operands = OperandsOf(form.operands, reads_carry, Mentions(name, ".cc"))};
  rule.kind =
      rule.operands.empty() ? KindByName(name, base) : KindByLetters(name, base, rule.operands);
  rule.branches = IsOneOf(base, {"bra", "brx", "exit", "ret", "call"});
  rule.calls = base == "call";
  rule.indexed = name == "brx.idx" || name == "call";
  rule.cuts = rule.kind == Kind::kConvert && IsIntegerCut(name);
  rule.stores = rule.kind == Kind::kStore || rule.kind == Kind::kAtomic ||
                rule.kind == Kind::kStoreMatrices || rule.kind == Kind::kCopyAsync;
  switch (rule.kind) {
    case Kind::kMatrix:
      rule.rows = Mentions(name, ".m8n8") ? 8 : 16;
      break;
    case Kind::kLoadMatrices:
    case Kind::kStoreMatrices:
      rule.matrices = NumberBehind(name, ".x");
      rule.transposed = Mentions(name, ".trans");
      break;
    case Kind::kLoad:
    case Kind::kStore:
    case Kind::kAtomic:
    case Kind::kMove:
      rule.element_bytes = ElementBytes(name);
      rule.compares = Mentions(name, ".cas.");
      break;
    default:
      break;
  }
  return rule;
}

}  // namespace

const TaintRule& TaintRuleOf(size_t form) {
  static const std::vector<TaintRule> rules = [] {
    std::vector<TaintRule> made;
    for (const Form& each : AllForms())
      made.push_back(Make(each));
    return made;
  }();
  return rules[form];
}

std::vector<TaintWritten> WrittenBy(const Code& code, const Instr& instr) {
  const TaintRule& rule = TaintRuleOf(instr.form);
  std::vector<TaintWritten> written;
  const auto add = [&](Slot slot, int bytes) {
    written.push_back({slot, {.written = true, .bytes = bytes}});
  };
  const auto add_vector = [&](int count, int bytes) {
    for (int i = 0; i < count; ++i)
      add(code.slots[instr.more + static_cast<size_t>(i)], bytes);
  };
  const auto target = static_cast<int>(instr.target);
  switch (rule.kind) {
    case Kind::kLoad: {
      const int elements = 1 << (instr.flags & AccessFlags::kElements);
      if (elements == 1)
        add(instr.d, target);
      else
        add_vector(elements, target);
      break;
    }
    case Kind::kMove:
      if ((instr.flags & kFormFlag) != 0)
        add_vector(target, std::max(rule.element_bytes / target, 2));
      else
        add(instr.d, rule.element_bytes);
      break;
    case Kind::kConvert:
      add(instr.d, 1 << Resizing::To(instr));
      break;
    case Kind::kLoadMatrices:
      add_vector(rule.matrices, 4);
      break;
    case Kind::kAtomic:
      if ((instr.flags & kFormFlag) == 0) add(instr.d, rule.element_bytes);
      break;
    default: {
      const Slot near[] = {instr.d, instr.a, instr.b, instr.c};
      for (size_t i = 0; i < rule.operands.size(); ++i)
        if (rule.operands[i].written)
          add(i < std::size(near) ? near[i] : code.slots[instr.more + i - std::size(near)],
              rule.operands[i].bytes);
    }
  }
  return written;
}

}  // namespace coppice::ptx
