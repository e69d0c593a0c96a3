// The columns as RMM writes them, and as its own reader takes them.

#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "fmt/format.h"

#include "coppice/base/status.h"

#include "tools/prof/import/foreign_lifetimes.h"
#include "tools/support/text_file.h"

namespace coppice {
namespace {

constexpr std::string_view kRmmHeader = "Thread,Time,Action,Pointer,Size,Stream";
constexpr size_t kRmmFields = 6;

class RmmReader {
 public:
  RmmReader(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  absl::StatusOr<ForeignLifetimes> Read() {
    if (const std::string_view header = NextLine(); header != kRmmHeader)
      return Error("the header is " + Quote(header), fmt::format("it must be '{}'", kRmmHeader));
    while (!text_.empty()) {
      const std::string_view line = NextLine();
      if (line.empty() && text_.find_first_not_of("\r\n") == std::string_view::npos) break;
      COPPICE_RETURN_IF_ERROR(ReadRow(line));
    }
    return collector_.Finish();
  }

 private:
  absl::Status Error(const std::string& what, const std::string& remedy) const {
    return InvalidArgument("{}:{}: {}; {}", name_, line_, what, remedy);
  }

  std::string_view NextLine() {
    ++line_;
    return TakeLine(text_);
  }

  absl::Status ReadRow(std::string_view line) {
    std::array<std::string_view, kRmmFields> fields;
    size_t count = 0;
    for (std::string_view rest = line;; ++count) {
      const size_t end = rest.find(',');
      if (count < kRmmFields) fields[count] = rest.substr(0, end);
      if (end == std::string_view::npos) break;
      rest.remove_prefix(end + 1);
    }
    if (++count != kRmmFields)
      return Error(fmt::format("the row has {} fields, the header {}", count, kRmmFields),
                   "give a log of RMM's logging adaptor");
    const auto [thread, time, action, pointer, size, stream] = fields;
    const std::optional<int64_t> bytes = Bytes(size);
    if (!bytes) return Error("the size is " + Quote(size), "give a whole number from 0 to 2^50");
    const std::optional<int64_t> address = Pointer(pointer);
    if (!address)
      return Error("the pointer is " + Quote(pointer), "give one such as 0x7f00, or (nil)");
    return ReadAction(action, *address, *bytes);
  }

  absl::Status ReadAction(std::string_view action, int64_t address, int64_t bytes) {
    collector_.NextStep();
    if (action == "allocate failure") {
      ++collector_.lifetimes().refused;
      return absl::OkStatus();
    }
    bool fits = true;
    if (action == "allocate") {
      // RMM gives a null pointer for no bytes, as often as it is asked.
      if (collector_.InUse(address) && address != 0)
        return Error(fmt::format("{:#x} is allocated, and was so before without a free",
                                 static_cast<uint64_t>(address)),
                     "give the log of one resource, whole");
      fits = collector_.Alloc(address, bytes);
    } else if (action == "free") {
      fits = collector_.Free(address, bytes);
    } else {
      return Error("the action is " + Quote(action),
                   "it must be 'allocate', 'allocate failure' or 'free'");
    }
    if (fits) return absl::OkStatus();
    return Error(fmt::format("there are more than {} allocations", kForeignAllocationsMax),
                 "cut the log");
  }

  static std::optional<int64_t> Bytes(std::string_view text) {
    int64_t bytes = 0;
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, bytes);
    if (error != std::errc() || end != last || bytes < 0 || bytes > kForeignBytesMax)
      return std::nullopt;
    return bytes;
  }

  static std::optional<int64_t> Pointer(std::string_view text) {
    if (text == "(nil)") return 0;
    if (text.starts_with("0x")) text.remove_prefix(2);
    uint64_t pointer = 0;
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, pointer, 16);
    if (error != std::errc() || end != last) return std::nullopt;
    return static_cast<int64_t>(pointer);
  }

  std::string_view text_;
  const std::string& name_;
  LifetimeCollector collector_;
  int64_t line_ = 0;
};

}  // namespace

absl::StatusOr<ForeignLifetimes> ReadRmmLifetimes(const std::string& text,
                                                  const std::string& name) {
  return RmmReader(text, name).Read();
}

}  // namespace coppice
