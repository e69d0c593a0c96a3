// Definitions are parsed as JSON; events, of which there are millions, by hand.

#include "tools/prof/pool_trace.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"
#include "coppice/base/units.h"
#include "coppice/graphs/session_options.h"

#include "tools/prof/trace_tokens.h"
#include "tools/prof/traced_node.h"
#include "tools/support/text_file.h"

namespace coppice {
namespace {

constexpr size_t kLineBytesMax = 8 * kMiB;  // Parsed and printed, a line takes 90 times as much.
constexpr int kDepthMax = 8;                // Of a definition; a node's is 4.

using Json = nlohmann::json;

}  // namespace

class TraceStream::Parser {
 public:
  Parser(const std::string& name, OnEvent on_event) : name_(name), on_event_(on_event) {}

  // `whole`: the line ends in a newline.
  absl::Status ParseLine(std::string_view line, bool whole) {
    ++line_;
    if (line.ends_with('\r')) line.remove_suffix(1);
    absl::Status status = ParseAny(line);
    // A session that was killed leaves half a line; one that is whole but for its newline is read.
    // Half a line defines nothing and is no event, so that what comes before is all there is.
    if (status.ok() || whole || line_ > 1) return whole ? status : absl::OkStatus();
    return Error("the line is cut off: " + Quote(line),
                 "give a trace of a session that has started");
  }

  PoolTrace& trace() { return trace_; }

  absl::StatusOr<PoolTrace> Finish() {
    if (line_ == 0) {
      line_ = 1;
      return Error("the file is empty", "give a file that SessionOptions::trace wrote");
    }
    return std::move(trace_);
  }

  absl::Status Error(const std::string& what, const std::string& remedy) const {
    return InvalidArgument("{}:{}: {}; {}", name_, line_, what, remedy);
  }

 private:
  // The place of each number that a file gives to things of one sort.
  class Places {
   public:
    // False if the number is taken.
    bool Add(int64_t id) { return places_.emplace(id, static_cast<int>(places_.size())).second; }
    // -1 if there is none.
    int Find(int64_t id) const {
      const auto found = places_.find(id);
      return found == places_.end() ? -1 : found->second;
    }

   private:
    absl::flat_hash_map<int64_t, int> places_;
  };

  absl::Status ParseAny(std::string_view line) {
    if (trace_.ended)
      return Error("the line comes after the end of the trace", "keep one session per file");
    if (line_ > 1 && line.starts_with('[')) return ParseEvent(line);
    // Not by a callback: the parser would go through all of a list at the end of each of its parts.
    if (DepthOf(line) > kDepthMax)
      return Error(fmt::format("the line is nested more than {} levels deep", kDepthMax),
                   "give a file that SessionOptions::trace wrote");
    const Json object = Json::parse(line, /*cb=*/nullptr, /*allow_exceptions=*/false);
    if (!object.is_object())
      return Error("the line is neither an event nor a definition: " + Quote(line),
                   "give a file that SessionOptions::trace wrote");
    Fields fields(object);
    if (line_ == 1) {
      ParseHeader(fields);
    } else if (object.contains("failure")) {
      ParseFailure(fields);
    } else if (object.contains("mark")) {
      ParseMark(fields);
    } else if (object.contains("policy")) {
      ParsePolicy(fields);
    } else if (object.contains("node")) {
      ParseNode(fields);
    } else if (object.contains("bucket")) {
      ParseBucket(fields);
    } else if (object.contains("program")) {
      ParseProgram(fields);
    } else {
      return Error("the line does not define a program, bucket, node, failure, mark or policy",
                   fmt::format("give a trace with schema {}", kPoolTraceSchema));
    }
    if (fields.wrong().empty()) return absl::OkStatus();
    return Error(fields.wrong(), fmt::format("give a trace with schema {}", kPoolTraceSchema));
  }

  void ParseHeader(Fields& fields) {
    if (const std::string schema = fields.Text("schema"); schema != kPoolTraceSchema)
      fields.Refuse("schema", fmt::format("{} but {}", kPoolTraceSchema, Quote(schema)));
    trace_.device = fields.Text("device");
    trace_.lanes = static_cast<int>(fields.Integer("lanes", 1, kLanesMax));
    trace_.granularity = fields.Integer("granularity", 1);
    trace_.budget = fields.Integer("budget", 0);
    trace_.options = fields.ObjectText("options");
  }

  void ParseProgram(Fields& fields) {
    TracedProgram& program = trace_.programs.emplace_back();
    program.id = fields.Integer("program", 0);
    program.name = fields.Text("name");
    program.variant = fields.Text("variant");
    program.symbols = fields.Texts("symbols");
    program.scalars = fields.Texts("scalars");
    program.spec = fields.ObjectText("spec");
    program.policies = fields.ObjectTexts("policies");
    ParseJoint(fields, program);
    if (!programs_.Add(program.id)) fields.Refuse("program", "a unique number");
  }

  void ParseBucket(Fields& fields) {
    TracedBucket& bucket = trace_.buckets.emplace_back();
    bucket.id = fields.Integer("bucket", 0);
    bucket.program = programs_.Find(fields.Integer("program", 0));
    if (bucket.program < 0) fields.Refuse("program", "a program defined above");
    bucket.lane = static_cast<int>(fields.Integer("lane", 0, trace_.lanes - 1));
    bucket.extents = fields.Integers("extents");
    bucket.scalars = fields.Words("scalars");
    if (!buckets_.Add(bucket.id)) fields.Refuse("bucket", "a unique number");
  }

  void ParseFailure(Fields& fields) {
    TracedFailure& failure = trace_.failures.emplace_back();
    failure.id = fields.Integer("failure", 0);
    failure.driver_call = fields.Text("driver_call");
    failure.code = fields.Text("code");
    failure.message = fields.Text("message");
    if (!failures_.Add(failure.id)) fields.Refuse("failure", "a unique number");
  }

  void ParseMark(Fields& fields) {
    const int64_t id = fields.Integer("mark", 0);
    trace_.marks.push_back(fields.Text("name"));
    if (!marks_.Add(id)) fields.Refuse("mark", "a unique number");
  }

  void ParsePolicy(Fields& fields) {
    const int64_t id = fields.Integer("policy", 0);
    trace_.policies.push_back(fields.ObjectText("document"));
    if (!policies_.Add(id)) fields.Refuse("policy", "a unique number");
  }

  static void ParseJoint(Fields& fields, TracedProgram& program) {
    const auto symbols = static_cast<int64_t>(program.symbols.size());
    for (const Json& row : fields.List("joint", "joint policies")) {
      if (!row.is_array() || row.size() != 3 || !IsWhole(row[0], 0) || !IsWhole(row[1], 0) ||
          row[0].get<int64_t>() >= symbols || row[1].get<int64_t>() >= symbols ||
          !row[2].is_object())
        return fields.Refuse("joint", "a list of [symbol, symbol, policy]");
      program.joint.push_back({row[0].get<int>(), row[1].get<int>(), row[2].dump()});
    }
  }

  void ParseNode(Fields& fields) {
    TracedNode& node = trace_.nodes.emplace_back();
    node.line = line_;
    node.id = fields.Integer("node", 0);
    node.bucket = buckets_.Find(fields.Integer("bucket", 0));
    if (node.bucket < 0) fields.Refuse("bucket", "a bucket defined above");
    ReadNode(fields, node);
    if (!nodes_.Add(node.id)) fields.Refuse("node", "a unique number");
  }

  absl::Status ParseEvent(std::string_view line) {
    Scanner scanner(line);
    TracedEvent event;
    std::string_view name;
    int64_t lane = -1;
    const bool opened = scanner.Take('[') && scanner.TakeInteger(0, event.time_ns) &&
                        scanner.Take(',') && scanner.TakeText(name);
    if (!opened)
      return BadEvent("an event must begin with `[nanoseconds, \"name\", lane`", scanner);
    if (!FindEvent(name, event.what))
      return Error(fmt::format("the schema {} has no event {}", kPoolTraceSchema, Quote(name)),
                   "read the trace with the version of coppice that wrote it");
    const bool laned = scanner.Take(',') && scanner.TakeInteger(-1, lane) && lane < trace_.lanes;
    // Calls are numbered per lane, and buckets and nodes are of one.
    if (!laned || (lane < 0 && event.what.index() <= TraceEvent(ExpireEvent()).index()))
      return BadEvent(fmt::format("'{}' needs a lane from 0 to {}", name, trace_.lanes - 1),
                      scanner);
    event.lane = static_cast<int>(lane);
    event.line = line_;
    ValueReader read(*this, scanner);
    std::visit([&read](auto& what) { VisitFields(what, read); }, event.what);
    if (!read.right())
      return BadEvent(fmt::format("value {} of '{}' is wrong", read.values(), name), scanner);
    if (!scanner.Take(']') || !scanner.AtEnd())
      return BadEvent(fmt::format("'{}' must end after {} values", name, read.values()), scanner);
    Account(event);
    return absl::OkStatus();
  }

  // The event of that name; false if there is none.
  template <size_t kIndex = 0>
  static bool FindEvent(std::string_view name, TraceEvent& event) {
    if constexpr (kIndex == std::variant_size_v<TraceEvent>) {
      return false;
    } else {
      if (name != kTraceEventName<std::variant_alternative_t<kIndex, TraceEvent>>)
        return FindEvent<kIndex + 1>(name, event);
      event.emplace<kIndex>();
      return true;
    }
  }

  // Reads the fields of an event one by one, up to the first that is wrong.
  class ValueReader {
   public:
    ValueReader(const Parser& parser, Scanner& scanner) : parser_(parser), scanner_(scanner) {}

    template <typename Field>
    void operator()(const char* /*name*/, Field& field, int64_t least) {
      if (!right_) return;
      ++values_;
      right_ = scanner_.Take(',') && Take(field, least);
    }

    bool right() const { return right_; }
    int values() const { return values_; }  // Read so far, or up to the wrong one.

   private:
    bool Take(int64_t& value, int64_t least) { return scanner_.TakeInteger(least, value); }
    bool Take(int32_t& value, int64_t least) {
      int64_t wide = 0;
      if (!Take(wide, least) || wide > std::numeric_limits<int32_t>::max()) return false;
      value = static_cast<int32_t>(wide);
      return true;
    }

    bool Take(RunKind& path, int64_t /*least*/) { return TakeNamed(kRunKindCount, path); }
    bool Take(Reason& reason, int64_t /*least*/) { return TakeNamed(kReasonCount, reason); }
    bool Take(MemoryKind& kind, int64_t /*least*/) { return TakeNamed(kMemoryKindCount, kind); }
    bool Take(OutputMode& mode, int64_t /*least*/) { return TakeNamed(kOutputModeCount, mode); }
    template <typename Enum>
    bool TakeNamed(int count, Enum& value) {
      std::string_view name;
      return scanner_.TakeText(name) && FindNamed(name, count, value);
    }

    bool Take(ProgramNumber& program, int64_t least) {
      if (!TakePlace(parser_.programs_, least, program.value)) return false;
      symbols_ = parser_.trace_.programs[static_cast<size_t>(program)].symbols.size();
      return true;
    }
    bool Take(BucketNumber& bucket, int64_t least) {
      return TakePlace(parser_.buckets_, least, bucket.value);
    }
    bool Take(NodeNumber& node, int64_t least) {
      return TakePlace(parser_.nodes_, least, node.value);
    }
    bool Take(FailureNumber& failure, int64_t least) {
      return TakePlace(parser_.failures_, least, failure.value);
    }
    bool Take(MarkNumber& mark, int64_t least) {
      return TakePlace(parser_.marks_, least, mark.value);
    }
    bool Take(PolicyNumber& policy, int64_t least) {
      return TakePlace(parser_.policies_, least, policy.value);
    }
    bool TakePlace(const Places& places, int64_t least, int32_t& place) {
      int64_t id = 0;
      if (!Take(id, least)) return false;
      place = id < 0 ? -1 : places.Find(id);
      return id < 0 || place >= 0;
    }

    bool Take(SymbolNumber& symbol, int64_t least) {
      return Take(symbol.value, least) && static_cast<size_t>(symbol) < symbols_;
    }
    bool Take(TraceExtents& extents, int64_t least) {
      if (!scanner_.Take('[')) return false;
      while (extents.size() < symbols_ && extents.size() < kSymbolsMax) {
        int32_t extent = 0;
        if ((extents.size() > 0 && !scanner_.Take(',')) || !Take(extent, least)) return false;
        extents.Add(extent);
      }
      return extents.size() == symbols_ && scanner_.Take(']');
    }

    const Parser& parser_;
    Scanner& scanner_;
    size_t symbols_ = 0;  // Of the program that was named.
    int values_ = 3;      // Time, name and lane.
    bool right_ = true;
  };

  absl::Status BadEvent(const std::string& what, const Scanner& scanner) const {
    return Error(fmt::format("{}, at {}", what, Quote(scanner.rest())),
                 fmt::format("give a trace with schema {}", kPoolTraceSchema));
  }

  void Account(const TracedEvent& event) {
    ++trace_.events;
    trace_.last_ns = std::max(trace_.last_ns, event.time_ns);
    if (const auto* const dropped = event.As<DroppedEvent>())
      trace_.dropped = std::min(trace_.dropped + dropped->events, kNumberMax);
    if (event.As<EndEvent>() != nullptr) trace_.ended = true;
    on_event_(trace_, event);
  }

  const std::string& name_;
  OnEvent on_event_;
  PoolTrace trace_;
  Places programs_;
  Places buckets_;
  Places nodes_;
  Places failures_;
  Places marks_;
  Places policies_;
  int64_t line_ = 0;
};

TraceStream::TraceStream(std::string name, OnEvent on_event)
    : name_(std::move(name)), parser_(std::make_unique<Parser>(name_, on_event)) {}

TraceStream::~TraceStream() = default;

absl::Status TraceStream::Take(std::string_view bytes) {
  for (size_t end = bytes.find('\n'); status_.ok() && end != std::string_view::npos;
       end = bytes.find('\n')) {
    std::string_view line = bytes.substr(0, end);
    if (!line_.empty()) line = line_.append(line);
    status_ = parser_->ParseLine(line, /*whole=*/true);
    line_.clear();
    bytes.remove_prefix(end + 1);
  }
  COPPICE_RETURN_IF_ERROR(status_);
  line_.append(bytes);
  if (line_.size() > kLineBytesMax)
    status_ = parser_->Error("the line after this one is longer than 8 MiB", "give a trace file");
  return status_;
}

const PoolTrace& TraceStream::trace() const {
  return parser_->trace();
}

void TraceStream::ForgetPlans() {
  std::vector<TracedNode>& nodes = parser_->trace().nodes;
  for (; nodes_forgotten_ < nodes.size(); ++nodes_forgotten_) {
    TracedNode& node = nodes[nodes_forgotten_];
    node.around = {};
    node.donated = {};
    node.buffers = {};
    node.offsets = {};
    node.outputs = {};
    node.labels = {};
    node.kernels = {};
    node.pieces = {};
  }
}

absl::StatusOr<PoolTrace> TraceStream::Finish() {
  COPPICE_RETURN_IF_ERROR(status_);
  if (!line_.empty()) COPPICE_RETURN_IF_ERROR(parser_->ParseLine(line_, /*whole=*/false));
  return parser_->Finish();
}

std::string LabelOf(const TracedProgram& program) {
  return program.variant.empty() ? program.name : program.name + "/" + program.variant;
}

std::string LabelOf(const TracedBucket& bucket) {
  std::string extents =
      bucket.extents.empty() ? "-" : fmt::format("{}", fmt::join(bucket.extents, "x"));
  if (bucket.scalars.empty()) return extents;
  return fmt::format("{} ({})", extents, fmt::join(bucket.scalars, ", "));
}

std::string LabelOfBuffer(const TracedNode& node, size_t buffer) {
  return node.labels[buffer].empty() ? fmt::format("#{}", buffer) : node.labels[buffer];
}

std::string LabelOfProgram(const PoolTrace& trace, int program) {
  return program < 0 ? "-" : LabelOf(trace.programs[static_cast<size_t>(program)]);
}

std::string NameOfBucket(const PoolTrace& trace, int bucket) {
  const TracedBucket& named = trace.buckets[static_cast<size_t>(bucket)];
  return fmt::format("{} {}", LabelOfProgram(trace, named.program), LabelOf(named));
}

std::vector<AddressRange> FootprintOf(const TracedNode& node) {
  std::vector<AddressRange> ranges;
  for (size_t i = 0; i < node.buffers.size(); ++i)
    ranges.push_back({node.offsets[i], node.offsets[i] + node.buffers[i].bytes});
  Normalize(ranges);
  return ranges;
}

std::vector<AddressRange> OutputRangesOf(const TracedNode& node) {
  std::vector<AddressRange> ranges;
  for (size_t i = 0; i < node.buffers.size(); ++i) {
    if (node.outputs[i] >= 0)
      ranges.push_back({node.offsets[i], node.offsets[i] + node.buffers[i].bytes});
  }
  return ranges;
}

absl::StatusOr<PoolTrace> ReadPoolTrace(
    const std::string& path,
    absl::FunctionRef<void(const PoolTrace&, const TracedEvent&)> on_event) {
  const auto error = [&](const char* what) {
    return InvalidArgument("{}: {}; give the path of a trace file", path, what);
  };
  std::error_code code;
  if (std::filesystem::is_directory(path, code)) return error("this is a directory");
  if (!std::filesystem::exists(path, code)) return error("there is no such file");
  std::ifstream file(path, std::ios::binary);
  if (!file) return error("the file cannot be opened");
  TraceStream stream(path, on_event);
  std::vector<char> block(1 << 18);
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())), file.gcount() > 0)
    COPPICE_RETURN_IF_ERROR(stream.Take({block.data(), static_cast<size_t>(file.gcount())}));
  if (file.bad()) return error("the file cannot be read to its end");
  return stream.Finish();
}

}  // namespace coppice
