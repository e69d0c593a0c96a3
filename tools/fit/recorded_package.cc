// A session that records and calls nothing.

#include "tools/fit/recorded_package.h"

#include <algorithm>
#include <set>
#include <span>

#include "coppice/base/status.h"
#include "coppice/base/units.h"
#include "coppice/graphs/session.h"

#include "tools/package/key_file.h"
#include "tools/prof/whatif/call_arguments.h"
#include "tools/prof/whatif/traced_spec.h"

namespace coppice {
namespace {

constexpr int64_t kGranularity = 2 * kMiB;  // As all devices have it.

int64_t BytesOf(const Tensor& tensor) {
  return tensor.span() * SizeOf(tensor.dtype);
}

Tensor TensorOf(const package::Constant& constant) {
  Tensor tensor = Tensor::Dense(0, constant.dtype, constant.shape);
  std::ranges::copy(constant.strides, tensor.strides.begin());
  return tensor;
}

// One program, registered and bound.
struct Registered {
  const Program* program = nullptr;
  const Binding* binding = nullptr;  // Null: it binds nothing.
  int64_t static_bytes = 0;
};

absl::StatusOr<Registered> RegisterProgram(Session& session,
                                           const package::LoadedPackage& loaded,
                                           const ProgramTraffic& traffic,
                                           const PackageProgramOptions& options) {
  Registered registered;
  COPPICE_ASSIGN_OR_RETURN(
      registered.program,
      session.Register(
          loaded, loaded.manifest().programs[static_cast<size_t>(traffic.program)].name, options));
  const ProgramSpec& spec = Session::SpecOf(*registered.program);
  std::vector<Tensor> statics;
  const auto add = [&](const auto& tensor) {
    Tensor made = TensorOf(tensor, {}, 0);
    made.data = WeightlessDevice::TakeAddresses(std::max<int64_t>(BytesOf(made), 1));
    registered.static_bytes += BytesOf(made);
    statics.push_back(made);
  };
  for (const InputSpec& input : spec.inputs)
    if (input.role == InputRole::kStatic) add(input);
  for (const OutputSpec& output : spec.outputs)
    if (output.role == OutputRole::kStatic) add(output);
  if (statics.empty()) return registered;
  COPPICE_ASSIGN_OR_RETURN(registered.binding, session.Bind(*registered.program, statics));
  return registered;
}

std::vector<std::vector<int64_t>> BucketsOf(const ProgramTraffic& traffic,
                                            const std::vector<int64_t>& sizes) {
  std::vector<std::vector<int64_t>> buckets;
  for (const int64_t size : sizes) {
    std::vector<int64_t>& bucket = buckets.emplace_back(traffic.extents);
    bucket[static_cast<size_t>(traffic.symbol)] = size;
  }
  return buckets;
}

// Makes calls of a program on tensors of its own.
class Caller {
 public:
  static absl::StatusOr<Caller> Create(Session& session, const Registered& registered) {
    const ProgramSpec& spec = Session::SpecOf(*registered.program);
    COPPICE_ASSIGN_OR_RETURN(std::vector<Expression> expressions, CompileExtents(spec));
    Caller caller(session, registered, std::move(expressions));
    for (size_t i = 0; i < spec.inputs.size() + spec.outputs.size(); ++i)
      caller.addresses_.push_back(WeightlessDevice::TakeAddresses(kTensorAddresses));
    return caller;
  }

  absl::Status Call(const std::vector<int64_t>& extents, CuStream stream, int lane) const {
    const std::vector<int32_t> narrow(extents.begin(), extents.end());
    const CallArguments arguments =
        ArgumentsOf(Session::SpecOf(*registered_.program), expressions_, narrow, {}, addresses_);
    return session_
        .Run({.program = registered_.program,
              .binding = registered_.binding,
              .inputs = arguments.inputs,
              .scalars = arguments.scalars,
              .extents = arguments.given,
              .stream = stream,
              .lane = lane})
        .status();
  }

 private:
  Caller(Session& session, const Registered& registered, std::vector<Expression> expressions)
      : session_(session), registered_(registered), expressions_(std::move(expressions)) {}

  Session& session_;
  const Registered& registered_;
  std::vector<Expression> expressions_;
  std::vector<DeviceAddress> addresses_;
};

// Twice what the second lane added, and so on.
void AddLanes(const RecordedMemory& one, int64_t lanes, RecordedMemory& two) {
  const auto more = [&](int64_t first, int64_t second) {
    return first + (lanes - 1) * (second - first);
  };
  for (size_t kind = 0; kind < two.usage.bytes.size(); ++kind)
    two.usage.bytes[kind] = more(one.usage.bytes[kind], two.usage.bytes[kind]);
  two.usage.total = more(one.usage.total, two.usage.total);
  two.families = more(one.families, two.families);
  two.lanes = lanes;
}

}  // namespace

int64_t RecordedMemory::pool_bytes() const {
  return usage.of(MemoryKind::kPlan) + usage.of(MemoryKind::kEager) + usage.of(MemoryKind::kSpare);
}

int64_t RecordedMemory::exec_bytes() const {
  return usage.of(MemoryKind::kGraphs);
}

int64_t RecordedMemory::staging_bytes() const {
  return usage.of(MemoryKind::kStaging) + usage.of(MemoryKind::kCopyOut) +
         usage.of(MemoryKind::kWorkspace);
}

int64_t RecordedMemory::constants_bytes() const {
  return usage.of(MemoryKind::kConstants);
}

absl::StatusOr<std::unique_ptr<RecordedPackage>> RecordedPackage::Open(
    const std::string& path, const std::vector<std::string>& trusted_keys) {
  std::unique_ptr<RecordedPackage> recorded(new RecordedPackage());
  COPPICE_ASSIGN_OR_RETURN(package::Package package, OpenSigned(path, trusted_keys));
  COPPICE_RETURN_IF_ERROR(package.Verify());
  COPPICE_ASSIGN_OR_RETURN(recorded->device_, WeightlessDevice::Open(kGranularity));
  package::LoadOptions options;
  options.allow_ptx = true;
  COPPICE_ASSIGN_OR_RETURN(
      recorded->loaded_,
      package::LoadedPackage::Load(recorded->device_->context(), std::move(package), options));
  for (const package::Constant& constant : recorded->manifest().constants) {
    if (constant.file >= 0) continue;
    Tensor tensor = TensorOf(constant);
    tensor.data = WeightlessDevice::TakeAddresses(std::max<int64_t>(BytesOf(tensor), 1));
    recorded->given_constants_bytes_ += BytesOf(tensor);
    recorded->constants_[constant.name] = tensor;
  }
  return recorded;
}

absl::StatusOr<RecordedMemory> RecordedPackage::Record(const std::vector<ProgramTraffic>& programs,
                                                       const Recording& recording) {
  if (recording.lanes <= 2) return RecordOn(static_cast<int>(recording.lanes), programs, recording);
  COPPICE_ASSIGN_OR_RETURN(const RecordedMemory one, RecordOn(1, programs, recording));
  COPPICE_ASSIGN_OR_RETURN(RecordedMemory memory, RecordOn(2, programs, recording));
  AddLanes(one, recording.lanes, memory);
  return memory;
}

absl::StatusOr<RecordedMemory> RecordedPackage::RecordOn(
    int lanes, const std::vector<ProgramTraffic>& programs, const Recording& recording) {
  SessionOptions options;
  options.lanes = lanes;
  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                           Session::Create(device_->context(), options));
  // What a function launches is not known; one kernel stands for it.
  const StepFunction function = [this](const FunctionCall& call) {
    return device_->Launch(call.stream, 1);
  };
  static_bytes_ = 0;
  for (size_t i = 0; i < programs.size(); ++i) {
    const ProgramTraffic& traffic = programs[i];
    const package::Program& program = manifest().programs[static_cast<size_t>(traffic.program)];
    const std::string& symbol = program.symbols[static_cast<size_t>(traffic.symbol)].name;
    PackageProgramOptions given{.policies = {{symbol, recording.policies[i]}},
                                .exact = recording.exact,
                                .constants = constants_};
    for (const package::Step& step : program.steps)
      if (const auto* call = std::get_if<package::CallStep>(&step.action))
        given.functions.emplace(call->function, function);
    COPPICE_ASSIGN_OR_RETURN(const Registered registered,
                             RegisterProgram(*session, *loaded_, traffic, given));
    static_bytes_ = std::max(static_bytes_, registered.static_bytes);
    const auto buckets = BucketsOf(traffic, recording.buckets[i]);
    const std::vector<int64_t> scalars(Session::SpecOf(*registered.program).scalars.size());
    COPPICE_ASSIGN_OR_RETURN(const Caller caller, Caller::Create(*session, registered));
    for (int lane = 0; lane < lanes; ++lane) {
      COPPICE_RETURN_IF_ERROR(session->warming().Warm(*registered.program, registered.binding,
                                                      buckets, scalars, {.lane = lane}));
      COPPICE_ASSIGN_OR_RETURN(const CuStream stream, device_->StreamOf(lane));
      if (traffic.beyond > 0)
        COPPICE_RETURN_IF_ERROR(caller.Call(BucketsOf(traffic, {traffic.beyond})[0], stream, lane));
      for (size_t bucket = 0; lane == 0 && !recording.launches.empty() && bucket < buckets.size();
           ++bucket)
        for (int64_t launch = 0; launch < recording.launches[i][bucket]; ++launch)
          COPPICE_RETURN_IF_ERROR(caller.Call(buckets[bucket], stream, lane));
    }
  }
  RecordedMemory memory{.usage = session->memory().books(), .lanes = lanes};
  std::set<std::pair<int, int64_t>> families;
  for (NodeInfo& node : session->nodes()) {
    if (node.family > 0) families.emplace(node.lane, node.family);
    if (node.lane == 0 && node.recorded) memory.nodes.push_back(std::move(node));
  }
  memory.families = std::ssize(families);
  if (!recording.profile.empty())
    COPPICE_RETURN_IF_ERROR(session->warming().SaveProfile(recording.profile));
  return memory;
}

}  // namespace coppice
