// The two forms of a snapshot: one walk, two writers.

#include <algorithm>
#include <string_view>
#include <type_traits>
#include <utility>

#include "fmt/format.h"

#include "coppice/base/status.h"

#include "tools/prof/export/pickle_writer.h"
#include "tools/prof/export/viz_snapshot.h"

namespace coppice {
namespace {

// Writes what PickleWriter writes, as JSON.
class VizJsonWriter {
 public:
  void Int(int64_t value) { Put(fmt::format_int(value).c_str()); }
  void Text(std::string_view text) {
    const bool plain = std::ranges::all_of(
        text, [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
    Put(plain
            ? fmt::format("\"{}\"", text)
            : nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  void Bool(bool value) { Put(value ? "true" : "false"); }
  void BeginDict() { Open('{', Level::kKey); }
  void EndDict() { Close('}'); }
  void BeginList() { Open('[', Level::kItem); }
  void Item() {}
  void EndList() { Close(']'); }
  void Value(const nlohmann::ordered_json& json) {
    Put(json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  }
  std::string Finish() { return std::move(out_) + "\n"; }

 private:
  enum class Level : uint8_t { kItem, kKey, kValue };

  void Separate() {
    if (levels_.empty()) return;
    auto& [level, count] = levels_.back();
    if (level == Level::kValue) {
      out_ += ':';
      level = Level::kKey;
      return;
    }
    if (count++ > 0) out_ += ',';
    if (level == Level::kKey) level = Level::kValue;
  }
  void Put(std::string_view text) {
    Separate();
    out_ += text;
  }
  void Open(char bracket, Level level) {
    Separate();
    out_ += bracket;
    levels_.emplace_back(level, 0);
  }
  void Close(char bracket) {
    out_ += bracket;
    levels_.pop_back();
  }

  std::string out_;
  std::vector<std::pair<Level, int64_t>> levels_;
};

template <typename Writer>
class SnapshotWriter {
 public:
  explicit SnapshotWriter(const VizSnapshot& snapshot)
      : snapshot_(snapshot), frames_(snapshot.frames.size(), -1) {}

  std::string Write() {
    out_.BeginDict();
    // First, because of the texts that are remembered the first 256 are the shortest to refer to.
    out_.Text("device_traces");
    out_.BeginList();
    for (const std::vector<VizEvent>& events : snapshot_.devices) {
      out_.Item();
      out_.BeginList();
      for (const VizEvent& event : events)
        WriteEvent(event);
      out_.EndList();
    }
    out_.EndList();
    out_.Text("segments");
    out_.BeginList();
    for (const VizSegment& segment : snapshot_.segments)
      WriteSegment(segment);
    out_.EndList();
    WriteMarks();
    out_.Text("coppice");
    out_.Value(snapshot_.coppice);
    out_.EndDict();
    return out_.Finish();
  }

 private:
  void Number(const char* key, int64_t value) {
    out_.Text(key);
    out_.Int(value);
  }

  void Word(const char* key, const char* value) {
    out_.Text(key);
    out_.Text(value);
  }

  void WriteFrame(const VizFrame& frame, const std::string& name) {
    out_.Item();
    out_.BeginDict();
    out_.Text("name");
    out_.Text(name);
    out_.Text("filename");
    out_.Text(frame.file);
    Number("line", frame.line);
    out_.EndDict();
  }

  void WriteFrames(int frame) {
    out_.Text("frames");
    if (frame < 0) {
      out_.BeginList();
      return out_.EndList();
    }
    if constexpr (std::is_same_v<Writer, PickleWriter>) {
      if (frames_[static_cast<size_t>(frame)] >= 0)
        return out_.Get(frames_[static_cast<size_t>(frame)]);
    }
    const VizFrame& written = snapshot_.frames[static_cast<size_t>(frame)];
    out_.BeginList();
    if (!written.buffer.empty()) WriteFrame(written, written.buffer);
    WriteFrame(written, written.name);
    out_.EndList();
    if constexpr (std::is_same_v<Writer, PickleWriter>)
      frames_[static_cast<size_t>(frame)] = out_.Memoize();
  }

  void WritePool(int pool) {
    out_.Text("segment_pool_id");
    if constexpr (std::is_same_v<Writer, PickleWriter>) {
      out_.Int(0);
      out_.Int(pool);
      out_.Tuple2();
    } else {
      out_.Value({0, pool});
    }
  }

  void WriteSegment(const VizSegment& segment) {
    out_.Item();
    out_.BeginDict();
    Number("device", segment.device);
    Number("address", segment.address);
    Number("total_size", segment.bytes());
    Number("allocated_size", segment.active_bytes());
    Number("active_size", segment.active_bytes());
    Number("requested_size", segment.active_bytes());
    Number("stream", 0);
    Word("segment_type", "large");
    WritePool(segment.pool);
    out_.Text("is_expandable");
    out_.Bool(true);
    out_.Text("blocks");
    out_.BeginList();
    int64_t address = segment.address;
    for (const VizBlock& block : segment.blocks) {
      out_.Item();
      out_.BeginDict();
      Number("address", address);
      Number("size", block.bytes);
      Number("requested_size", block.active ? block.bytes : 0);
      Word("state", block.active ? "active_allocated" : "inactive");
      WriteFrames(block.frame);
      out_.EndDict();
      address += block.bytes;
    }
    out_.EndList();
    out_.EndDict();
  }

  void BeginEvent(const char* action, const VizEvent& event) {
    out_.Item();
    out_.BeginDict();
    Word("action", action);
    Number("addr", event.address);
    Number("size", event.bytes);
    Number("stream", event.stream);
    Number("time_us", event.time_us);
  }

  void WriteEvent(const VizEvent& event) {
    switch (event.action) {
      case VizAction::kFree:
        BeginEvent("free_requested", event);
        out_.EndDict();
        BeginEvent("free_completed", event);
        break;
      case VizAction::kSegmentAlloc:
        BeginEvent("segment_alloc", event);
        Word("category", NameOf(VizCategory::kUnknown));
        break;
      case VizAction::kSegmentFree:
        BeginEvent("segment_free", event);
        break;
      case VizAction::kAlloc:
        BeginEvent("alloc", event);
        Word("category", NameOf(event.category));
        WriteFrames(event.frame);
        WriteMetadata(event);
        break;
    }
    out_.EndDict();
  }

  void WriteMetadata(const VizEvent& event) {
    bool any = event.label >= 0;
    if (any) {
      out_.Text("user_metadata");
      out_.BeginDict();
      out_.Text("buffer");
      out_.Text(snapshot_.labels[static_cast<size_t>(event.label)]);
    }
    for (int i = 0; i < kVizNumberCount; ++i) {
      const int64_t value = event.numbers[static_cast<size_t>(i)];
      if (value < 0) continue;
      if (!any) {
        out_.Text("user_metadata");
        out_.BeginDict();
      }
      any = true;
      Number(NameOf(static_cast<VizNumber>(i)), value);
    }
    if (any) out_.EndDict();
  }

  void WriteMarks() {
    out_.Text("external_annotations");
    out_.BeginList();
    for (const VizMark& mark : snapshot_.marks) {
      for (const char* stage : {"START", "END"}) {
        out_.Item();
        out_.BeginDict();
        Word("stage", stage);
        out_.Text("name");
        out_.Text(mark.name);
        Number("device", 0);
        Number("time_us", mark.time_us);
        out_.EndDict();
      }
    }
    out_.EndList();
  }

  const VizSnapshot& snapshot_;
  Writer out_;
  std::vector<int64_t> frames_;  // Their memos, or -1.
};

}  // namespace

const char* NameOf(VizCategory category) {
  static constexpr std::array kNames = {"unknown", "output",  "temporary",
                                        "around",  "donated", "mapped"};
  static_assert(kNames.size() == kVizCategoryCount);
  return kNames[static_cast<size_t>(category)];
}

const char* NameOf(VizNumber number) {
  static constexpr std::array kNames = {"call", "lane", "output", "first_step", "last_step"};
  static_assert(kNames.size() == kVizNumberCount);
  return kNames[static_cast<size_t>(number)];
}

const char* NameOf(VizMode mode) {
  static constexpr std::array kNames = {"history", "plan", "path"};
  static_assert(kNames.size() == kVizModeCount);
  return kNames[static_cast<size_t>(mode)];
}

absl::StatusOr<VizMode> ParseVizMode(const std::string& text) {
  for (int i = 0; i < kVizModeCount; ++i)
    if (text == NameOf(static_cast<VizMode>(i))) return static_cast<VizMode>(i);
  return InvalidArgument("'{}' is no mode; give history, plan or path", text);
}

int64_t VizSegment::bytes() const {
  int64_t sum = 0;
  for (const VizBlock& block : blocks)
    sum += block.bytes;
  return sum;
}

int64_t VizSegment::active_bytes() const {
  int64_t sum = 0;
  for (const VizBlock& block : blocks)
    sum += block.active ? block.bytes : 0;
  return sum;
}

std::string PickleOf(const VizSnapshot& snapshot) {
  return SnapshotWriter<PickleWriter>(snapshot).Write();
}

std::string JsonTextOf(const VizSnapshot& snapshot) {
  return SnapshotWriter<VizJsonWriter>(snapshot).Write();
}

}  // namespace coppice
