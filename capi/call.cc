// Calls: run, included, explained, chained.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "coppice/base/status.h"

#include "capi/answer.h"
#include "capi/described/session_fields.h"

namespace coppice::capi {
namespace {

// A Call, and what its spans show.
struct ReadCall {
  ReadCall() = default;
  ReadCall(const ReadCall&) = delete;
  ReadCall& operator=(const ReadCall&) = delete;
  // Gives the donated leases back, as far as they are left. One that was given twice was taken by
  // its first place.
  ~ReadCall() {
    for (size_t i = donated.size(); i-- > 0;)
      donors[i]->lease = std::move(donated[i]);
  }

  Tensors inputs;
  Tensors targets;
  Tensors counts;
  std::vector<coppice_lease*> donors;
  std::vector<Lease> donated;
  Call call;
};

// A null element is at address 0: the host's extent counts.
absl::StatusOr<Tensors> CountsOf(const coppice_call& given, DLDevice device) {
  COPPICE_RETURN_IF_ERROR(CheckArray(given.counts, given.count_count, "counts"));
  Tensors counts;
  for (int64_t i = 0; i < given.count_count; ++i) {
    counts.emplace_back();
    if (given.counts[i] == nullptr) continue;
    COPPICE_ASSIGN_OR_RETURN(counts.back(), TensorOf(given.counts[i], device, "count", i));
  }
  return counts;
}

absl::Status TakeDonated(const coppice_call& given, ReadCall& read) {
  COPPICE_ASSIGN_OR_RETURN(const auto donors,
                           SpanOf(given.donated, given.donated_count, "donated"));
  for (const coppice_lease* donor : donors)
    COPPICE_RETURN_IF_ERROR(CheckHandle(donor, "donated: an element"));
  read.donors.assign(donors.begin(), donors.end());
  read.donated.resize(read.donors.size());
  for (size_t i = 0; i < read.donors.size(); ++i)
    read.donated[i] = std::move(read.donors[i]->lease);
  read.call.donated = read.donated;
  return absl::OkStatus();
}

absl::Status ReadCallInto(const coppice_session& session,
                          const coppice_call* pointer,
                          ReadCall& read) {
  COPPICE_ASSIGN_OR_RETURN(const coppice_call given, ReadStruct(pointer));
  Call& call = read.call;
  COPPICE_ASSIGN_OR_RETURN(call.program, ProgramOf(session, given.program));
  COPPICE_ASSIGN_OR_RETURN(call.binding, BindingOf(session, given.binding));
  COPPICE_RETURN_IF_ERROR(CheckLane(session, given.lane));
  call.lane = given.lane;
  call.stream = static_cast<CuStream>(given.stream);
  COPPICE_ASSIGN_OR_RETURN(
      read.inputs, TensorsOf(given.inputs, given.input_count, session.device->dl(), "input"));
  call.inputs = read.inputs;
  COPPICE_ASSIGN_OR_RETURN(
      read.targets, TensorsOf(given.targets, given.target_count, session.device->dl(), "target"));
  call.targets = read.targets;
  COPPICE_ASSIGN_OR_RETURN(call.scalars, SpanOf(given.scalars, given.scalar_count, "scalars"));
  COPPICE_ASSIGN_OR_RETURN(call.extents, SpanOf(given.extents, given.extent_count, "extents"));
  COPPICE_ASSIGN_OR_RETURN(call.output_mode, EnumOf<OutputMode>(given.output_mode, "output_mode"));
  COPPICE_ASSIGN_OR_RETURN(call.poison, EnumOf<Poison>(given.poison, "poison"));
  COPPICE_ASSIGN_OR_RETURN(read.counts, CountsOf(given, session.device->dl()));
  call.counts = read.counts;
  return TakeDonated(given, read);
}

// The lease of what `run` does with the call: Session::Run or Session::Include.
coppice_status LeaseOf(coppice_session* session,
                       const coppice_call* call,
                       coppice_lease** out,
                       absl::StatusOr<Lease> (Session::*run)(const Call&)) {
  return AnswerOn(session, out, [&]() -> absl::StatusOr<Held<coppice_lease>> {
    ReadCall read;
    COPPICE_RETURN_IF_ERROR(ReadCallInto(*session, call, read));
    // Made beforehand: no call may have run whose lease finds no room.
    auto lease = Held<coppice_lease>::Adopt(new coppice_lease(session, session->device));
    COPPICE_ASSIGN_OR_RETURN(lease->lease, (session->session.get()->*run)(read.call));
    return lease;
  });
}

}  // namespace

extern "C" {

coppice_status coppice_run(coppice_session* session,
                           const coppice_call* call,
                           coppice_lease** out) {
  return LeaseOf(session, call, out, &Session::Run);
}

coppice_status coppice_include(coppice_session* session,
                               const coppice_call* call,
                               coppice_lease** out) {
  return LeaseOf(session, call, out, &Session::Include);
}

coppice_status coppice_chain_begin(coppice_session* session, int32_t lane, coppice_chain** out) {
  return AnswerOn(session, out, [&]() -> absl::StatusOr<coppice_chain*> {
    COPPICE_RETURN_IF_ERROR(CheckLane(*session, lane));
    COPPICE_ASSIGN_OR_RETURN(ChainScope scope, session->session->Chain(lane));
    return new coppice_chain{.session = Held<coppice_session>::Share(session),
                             .scope = std::move(scope)};
  });
}

void coppice_chain_end(coppice_chain* chain) {
  const CurrentScope current(DeviceOf(chain));
  delete chain;
}

coppice_status coppice_explain(coppice_session* session,
                               const coppice_call* call,
                               char* buffer,
                               size_t buffer_bytes,
                               size_t* text_bytes) {
  return AnswerOn(session, TextOut{buffer, buffer_bytes, text_bytes},
                  [&]() -> absl::StatusOr<std::string> {
                    ReadCall read;
                    COPPICE_RETURN_IF_ERROR(ReadCallInto(*session, call, read));
                    const Explanation told = session->session->Explain(read.call);
                    return told.status.ok() ? told.text : MessageOf(told.status);
                  });
}

const char* coppice_run_kind_name(int32_t kind) {
  return NameOfNumber<RunKind>(kind);
}

const char* coppice_reason_name(int32_t reason) {
  return NameOfNumber<Reason>(reason);
}

}  // extern "C"
}  // namespace coppice::capi
