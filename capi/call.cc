// Calls, and what becomes of their outputs.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "coppice/base/status.h"

#include "capi/failure.h"
#include "capi/handles.h"
#include "capi/structs.h"
#include "capi/tensors.h"

namespace coppice::capi {
namespace {

// A Call, and the tensors that its spans show.
struct ReadCall {
  Tensors inputs;
  Tensors targets;
  Call call;
};

absl::Status ReadCallInto(const coppice_session& session,
                          const coppice_call* pointer,
                          ReadCall& read) {
  COPPICE_ASSIGN_OR_RETURN(const coppice_call given, ReadStruct(pointer, "coppice_call"));
  Call& call = read.call;
  COPPICE_ASSIGN_OR_RETURN(call.program, ProgramOf(session, given.program));
  COPPICE_ASSIGN_OR_RETURN(call.binding, BindingOf(session, given.binding));
  COPPICE_RETURN_IF_ERROR(CheckLane(session, given.lane));
  call.lane = given.lane;
  call.stream = static_cast<CuStream>(given.stream);
  COPPICE_ASSIGN_OR_RETURN(read.inputs,
                           TensorsOf(given.inputs, given.input_count, session.kind(), "input"));
  call.inputs = read.inputs;
  COPPICE_ASSIGN_OR_RETURN(read.targets,
                           TensorsOf(given.targets, given.target_count, session.kind(), "target"));
  call.targets = read.targets;
  COPPICE_RETURN_IF_ERROR(CheckArray(given.scalars, given.scalar_count, "scalars"));
  call.scalars = std::span(given.scalars, static_cast<size_t>(given.scalar_count));
  COPPICE_RETURN_IF_ERROR(CheckArray(given.extents, given.extent_count, "extents"));
  call.extents = std::span(given.extents, static_cast<size_t>(given.extent_count));
  COPPICE_ASSIGN_OR_RETURN(call.output_mode,
                           EnumOf<OutputMode>(given.output_mode, 3, "output_mode"));
  COPPICE_ASSIGN_OR_RETURN(call.poison, EnumOf<Poison>(given.poison, 4, "poison"));
  return absl::OkStatus();
}

absl::Status WarmSession(coppice_session& session,
                         const Program& program,
                         std::span<const int64_t> extents,
                         size_t symbols,
                         const coppice_warm_options* given) {
  COPPICE_ASSIGN_OR_RETURN(const coppice_warm_options read,
                           ReadOptions(given, "coppice_warm_options"));
  COPPICE_RETURN_IF_ERROR(CheckLane(session, read.lane));
  WarmOptions options;
  options.lane = read.lane;
  COPPICE_ASSIGN_OR_RETURN(options.scratch, BindingOf(session, read.scratch));
  COPPICE_ASSIGN_OR_RETURN(const Binding* const binding, BindingOf(session, read.binding));
  COPPICE_RETURN_IF_ERROR(CheckArray(read.scalars, read.scalar_count, "scalars"));
  if (read.progress != nullptr) {
    options.progress = [progress = read.progress, user = read.user](int64_t done, int64_t total) {
      progress(user, done, total);
    };
  }
  std::vector<std::vector<int64_t>> buckets;
  for (size_t at = 0; at < extents.size(); at += symbols) {
    const std::span<const int64_t> row = extents.subspan(at, symbols);
    buckets.emplace_back(row.begin(), row.end());
  }
  return session.session->Warm(program, binding, buckets,
                               std::span(read.scalars, static_cast<size_t>(read.scalar_count)),
                               options);
}

// The outputs that a lease gave up, shared by the tensors that show them.
struct Detached : Counted {
  explicit Detached(DetachedOutputs taken, Held<coppice_device> of)
      : device(std::move(of)), outputs(std::in_place, std::move(taken)) {}
  ~Detached() {
    (void)device->context->MakeCurrent().ok();
    outputs.reset();
  }

  Held<coppice_device> device;
  std::optional<DetachedOutputs> outputs;
};

// One of them, as DLPack owns it.
struct DetachedTensor {
  Held<Detached> detached;
  Tensor tensor;
  DLManagedTensorVersioned managed;
};

void DeleteDetached(DLManagedTensorVersioned* managed) {
  delete static_cast<DetachedTensor*>(managed->manager_ctx);
}

absl::Status DetachInto(coppice_lease& lease,
                        void* stream,
                        DLManagedTensorVersioned** out,
                        int64_t out_count) {
  if (lease.scopes.load() != 0)
    return FailedPrecondition("lease: a scope on it is open; end it first");
  const int outputs = lease.lease.output_count();
  if (out_count != outputs)
    return InvalidArgument("lease: {} outputs, room for {}", outputs, out_count);
  COPPICE_RETURN_IF_ERROR(CheckArray(out, out_count, "out"));
  std::vector<std::unique_ptr<DetachedTensor>> tensors;
  for (int i = 0; i < outputs; ++i)
    tensors.push_back(std::make_unique<DetachedTensor>());
  COPPICE_ASSIGN_OR_RETURN(DetachedOutputs taken,
                           lease.lease.Detach(static_cast<CuStream>(stream)));
  const auto detached = Held<Detached>::Adopt(new Detached(std::move(taken), lease.device));
  for (int i = 0; i < outputs; ++i) {
    DetachedTensor& tensor = *tensors[static_cast<size_t>(i)];
    tensor.detached = detached;
    tensor.tensor = detached->outputs->output(i);
    const bool copied = detached->outputs->way(i) == DetachedOutputs::Way::kCopied;
    tensor.managed = {.version = {.major = DLPACK_MAJOR_VERSION, .minor = DLPACK_MINOR_VERSION},
                      .manager_ctx = &tensor,
                      .deleter = &DeleteDetached,
                      .flags = copied ? DLPACK_FLAG_BITMASK_IS_COPIED : 0,
                      .dl_tensor = DLTensorOf(tensor.tensor, lease.device->dl())};
    out[i] = &tensors[static_cast<size_t>(i)].release()->managed;
  }
  return absl::OkStatus();
}

// An output of a scope. `find` gets the scope and the index.
template <typename Find>
coppice_status ShowOutput(coppice_read* scope,
                          int32_t index,
                          coppice_view* out,
                          Find&& find) noexcept {
  return Answer([&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckHandle(scope, "scope"));
    COPPICE_RETURN_IF_ERROR(CheckView(out));
    const int count = scope->lease->lease.output_count();
    if (index < 0 || index >= count)
      return InvalidArgument("output {}: the lease has {}", index, count);
    COPPICE_ASSIGN_OR_RETURN(const Tensor tensor, find(*scope->scope, index));
    WriteView(tensor, scope->lease->device->dl(), out);
    return absl::OkStatus();
  });
}

}  // namespace
}  // namespace coppice::capi

using coppice::InvalidArgument;
using coppice::capi::Answer;
using coppice::capi::CheckHandle;
using coppice::capi::ClearOut;
using coppice::capi::Held;

coppice_status coppice_run(coppice_session* session,
                           const coppice_call* call,
                           coppice_lease** out) {
  return Answer([&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(ClearOut(out, "coppice_run"));
    COPPICE_RETURN_IF_ERROR(CheckHandle(session, "session"));
    coppice::capi::ReadCall read;
    COPPICE_RETURN_IF_ERROR(coppice::capi::ReadCallInto(*session, call, read));
    // Made beforehand: no call may have run whose lease finds no room.
    auto lease = Held<coppice_lease>::Adopt(new coppice_lease(session, coppice::Lease()));
    COPPICE_ASSIGN_OR_RETURN(lease->lease, session->session->Run(read.call));
    *out = lease.Leak();
    return absl::OkStatus();
  });
}

coppice_status coppice_explain(coppice_session* session,
                               const coppice_call* call,
                               char* buffer,
                               size_t buffer_bytes,
                               size_t* text_bytes) {
  return Answer([&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckHandle(session, "session"));
    coppice::capi::ReadCall read;
    COPPICE_RETURN_IF_ERROR(coppice::capi::ReadCallInto(*session, call, read));
    const coppice::Explanation explanation = session->session->Explain(read.call);
    const std::string& text =
        explanation.status.ok() ? explanation.text : coppice::MessageOf(explanation.status);
    const size_t bytes = coppice::capi::CopyText(text, buffer, buffer_bytes);
    if (text_bytes != nullptr) *text_bytes = bytes;
    return absl::OkStatus();
  });
}

coppice_status coppice_warm(coppice_session* session,
                            coppice_program* program,
                            const int64_t* buckets,
                            int64_t bucket_count,
                            int64_t symbol_count,
                            const coppice_warm_options* options) {
  return Answer([&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckHandle(session, "session"));
    COPPICE_ASSIGN_OR_RETURN(const coppice::Program* const of,
                             coppice::capi::ProgramOf(*session, program));
    if (symbol_count < 1 || symbol_count > coppice::kSymbolsMax)
      return InvalidArgument("warm: {} symbols; 1 to {}", symbol_count, coppice::kSymbolsMax);
    COPPICE_RETURN_IF_ERROR(coppice::capi::CheckArray(buckets, bucket_count, "buckets"));
    return coppice::capi::WarmSession(
        *session, *of, std::span(buckets, static_cast<size_t>(bucket_count * symbol_count)),
        static_cast<size_t>(symbol_count), options);
  });
}

const char* coppice_run_kind_name(int32_t kind) {
  if (kind < 0 || kind >= coppice::kRunKindCount) return "unknown";
  return coppice::NameOf(static_cast<coppice::RunKind>(kind));
}

const char* coppice_reason_name(int32_t reason) {
  if (reason < 0 || reason >= coppice::kReasonCount) return "unknown";
  return coppice::NameOf(static_cast<coppice::Reason>(reason));
}

coppice_status coppice_lease_describe(coppice_lease* lease, coppice_lease_info* out) {
  return Answer([&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckHandle(lease, "lease"));
    COPPICE_RETURN_IF_ERROR(coppice::capi::CheckOut(out, "coppice_lease_info"));
    coppice_lease_info info{};
    info.kind = static_cast<int32_t>(lease->lease.kind());
    info.reason = static_cast<int32_t>(lease->lease.reason());
    info.output_count = lease->lease.output_count();
    info.call_number = lease->lease.call_number();
    coppice::capi::WriteStruct(info, out);
    return absl::OkStatus();
  });
}

void coppice_lease_release(coppice_lease* lease) {
  if (lease != nullptr) (void)Held<coppice_lease>::Adopt(lease);
}

coppice_status coppice_lease_read(coppice_lease* lease, void* stream, coppice_read** out) {
  return Answer([&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(ClearOut(out, "coppice_lease_read"));
    COPPICE_RETURN_IF_ERROR(CheckHandle(lease, "lease"));
    COPPICE_ASSIGN_OR_RETURN(coppice::ReadScope scope,
                             lease->lease.Read(static_cast<coppice::CuStream>(stream)));
    *out = new coppice_read(lease, lease->session, std::move(scope));
    lease->scopes.fetch_add(1);
    return absl::OkStatus();
  });
}

coppice_status coppice_read_output(coppice_read* scope, int32_t index, coppice_view* out) {
  using Found = absl::StatusOr<coppice::Tensor>;
  return coppice::capi::ShowOutput(
      scope, index, out,
      [](const coppice::ReadScope& on, int at) -> Found { return on.output(at); });
}

coppice_status coppice_read_sized_output(coppice_read* scope, int32_t index, coppice_view* out) {
  return coppice::capi::ShowOutput(
      scope, index, out, [](const coppice::ReadScope& on, int at) { return on.ReadSized(at); });
}

void coppice_read_end(coppice_read* scope) {
  if (scope == nullptr) return;
  scope->lease->scopes.fetch_sub(1);
  delete scope;
}

coppice_status coppice_lease_detach(coppice_lease* lease,
                                    void* stream,
                                    DLManagedTensorVersioned** out,
                                    int64_t out_count) {
  return Answer([&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckHandle(lease, "lease"));
    return coppice::capi::DetachInto(*lease, stream, out, out_count);
  });
}
