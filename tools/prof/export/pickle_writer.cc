// Opcodes as Python's pickletools documents them.

#include "tools/prof/export/pickle_writer.h"

#include <bit>
#include <utility>

namespace coppice {
namespace {

constexpr int64_t kBatchMax = 1000;

}  // namespace

PickleWriter::PickleWriter() : out_("\x80\x02") {}

void PickleWriter::LittleEndian(uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i)
    out_ += static_cast<char>(value >> (8 * i));
}

void PickleWriter::Int(int64_t value) {
  const auto bits = static_cast<uint64_t>(value);
  if (value >= 0 && value < 1 << 8) {
    out_ += 'K';
    return LittleEndian(bits, 1);
  }
  if (value >= 0 && value < 1 << 16) {
    out_ += 'M';
    return LittleEndian(bits, 2);
  }
  if (value >= INT32_MIN && value <= INT32_MAX) {
    out_ += 'J';
    return LittleEndian(bits, 4);
  }
  // Two's complement in as few bytes as keep the sign.
  int bytes = 5;
  while (bytes < 8 && (value >> (8 * bytes - 1)) != 0 && (value >> (8 * bytes - 1)) != -1)
    ++bytes;
  out_ += '\x8a';
  out_ += static_cast<char>(bytes);
  LittleEndian(bits, bytes);
}

void PickleWriter::Text(std::string_view text) {
  const auto known = texts_.find(text);
  if (known != texts_.end()) return Get(known->second);
  out_ += 'X';
  LittleEndian(text.size(), 4);
  out_ += text;
  texts_.emplace(text, Memoize());
}

void PickleWriter::BeginList() {
  out_ += ']';
  counts_.push_back(0);
}

void PickleWriter::Item() {
  int64_t& count = counts_.back();
  if (count == kBatchMax) {
    out_ += 'e';
    count = 0;
  }
  if (count++ == 0) out_ += '(';
}

void PickleWriter::EndList() {
  if (counts_.back() > 0) out_ += 'e';
  counts_.pop_back();
}

int64_t PickleWriter::Memoize() {
  if (memos_ < 1 << 8) {
    out_ += 'q';
    LittleEndian(static_cast<uint64_t>(memos_), 1);
  } else {
    out_ += 'r';
    LittleEndian(static_cast<uint64_t>(memos_), 4);
  }
  return memos_++;
}

void PickleWriter::Get(int64_t memo) {
  out_ += memo < 1 << 8 ? 'h' : 'j';
  LittleEndian(static_cast<uint64_t>(memo), memo < 1 << 8 ? 1 : 4);
}

void PickleWriter::Value(const nlohmann::ordered_json& json) {
  if (json.is_object() && !json.empty()) {
    BeginDict();
    for (const auto& [key, value] : json.items()) {
      Text(key);
      Value(value);
    }
    EndDict();
  } else if (json.is_object()) {
    out_ += '}';
  } else if (json.is_array()) {
    BeginList();
    for (const nlohmann::ordered_json& value : json) {
      Item();
      Value(value);
    }
    EndList();
  } else if (json.is_string()) {
    Text(json.get_ref<const std::string&>());
  } else if (json.is_boolean()) {
    Bool(json.get<bool>());
  } else if (json.is_number_integer()) {
    Int(json.get<int64_t>());
  } else if (json.is_number_float()) {
    out_ += 'G';
    const auto bits = std::bit_cast<uint64_t>(json.get<double>());
    for (int i = 7; i >= 0; --i)
      out_ += static_cast<char>(bits >> (8 * i));
  } else {
    out_ += 'N';
  }
}

std::string PickleWriter::Finish() {
  out_ += '.';
  return std::move(out_);
}

}  // namespace coppice
