// nlohmann's parser, which goes by events and does not recurse.

#include <string>
#include <vector>

#include "nlohmann/json.hpp"

#include "coppice/base/status.h"

#include "tools/prof/import/pickle_reader.h"

namespace coppice {
namespace {

// Overrides of the parser's interface; false stops it.
class ForeignJsonTaker : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit ForeignJsonTaker(ForeignTree& tree) : tree_(tree) {}

  bool null() override { return Put({}); }
  bool boolean(bool) override { return Put({.kind = ForeignKind::kOther}); }
  bool number_integer(number_integer_t value) override { return Put(ForeignTree::Number(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    const auto number = static_cast<int64_t>(value);
    return Put({.kind = number < 0 ? ForeignKind::kHuge : ForeignKind::kNumber, .number = number});
  }
  bool number_float(number_float_t, const string_t&) override {
    return Put({.kind = ForeignKind::kOther});
  }
  bool string(string_t& text) override { return Put(ForeignTree::Text(text)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return Open(ForeignKind::kDict); }
  bool key(string_t& text) override {
    open_.back().key = ForeignTree::Text(text);
    return true;
  }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override { return Open(ForeignKind::kList); }
  bool end_array() override { return Close(); }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    position_ = position > 0 ? position - 1 : 0;  // It counts the byte that is wrong.
    return false;
  }

  ForeignValue value() const { return value_; }
  size_t position() const { return position_; }

 private:
  struct OpenContainer {
    ForeignValue value;
    ForeignValue key;
  };

  bool Put(ForeignValue value) {
    if (open_.empty()) {
      value_ = value;
    } else if (open_.back().value.kind == ForeignKind::kDict) {
      tree_.Set(open_.back().value, open_.back().key, value);
    } else {
      tree_.Append(open_.back().value, value);
    }
    return !tree_.full();
  }

  bool Open(ForeignKind kind) {
    const ForeignValue value = tree_.Add(kind);
    if (!Put(value)) return false;
    tree_.Charge(sizeof(OpenContainer));
    open_.push_back({value, {}});
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  ForeignTree& tree_;
  ForeignValue value_;
  std::vector<OpenContainer> open_;
  size_t position_ = 0;
};

}  // namespace

absl::StatusOr<ForeignValue> ReadForeignJson(std::string_view text,
                                             const std::string& name,
                                             ForeignTree& tree) {
  ForeignJsonTaker taker(tree);
  if (nlohmann::json::sax_parse(text, &taker)) return taker.value();
  if (tree.full())
    return InvalidArgument(
        "{}: the values take more than {} MiB; record less, by max_entries of "
        "_record_memory_history",
        name, ForeignTree::kBytesMax >> 20);
  return InvalidArgument(
      "{}: byte {}: this is no JSON; give a file of "
      "torch.cuda.memory._dump_snapshot, or of json.dump",
      name, taker.position());
}

}  // namespace coppice
