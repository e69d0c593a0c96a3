// A stack of values, the places of marks in it, and a memo.

#include "tools/prof/import/pickle_reader.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "fmt/format.h"

#include "coppice/base/status.h"

namespace coppice {
namespace {

constexpr uint64_t kMemoGapMax = 4096;  // Python counts memos up by one.
constexpr size_t kStackMax = size_t{4} << 20;

constexpr const char* kPickleRemedy =
    "give a file of torch.cuda.memory._dump_snapshot, or of json.dump";

struct RunningOpcode {
  unsigned char code;
  const char* name;
};

// Those that make Python look something up or call it.
constexpr std::array kRunningOpcodes = {
    RunningOpcode{'c', "GLOBAL"},  RunningOpcode{0x93, "STACK_GLOBAL"},
    RunningOpcode{'R', "REDUCE"},  RunningOpcode{'b', "BUILD"},
    RunningOpcode{'i', "INST"},    RunningOpcode{'o', "OBJ"},
    RunningOpcode{0x81, "NEWOBJ"}, RunningOpcode{0x92, "NEWOBJ_EX"},
    RunningOpcode{'P', "PERSID"},  RunningOpcode{'Q', "BINPERSID"},
    RunningOpcode{0x82, "EXT1"},   RunningOpcode{0x83, "EXT2"},
    RunningOpcode{0x84, "EXT4"}};

class PickleMachine {
 public:
  PickleMachine(std::string_view bytes, const std::string& name, ForeignTree& tree)
      : bytes_(bytes), name_(name), tree_(tree) {}

  absl::StatusOr<ForeignValue> Run() {
    while (wrong_.empty()) {
      at_ = next_;
      const unsigned char code = static_cast<unsigned char>(Byte());
      if (!wrong_.empty()) break;
      if (code == '.') {
        const ForeignValue value = Pop();
        if (wrong_.empty()) return value;
        break;
      }
      Step(code);
      if (tree_.full()) {
        Refuse(fmt::format("the values up to here take more than {} MiB",
                           ForeignTree::kBytesMax >> 20));
        return Error("record less, by max_entries of _record_memory_history");
      }
    }
    return Error(kPickleRemedy);
  }

 private:
  absl::Status Error(const char* remedy) const {
    return InvalidArgument("{}: byte {}: {}; {}", name_, at_, wrong_, remedy);
  }

  void Refuse(std::string what) {
    if (wrong_.empty()) wrong_ = std::move(what);
  }

  std::string_view Take(uint64_t count) {
    if (count > bytes_.size() - next_) {
      Refuse(fmt::format("the file ends within what begins here, {} bytes long in all",
                         bytes_.size()));
      next_ = bytes_.size();
      return {};
    }
    const std::string_view taken = bytes_.substr(next_, count);
    next_ += count;
    return taken;
  }

  char Byte() {
    const std::string_view taken = Take(1);
    return taken.empty() ? '\0' : taken[0];
  }

  uint64_t LittleEndian(size_t count) {
    const std::string_view taken = Take(count);
    uint64_t value = 0;
    for (size_t i = taken.size(); i > 0; --i)
      value = value << 8 | static_cast<unsigned char>(taken[i - 1]);
    return value;
  }

  void Step(unsigned char code) {
    if (StepConstant(code) || StepContainer(code) || StepMemo(code)) return;
    const auto running = std::ranges::find(kRunningOpcodes, code, &RunningOpcode::code);
    if (running != kRunningOpcodes.end())
      return Refuse(fmt::format(
          "the opcode {}, which can run code and which no memory snapshot has", running->name));
    Refuse(fmt::format("the opcode {:#04x}, which no memory snapshot of protocol 2 to 5 has",
                       static_cast<unsigned>(code)));
  }

  bool StepConstant(unsigned char code) {
    switch (code) {
      case 0x80:
        if (const uint64_t protocol = LittleEndian(1); protocol < 2 || protocol > 5)
          Refuse(fmt::format("the protocol {}, where snapshots have 2 to 5", protocol));
        return true;
      case 0x95:
        LittleEndian(8);
        return true;
      case 'N':
        return Push({});
      case 0x88:
      case 0x89:
        return Push({.kind = ForeignKind::kOther});
      case 'J':
        return Push(ForeignTree::Number(static_cast<int32_t>(LittleEndian(4))));
      case 'K':
        return Push(ForeignTree::Number(static_cast<int64_t>(LittleEndian(1))));
      case 'M':
        return Push(ForeignTree::Number(static_cast<int64_t>(LittleEndian(2))));
      case 0x8a:
        return Push(Long(Take(LittleEndian(1))));
      case 'G':
        Take(8);
        return Push({.kind = ForeignKind::kOther});
      case 'X':
        return Push(ForeignTree::Text(Take(LittleEndian(4))));
      case 0x8c:
        return Push(ForeignTree::Text(Take(LittleEndian(1))));
      default:
        return false;
    }
  }

  static ForeignValue Long(std::string_view digits) {
    uint64_t low = 0;
    for (size_t i = std::min<size_t>(digits.size(), 8); i > 0; --i)
      low = low << 8 | static_cast<unsigned char>(digits[i - 1]);
    const bool negative = !digits.empty() && (digits.back() & 0x80) != 0;
    if (digits.size() > 8) return {.kind = ForeignKind::kHuge, .number = static_cast<int64_t>(low)};
    if (negative && digits.size() < 8) low |= ~uint64_t{0} << (8 * digits.size());
    return ForeignTree::Number(static_cast<int64_t>(low));
  }

  bool StepContainer(unsigned char code) {
    switch (code) {
      case '(':
        marks_.push_back(stack_.size());
        tree_.Charge(2 * sizeof(size_t));
        return true;
      case '}':
        return Push(tree_.Add(ForeignKind::kDict));
      case ']':
        return Push(tree_.Add(ForeignKind::kList));
      case ')':
        return Push(tree_.Add(ForeignKind::kTuple));
      case 'a':
        return Append(stack_.empty() ? 0 : stack_.size() - 1);
      case 'e':
        return Append(PopMark());
      case 's':
        return SetItems(stack_.size() < 2 ? 0 : stack_.size() - 2);
      case 'u':
        return SetItems(PopMark());
      case 'l':
        return Gather(ForeignKind::kList, PopMark());
      case 't':
        return Gather(ForeignKind::kTuple, PopMark());
      case 'd':
        return Gather(ForeignKind::kDict, PopMark());
      case 0x85:
      case 0x86:
      case 0x87: {
        const size_t count = static_cast<size_t>(code - 0x84);
        return Gather(ForeignKind::kTuple,
                      stack_.size() < count ? stack_.size() + 1 : stack_.size() - count);
      }
      default:
        return false;
    }
  }

  bool StepMemo(unsigned char code) {
    switch (code) {
      case 'q':
        return Memoize(LittleEndian(1));
      case 'r':
        return Memoize(LittleEndian(4));
      case 0x94:
        return Memoize(memo_.size());
      case 'h':
        return Get(LittleEndian(1));
      case 'j':
        return Get(LittleEndian(4));
      default:
        return false;
    }
  }

  // All of these return true, because the opcode is known.

  bool Push(ForeignValue value) {
    if (stack_.size() >= kStackMax)
      Refuse(fmt::format("more than {} values are put down before they go anywhere", kStackMax));
    stack_.push_back(value);
    return true;
  }

  // Nothing above the latest mark: what is below it belongs to whoever set it.
  ForeignValue Pop() {
    if (stack_.empty() || (!marks_.empty() && marks_.back() == stack_.size())) {
      Refuse("a value is wanted, and there is none");
      return {};
    }
    const ForeignValue value = stack_.back();
    stack_.pop_back();
    return value;
  }

  size_t PopMark() {
    if (marks_.empty()) {
      Refuse("a mark is wanted, and there is none");
      return stack_.size();
    }
    const size_t mark = marks_.back();
    marks_.pop_back();
    return mark;
  }

  // The container below what begins at `first`.
  std::optional<ForeignValue> Target(size_t first, ForeignKind kind) {
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    if (first <= floor || first > stack_.size()) {
      Refuse("items are there without what they go into");
      return std::nullopt;
    }
    if (stack_[first - 1].kind == kind) return stack_[first - 1];
    Refuse(kind == ForeignKind::kDict ? "items of a dict go into something else"
                                      : "items of a list go into something else");
    return std::nullopt;
  }

  bool Append(size_t first) {
    const std::optional<ForeignValue> list = Target(first, ForeignKind::kList);
    if (!list) return true;
    for (size_t i = first; i < stack_.size(); ++i)
      tree_.Append(*list, stack_[i]);
    stack_.resize(first);
    return true;
  }

  bool SetItems(size_t first) {
    const std::optional<ForeignValue> dict = Target(first, ForeignKind::kDict);
    if (!dict) return true;
    if ((stack_.size() - first) % 2 != 0) Refuse("a key of a dict has no value");
    for (size_t i = first; i + 1 < stack_.size(); i += 2)
      tree_.Set(*dict, stack_[i], stack_[i + 1]);
    stack_.resize(first);
    return true;
  }

  bool Gather(ForeignKind kind, size_t first) {
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    if (first < floor || first > stack_.size()) {
      Refuse("a value is wanted, and there is none");
      return true;
    }
    const ForeignValue gathered = tree_.Add(kind);
    if (kind == ForeignKind::kDict) {
      if ((stack_.size() - first) % 2 != 0) Refuse("a key of a dict has no value");
      for (size_t i = first; i + 1 < stack_.size(); i += 2)
        tree_.Set(gathered, stack_[i], stack_[i + 1]);
    } else {
      for (size_t i = first; i < stack_.size(); ++i)
        tree_.Append(gathered, stack_[i]);
    }
    stack_.resize(first);
    stack_.push_back(gathered);
    return true;
  }

  bool Memoize(uint64_t memo) {
    if (stack_.empty() || (!marks_.empty() && marks_.back() == stack_.size())) {
      Refuse("a value is wanted, and there is none");
    } else if (memo > memo_.size() + kMemoGapMax) {
      Refuse(fmt::format("memo {} follows {} others", memo, memo_.size()));
    } else {
      if (memo >= memo_.size()) {
        tree_.Charge(static_cast<int64_t>((memo + 1 - memo_.size()) * 2 * sizeof(ForeignValue)));
        memo_.resize(memo + 1);
      }
      memo_[memo] = stack_.back();
    }
    return true;
  }

  bool Get(uint64_t memo) {
    if (memo < memo_.size()) return Push(memo_[memo]);
    Refuse(fmt::format("memo {} is wanted, and there are {}", memo, memo_.size()));
    return true;
  }

  std::string_view bytes_;
  const std::string& name_;
  ForeignTree& tree_;
  std::vector<ForeignValue> stack_;
  std::vector<size_t> marks_;
  std::vector<ForeignValue> memo_;
  size_t next_ = 0;  // The byte to read.
  size_t at_ = 0;    // Where the opcode began.
  std::string wrong_;
};

}  // namespace

absl::StatusOr<ForeignValue> ReadPickle(std::string_view bytes,
                                        const std::string& name,
                                        ForeignTree& tree) {
  return PickleMachine(bytes, name, tree).Run();
}

}  // namespace coppice
