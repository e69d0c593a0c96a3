// Leases: what becomes of the outputs of calls.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "coppice/base/status.h"

#include "capi/answer.h"
#include "capi/here.h"

namespace coppice::capi {
namespace {

// The outputs that a lease gave up, shared by the tensors that show them.
struct Detached : Counted {
  explicit Detached(DetachedOutputs taken, Held<coppice_device> of)
      : device(std::move(of)), outputs(std::in_place, std::move(taken)) {}
  ~Detached() {
    const CurrentScope current(device.get());
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
    return FailedPrecondition("lease: a read scope on it is open; end the scope first");
  const int part = lease.lease.part();
  const int outputs = part < 0 ? lease.lease.output_count() : 1;
  if (out_count != outputs)
    return InvalidArgument("lease: out_count must be {}, the number of outputs, but is {}", outputs,
                           out_count);
  COPPICE_RETURN_IF_ERROR(CheckArray(out, out_count, "out"));
  std::vector<std::unique_ptr<DetachedTensor>> tensors;
  for (int i = 0; i < outputs; ++i)
    tensors.push_back(std::make_unique<DetachedTensor>());
  COPPICE_ASSIGN_OR_RETURN(
      DetachedOutputs taken,
      lease.lease.Detach(static_cast<CuStream>(stream), lease.device->source.ForDetach(stream)));
  const auto detached = Held<Detached>::Adopt(new Detached(std::move(taken), lease.device));
  for (int i = 0; i < outputs; ++i) {
    DetachedTensor& tensor = *tensors[static_cast<size_t>(i)];
    tensor.detached = detached;
    const int output = part < 0 ? i : part;
    tensor.tensor = detached->outputs->output(output);
    const bool copied = detached->outputs->way(output) == DetachedOutputs::Way::kCopied;
    tensor.managed = {.version = {.major = DLPACK_MAJOR_VERSION, .minor = DLPACK_MINOR_VERSION},
                      .manager_ctx = &tensor,
                      .deleter = &DeleteDetached,
                      .flags = copied ? DLPACK_FLAG_BITMASK_IS_COPIED : 0,
                      .dl_tensor = DLTensorOf(tensor.tensor, lease.device->dl())};
    out[i] = &tensors[static_cast<size_t>(i)].release()->managed;
  }
  return absl::OkStatus();
}

absl::Status SplitInto(coppice_lease& lease, coppice_lease** out, int64_t out_count) {
  if (lease.scopes.load() != 0)
    return FailedPrecondition("lease: a read scope on it is open; end the scope first");
  const int outputs = lease.lease.output_count();
  if (lease.lease.part() < 0 && outputs > 0 && out_count != outputs)
    return InvalidArgument("lease: out_count must be {}, the number of outputs, but is {}", outputs,
                           out_count);
  COPPICE_RETURN_IF_ERROR(CheckArray(out, out_count, "out"));
  std::vector<Held<coppice_lease>> parts;
  for (int i = 0; i < outputs; ++i)
    parts.push_back(Held<coppice_lease>::Adopt(new coppice_lease(lease.session, lease.device)));
  COPPICE_ASSIGN_OR_RETURN(std::vector<Lease> split, lease.lease.Split());
  for (size_t i = 0; i < split.size(); ++i) {
    parts[i]->lease = std::move(split[i]);
    out[i] = parts[i].Leak();
  }
  return absl::OkStatus();
}

// An output of a scope. `find` gets the scope and the index.
template <typename Find>
coppice_status ShowOutput(coppice_read* scope,
                          int32_t index,
                          coppice_view* out,
                          Find&& find) noexcept {
  return AnswerOn(scope, out, [&]() -> absl::StatusOr<ShownTensor> {
    const Lease& lease = scope->lease->lease;
    if (index < 0 || index >= lease.output_count())
      return InvalidArgument("output {}: the lease has only {}, and the first index is 0", index,
                             lease.output_count());
    if (lease.part() >= 0 && index != lease.part())
      return InvalidArgument("output {}: the lease holds only output {}", index, lease.part());
    const absl::StatusOr<Tensor> tensor = find(*scope->scope, index);
    if (!tensor.ok()) return tensor.status();
    return ShownTensor{.tensor = *tensor, .device = scope->lease->device->dl()};
  });
}

}  // namespace

extern "C" {

coppice_status coppice_lease_describe(coppice_lease* lease, coppice_lease_info* out) {
  return AnswerTo(out, [&]() -> absl::StatusOr<coppice_lease_info> {
    COPPICE_RETURN_IF_ERROR(CheckHandle(lease, "lease"));  // All that it needs: it takes no lock.
    const Lease& of = lease->lease;
    return coppice_lease_info{.struct_size = 0,
                              .kind = static_cast<int32_t>(of.kind()),
                              .reason = static_cast<int32_t>(of.reason()),
                              .output_count = of.output_count(),
                              .call_number = of.call_number(),
                              .is_part = of.part() >= 0 ? 1 : 0,
                              .part = std::max(of.part(), 0)};
  });
}

void coppice_lease_release(coppice_lease* lease) {
  if (lease != nullptr) (void)Held<coppice_lease>::Adopt(lease);
}

coppice_status coppice_lease_release_after(coppice_lease* lease, void* stream) {
  return AnswerOn(lease, [&]() -> absl::Status {
    const auto released = Held<coppice_lease>::Adopt(lease);
    if (released->scopes.load() != 0)
      return FailedPrecondition(
          "lease: a read scope on it is open, so the lane would wait only for the stream of that "
          "scope; end the scope first");
    return released->lease.Release(static_cast<CuStream>(stream));
  });
}

coppice_status coppice_lease_split(coppice_lease* lease, coppice_lease** out, int64_t out_count) {
  return AnswerOn(lease, [&] { return SplitInto(*lease, out, out_count); });
}

coppice_status coppice_lease_read(coppice_lease* lease, void* stream, coppice_read** out) {
  return AnswerOn(lease, out, [&]() -> absl::StatusOr<coppice_read*> {
    COPPICE_ASSIGN_OR_RETURN(ReadScope scope, lease->lease.Read(static_cast<CuStream>(stream)));
    auto* const read = new coppice_read(lease, lease->session, std::move(scope));
    lease->scopes.fetch_add(1);
    return read;
  });
}

coppice_status coppice_read_output(coppice_read* scope, int32_t index, coppice_view* out) {
  return ShowOutput(scope, index, out, [](const ReadScope& on, int at) { return on.output(at); });
}

coppice_status coppice_read_sized_output(coppice_read* scope, int32_t index, coppice_view* out) {
  return ShowOutput(scope, index, out,
                    [](const ReadScope& on, int at) { return on.ReadSized(at); });
}

coppice_status coppice_read_count(coppice_read* scope, int32_t index, coppice_view* out) {
  return ShowOutput(scope, index, out, [](const ReadScope& on, int at) -> absl::StatusOr<Tensor> {
    const Tensor count = on.count(at);
    if (count.data != 0) return count;
    return MakeError(
        absl::StatusCode::kNotFound,
        "output {}: the device does not decide the size of this output; read the whole output", at);
  });
}

void coppice_read_end(coppice_read* scope) {
  if (scope == nullptr) return;
  const CurrentScope current(DeviceOf(scope));
  scope->lease->scopes.fetch_sub(1);
  delete scope;
}

coppice_status coppice_lease_detach(coppice_lease* lease,
                                    void* stream,
                                    DLManagedTensorVersioned** out,
                                    int64_t out_count) {
  return AnswerOn(lease, [&] { return DetachInto(*lease, stream, out, out_count); });
}

}  // extern "C"
}  // namespace coppice::capi
