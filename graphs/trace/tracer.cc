// Definitions as lines of JSON.

#include "graphs/trace/tracer.h"

#include <optional>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "coppice/base/status.h"
#include "coppice/graphs/session_documents.h"
#include "coppice/padding/joint_document.h"
#include "coppice/padding/policy_document.h"
#include "coppice/runtime/driver.h"

namespace coppice::internal {
namespace {

// The buffers of a recording's plan, without what it gives away and the live regions behind them.
std::string DescribeBuffers(const Node& node, const PlannedBuffers& planned) {
  const std::vector<int> outputs = OutputsIn(node.outputs(), planned);
  std::string text;
  for (size_t i = 0; i < planned.buffers.size(); ++i) {
    const Buffer& buffer = planned.buffers[i];
    if (buffer.fixed_offset.has_value()) break;
    text += fmt::format("{}[{},{},{},[", i == 0 ? "" : ",", planned.plan.offsets[i], buffer.bytes,
                        outputs[i]);
    for (size_t life = 0; life < buffer.lifetime.size(); ++life) {
      text += fmt::format("{}{},{}", life == 0 ? "" : ",", buffer.lifetime[life].lower,
                          buffer.lifetime[life].upper);
    }
    text += fmt::format("],{}]", QuoteJson(planned.labels[i]));
  }
  return text;
}

std::string BucketText(int32_t program,
                       int lane,
                       std::span<const int64_t> extents,
                       std::span<const int64_t> scalars = {}) {
  return fmt::format("\"program\":{},\"lane\":{},\"extents\":[{}],\"scalars\":[{}]", program, lane,
                     fmt::join(extents, ","), fmt::join(scalars, ","));
}

std::string DescribeKernels(const KernelsByPiece& kernels) {
  std::string text;
  for (const std::vector<const KernelNode*>& piece : kernels)
    for (const KernelNode* const kernel : piece)
      text += fmt::format("{}[{},[{}],[{}],{}]", text.empty() ? "" : ",", QuoteJson(kernel->name),
                          fmt::join(kernel->grid, ","), fmt::join(kernel->block, ","),
                          kernel->shared_bytes);
  return text;
}

// How many of them each piece has; not written where there is one.
std::string DescribePieces(const KernelsByPiece& kernels) {
  if (kernels.size() < 2) return "";
  std::string text;
  for (const std::vector<const KernelNode*>& piece : kernels)
    text += fmt::format("{}{}", text.empty() ? ",\"pieces\":[" : ",", piece.size());
  return text + "]";
}

template <typename Names>
std::string QuoteNames(const Names& names) {
  std::string text;
  for (const auto& named : names)
    text += (text.empty() ? "" : ",") + QuoteJson(named);
  return text;
}

std::string PoliciesText(const ProgramSpec& spec) {
  std::string text;
  for (const SymbolSpec& symbol : spec.symbols)
    text += (text.empty() ? "" : ",") + WritePolicyDocument({.policy = symbol.policy});
  return text;
}

std::string JointText(const ProgramSpec& spec) {
  std::string text;
  for (const JointSpec& joint : spec.joint)
    text += fmt::format("{}[{},{},{}]", text.empty() ? "" : ",", joint.a, joint.b,
                        WriteJointDocument({.policy = joint.policy}));
  return text;
}

// Definitions that are remembered, of a kind that has no end.
constexpr size_t kKnownMax = 1024;

}  // namespace

absl::StatusOr<std::unique_ptr<Tracer>> Tracer::Create(
    const TraceOptions& options, int lanes, std::function<void(const std::string&)> log) {
  COPPICE_ASSIGN_OR_RETURN(std::unique_ptr<TraceWriter> writer,
                           TraceWriter::Create(options, lanes, std::move(log)));
  return std::unique_ptr<Tracer>(new Tracer(std::move(writer), lanes));
}

void Tracer::DefineSession(const std::string& device,
                           int64_t granularity,
                           const SessionOptions& options) {
  writer_->Define(
      fmt::format("{{\"schema\":\"coppice.trace/6\",\"device\":{},\"lanes\":{},\"granularity\":{},"
                  "\"budget\":{},\"options\":{}}}\n",
                  QuoteJson(device), session_ring_, granularity, options.memory.budget_bytes,
                  WriteOptionsDocument(options)));
}

int32_t Tracer::DefineProgram(const ProgramSpec& spec) {
  const int32_t number = programs_.fetch_add(1);
  std::vector<std::string> symbols;
  for (const SymbolSpec& symbol : spec.symbols)
    symbols.push_back(symbol.name);
  std::vector<std::string> scalars;
  for (int i = 0; i < static_cast<int>(spec.scalars.size()); ++i)
    if (IsKeyScalar(spec, i)) scalars.push_back(spec.scalars[static_cast<size_t>(i)].name);
  writer_->Define(fmt::format(
      "{{\"program\":{},\"name\":{},\"variant\":{},\"symbols\":[{}],\"scalars\":[{}],"
      "\"spec\":{},\"policies\":[{}],\"joint\":[{}]}}\n",
      number, QuoteJson(spec.name), QuoteJson(spec.variant), QuoteNames(symbols),
      QuoteNames(scalars), WriteSpecDocument(spec), PoliciesText(spec), JointText(spec)));
  return number;
}

int32_t Tracer::DefineBucket(int32_t program,
                             const NodeInfo& info,
                             std::span<const int64_t> scalars) {
  return DefineBucketOf(BucketText(program, info.lane, info.bucket, scalars));
}

int32_t Tracer::BucketBeyond(int32_t program, int lane, std::span<const int64_t> extents) {
  std::string text = BucketText(program, lane, extents);
  const std::lock_guard<std::mutex> lock(known_mutex_);
  const auto known = beyond_.find(text);
  if (known != beyond_.end()) return known->second;
  if (beyond_.size() == kKnownMax) beyond_.clear();
  const int32_t number = DefineBucketOf(text);
  beyond_.emplace(std::move(text), number);
  return number;
}

int32_t Tracer::DefineBucketOf(const std::string& text) {
  const int32_t number = buckets_.fetch_add(1);
  writer_->Define(fmt::format("{{\"bucket\":{},{}}}\n", number, text));
  return number;
}

int32_t Tracer::DefineNode(const Node& node,
                           const KernelsByPiece& kernels,
                           const PlannedBuffers& planned) {
  const int32_t number = nodes_.fetch_add(1);
  std::string around;
  if (node.key().surroundings != nullptr) {
    for (const Region& region : node.key().surroundings->live)
      around += fmt::format("{}[{},{}]", around.empty() ? "" : ",", region.offset, region.bytes);
  }
  std::string donated;  // Not written where there is none.
  for (const Buffer& buffer : planned.buffers) {
    if (!buffer.fixed_offset.has_value()) continue;
    donated += fmt::format("{}[{},{},{}]", donated.empty() ? ",\"donated\":[" : ",",
                           *buffer.fixed_offset, buffer.bytes, buffer.lifetime[0].upper);
  }
  if (!donated.empty()) donated += "]";
  const NodeInfo& info = node.info();
  writer_->Define(fmt::format(
      "{{\"node\":{},\"bucket\":{},\"height\":{},\"live\":{},\"method\":{},\"graph_nodes\":{},"
      "\"exec_bytes\":{},\"record_ns\":{},\"reason\":\"{}\",\"around\":[{}]{},"
      "\"kernels\":[{}]{},\"buffers\":[{}]}}\n",
      number, node.bucket().trace_number(), info.plan_height, info.live_bytes,
      QuoteJson(info.plan_method), info.graph_nodes, info.exec_bytes, info.record_ns,
      NameOf(node.made_for()), around, donated, DescribeKernels(kernels), DescribePieces(kernels),
      DescribeBuffers(node, planned)));
  return number;
}

void Tracer::Fail(int lane, int32_t bucket, const absl::Status& why) {
  const std::optional<DriverFailure> driver = DriverFailureOf(why);
  std::string text = fmt::format(
      "\"driver_call\":{},\"code\":{},\"message\":{}", QuoteJson(driver ? driver->entry : ""),
      QuoteJson(driver ? NameOf(driver->result) : absl::StatusCodeToString(why.code())),
      QuoteJson(MessageOf(why)));
  const std::lock_guard<std::mutex> lock(known_mutex_);
  const int32_t number = NumberOf("failure", text, failures_, failure_count_);
  Put(lane, FailEvent{.bucket = bucket, .failure = number});
}

void Tracer::Mark(std::string_view name) {
  const std::string text = "\"name\":" + QuoteJson(std::string(name));
  // Until the event is there, so that marks lie in the file in the order of their times.
  const std::lock_guard<std::mutex> lock(known_mutex_);
  const int32_t number = NumberOf("mark", text, marks_, mark_count_);
  PutOfSession(MarkEvent{.mark = number});
}

void Tracer::Policy(int32_t program, int symbol, const PaddingPolicy& policy) {
  const std::string text = "\"document\":" + WritePolicyDocument({.policy = policy});
  const std::lock_guard<std::mutex> lock(known_mutex_);
  const int32_t number = NumberOf("policy", text, policies_, policy_count_);
  PutOfSession(PolicyEvent{.program = program, .symbol = symbol, .policy = number});
}

void Tracer::Request(const RequestTimes& times) {
  PutOfSession(RequestEvent{.request = times.id,
                            .first_token_ns = times.first_token_ns,
                            .last_token_ns = times.last_token_ns,
                            .input_tokens = times.input_tokens,
                            .output_tokens = times.output_tokens});
}

void Tracer::CallOfMany(int lane, const Ran& ran) {
  FurtherExtents further;
  for (size_t i = RingCall::kExtents; i < ran.extents.size(); ++i)
    further.extents[i - RingCall::kExtents] = Held(ran.extents[i]);
  const uint64_t ticks = writer_->clock().Now();
  writer_->Put(static_cast<size_t>(lane), further, Told(ran, ticks), ticks);
}

int32_t Tracer::NumberOf(const char* kind,
                         const std::string& text,
                         std::map<std::string, int32_t>& known,
                         int32_t& count) {
  const auto found = known.find(text);
  if (found != known.end()) return found->second;
  const int32_t number = count++;
  writer_->Define(fmt::format("{{\"{}\":{},{}}}\n", kind, number, text));
  if (known.size() == kKnownMax) known.clear();
  known.emplace(text, number);
  return number;
}

void Tracer::Bytes(MemoryKind kind, int64_t bytes, int64_t total) {
  PutOfSession(BytesEvent{.kind = kind, .bytes = bytes, .total_bytes = total});
}

}  // namespace coppice::internal
