// Protobufs by hand: what is written has six messages of few fields, so that a library and its
// compiler would be more than they save. Numbers of fields and values are those of
// protos/perfetto/trace/perfetto_trace.proto.

#include <algorithm>
#include <bit>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "tools/prof/export/text_formats.h"
#include "tools/prof/export/timeline.h"

namespace coppice {
namespace {

// Fields, each with its number and wire type.
class ProtoMessage {
 public:
  void Int(int field, int64_t value) {
    Varint(static_cast<uint64_t>(field) << 3);
    Varint(static_cast<uint64_t>(value));
  }
  void Real(int field, double value) {
    Varint(static_cast<uint64_t>(field) << 3 | 1);
    const auto bits = std::bit_cast<uint64_t>(value);
    for (int i = 0; i < 8; ++i)
      bytes_ += static_cast<char>(bits >> (8 * i));
  }
  void Text(int field, std::string_view text) {
    Varint(static_cast<uint64_t>(field) << 3 | 2);
    Varint(text.size());
    bytes_ += text;
  }
  void Message(int field, const ProtoMessage& message) { Text(field, message.bytes_); }
  std::string Take() { return std::move(bytes_); }

 private:
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7)
      bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

constexpr int64_t kProcessTrack = 1;
constexpr int64_t kFirstTrack = 2;  // Of the session; lanes and requests follow ...
constexpr int64_t kFirstCounterTrack = int64_t{1} << 32;  // ... and counters are far from them.

// Of TrackEvent.Type, CounterDescriptor.Unit and TracePacket.SequenceFlags.
enum PointType : int64_t { kSliceBegin = 1, kSliceEnd = 2, kInstantPoint = 3, kCounterPoint = 4 };
constexpr int64_t kUnitBytes = 3;
constexpr int64_t kStateCleared = 1;

struct TimelinePoint {
  int64_t time_ns = 0;
  PointType type = kInstantPoint;
  const TimelineEvent* event = nullptr;
  // Of one time, slices end before others begin, the latest that began first.
  int64_t rank = 0;
};

PointType TypeOf(TimelineKind kind) {
  switch (kind) {
    case TimelineKind::kSlice:
      return kSliceBegin;
    case TimelineKind::kInstant:
      return kInstantPoint;
    case TimelineKind::kCounter:
      return kCounterPoint;
  }
  return kInstantPoint;
}

// In order of time; slices as their two ends, of which an empty one's follow each other.
std::vector<TimelinePoint> PointsOf(const Timeline& timeline) {
  std::vector<TimelinePoint> points;
  int64_t rank = 0;
  for (const TimelineEvent& event : timeline.events) {
    ++rank;
    points.push_back({event.time_ns, TypeOf(event.kind), &event, rank});
    if (event.kind == TimelineKind::kSlice) {
      points.push_back({event.time_ns + event.duration_ns, kSliceEnd, &event,
                        event.duration_ns > 0 ? -rank : rank});
    }
  }
  std::ranges::stable_sort(points, [](const TimelinePoint& a, const TimelinePoint& b) {
    return std::tie(a.time_ns, a.rank) < std::tie(b.time_ns, b.rank);
  });
  return points;
}

class PerfettoWriter {
 public:
  explicit PerfettoWriter(const TracedSession& session) : session_(session) {}

  std::string Write() {
    const Timeline timeline = TimelineOf(session_);
    WriteTracks(timeline);
    for (const TimelinePoint& point : PointsOf(timeline))
      WritePoint(timeline, point);
    return trace_.Take();
  }

 private:
  // Every packet is of the one sequence, which is complete from its beginning.
  void WritePacket(ProtoMessage& packet) {
    packet.Int(10, 1);  // trusted_packet_sequence_id
    if (std::exchange(first_, false)) packet.Int(13, kStateCleared);
    trace_.Message(1, packet);
  }

  void WriteTrack(const ProtoMessage& descriptor) {
    ProtoMessage packet;
    packet.Message(60, descriptor);
    WritePacket(packet);
  }

  void WriteTracks(const Timeline& timeline) {
    ProtoMessage process;
    process.Int(1, 1);  // pid
    process.Text(6, "coppice on " + session_.trace.device);
    ProtoMessage descriptor;
    descriptor.Int(1, kProcessTrack);
    descriptor.Message(3, process);
    WriteTrack(descriptor);
    for (size_t i = 0; i < timeline.tracks.size(); ++i) {
      ProtoMessage thread;
      thread.Int(1, 1);                            // pid
      thread.Int(2, static_cast<int64_t>(i) + 1);  // tid: the thread whose is the pid comes first.
      thread.Text(5, timeline.tracks[i]);
      ProtoMessage track;
      track.Int(1, kFirstTrack + static_cast<int64_t>(i));
      track.Int(5, kProcessTrack);
      track.Message(4, thread);
      WriteTrack(track);
    }
    const std::vector<std::string> counters = CounterNames();
    for (size_t i = 0; i < counters.size(); ++i) {
      ProtoMessage counter;
      counter.Int(3, kUnitBytes);
      ProtoMessage track;
      track.Int(1, kFirstCounterTrack + static_cast<int64_t>(i));
      track.Int(5, kProcessTrack);
      track.Text(2, counters[i]);
      track.Message(8, counter);
      WriteTrack(track);
    }
  }

  void WritePoint(const Timeline& timeline, const TimelinePoint& point) {
    const TimelineEvent& event = *point.event;
    ProtoMessage written;
    written.Int(9, point.type);
    if (point.type == kCounterPoint) {
      written.Int(11, kFirstCounterTrack + event.track);
      written.Int(30, event.value);
    } else {
      written.Int(11, kFirstTrack + event.track);
    }
    if (point.type == kSliceBegin || point.type == kInstantPoint) {
      written.Text(23, timeline.names[static_cast<size_t>(event.name)]);
      for (const TimelineFact& fact : FactsOf(session_, event)) {
        ProtoMessage annotation;
        annotation.Text(10, fact.name);
        if (const auto* const text = std::get_if<std::string>(&fact.value)) {
          annotation.Text(6, *text);
        } else if (const auto* const number = std::get_if<int64_t>(&fact.value)) {
          annotation.Int(4, *number);
        } else {
          annotation.Real(5, std::get<double>(fact.value));
        }
        written.Message(4, annotation);
      }
    }
    ProtoMessage packet;
    packet.Int(8, point.time_ns);
    packet.Message(11, written);
    WritePacket(packet);
  }

  const TracedSession& session_;
  ProtoMessage trace_;
  bool first_ = true;
};

}  // namespace

std::string PerfettoTraceOf(const TracedSession& session) {
  return PerfettoWriter(session).Write();
}

}  // namespace coppice
