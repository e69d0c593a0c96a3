// Sessions: made, told what to do, asked what they hold.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

#include "coppice/base/status.h"

#include "capi/described/session_fields.h"
#include "capi/failure.h"
#include "capi/handles.h"
#include "capi/here.h"
#include "capi/on_device.h"
#include "capi/session_options.h"
#include "capi/structs.h"

namespace coppice::capi {
namespace {

absl::StatusOr<Held<coppice_session>> CreateOn(coppice_device* device,
                                               const coppice_session_options* given) {
  COPPICE_RETURN_IF_ERROR(CheckHandle(device, "device"));
  auto handle = Held<coppice_session>::Adopt(new coppice_session);
  handle->device = Held<coppice_device>::Share(device);
  COPPICE_ASSIGN_OR_RETURN(const SessionOptions options, SessionOptionsOf(given, *handle));
  handle->lanes = options.lanes;
  COPPICE_ASSIGN_OR_RETURN(handle->session, Session::Create(*device->context, options));
  ++device->sessions;
  return handle;
}

// What `body` does with a session that is there.
template <typename Body>
coppice_status With(coppice_session* session, Body&& body) noexcept {
  return AnswerOn(session, [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckSession(session));
    return body(*session->session);
  });
}

// The same, of what asks no driver for anything.
template <typename Body>
coppice_status WithHostSide(coppice_session* session, Body&& body) noexcept {
  return Answer([&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckSession(session));
    return body(*session->session);
  });
}

absl::StatusOr<coppice_loan*> LendOf(coppice_session& session, int32_t lane) {
  COPPICE_ASSIGN_OR_RETURN(Loan loan, session.session->memory().Lend(lane));
  return new coppice_loan{.session = Held<coppice_session>::Share(&session),
                          .loan = std::move(loan)};
}

absl::Status WriteStats(const Session& session, coppice_session_stats* out) {
  COPPICE_RETURN_IF_ERROR(CheckOut(out, "coppice_session_stats"));
  WriteStruct(StructOf(session.stats()), out);
  return absl::OkStatus();
}

absl::Status WriteUsage(const Session& session, coppice_memory_usage* out) {
  COPPICE_RETURN_IF_ERROR(CheckOut(out, "coppice_memory_usage"));
  coppice_memory_usage told = StructOf(session.memory().usage());
  told.kind_count = kMemoryKindCount;
  WriteStruct(told, out);
  return absl::OkStatus();
}

std::string BucketsAsJson(const Session& session) {
  nlohmann::json buckets = nlohmann::json::array();
  for (const NodeInfo& node : session.nodes()) {
    buckets.push_back({{"program", node.program},
                       {"variant", node.variant},
                       {"bucket", node.bucket},
                       {"lane", node.lane},
                       {"recorded", node.recorded},
                       {"retired", node.retired},
                       {"number", node.number},
                       {"plan_height", node.plan_height},
                       {"live_bytes", node.live_bytes},
                       {"serial", node.serial},
                       {"graph_nodes", node.graph_nodes},
                       {"family", node.family},
                       {"record_ns", node.record_ns},
                       {"replays", node.replays}});
  }
  // Names are the caller's, and may hold any bytes.
  return buckets.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<LoadProfileOptions> ProfileOptionsOf(const coppice_session& session,
                                                    const coppice_profile_options* given) {
  COPPICE_ASSIGN_OR_RETURN(const coppice_profile_options options,
                           ReadOptions(given, "coppice_profile_options"));
  LoadProfileOptions load;
  load.lane = options.lane;
  load.graphs_max = options.graphs_max;
  load.bytes_max = options.bytes_max;
  if (options.progress != nullptr) {
    load.progress = [&session, progress = options.progress, user = options.user](int64_t done,
                                                                                 int64_t total) {
      const HereScope here({.session = &session});
      progress(user, done, total);
    };
  }
  COPPICE_RETURN_IF_ERROR(CheckArray(options.bindings, options.binding_count, "bindings"));
  for (int64_t i = 0; i < options.binding_count; ++i) {
    ProfileBinding binding;
    COPPICE_RETURN_IF_ERROR(CheckHandle(options.bindings[i], "bindings: an element"));
    COPPICE_ASSIGN_OR_RETURN(binding.binding, BindingOf(session, options.bindings[i]));
    if (options.scratches != nullptr) {
      COPPICE_ASSIGN_OR_RETURN(binding.scratch, BindingOf(session, options.scratches[i]));
    }
    load.bindings.push_back(binding);
  }
  return load;
}

absl::Status LoadProfileInto(coppice_session& session,
                             const char* path,
                             const coppice_profile_options* options,
                             coppice_loaded_profile* out) {
  COPPICE_ASSIGN_OR_RETURN(const std::string file, NameIn(path, "path"));
  if (out != nullptr) COPPICE_RETURN_IF_ERROR(CheckOut(out, "coppice_loaded_profile"));
  COPPICE_ASSIGN_OR_RETURN(const LoadProfileOptions load, ProfileOptionsOf(session, options));
  COPPICE_ASSIGN_OR_RETURN(const LoadedProfile loaded,
                           session.session->warming().LoadProfile(file, load));
  if (out == nullptr) return absl::OkStatus();
  coppice_loaded_profile told{};
  told.recorded = loaded.recorded;
  told.present = loaded.present;
  told.skipped = static_cast<int64_t>(loaded.skipped.size());
  WriteStruct(told, out);
  return absl::OkStatus();
}

}  // namespace
}  // namespace coppice::capi

using coppice::Session;
using coppice::capi::Answer;
using coppice::capi::AnswerOn;
using coppice::capi::CheckHandle;
using coppice::capi::ClearOut;
using coppice::capi::Held;
using coppice::capi::With;
using coppice::capi::WithHostSide;

coppice_session::~coppice_session() {
  const coppice::capi::CurrentScope current(device.get());
  if (session != nullptr) --device->sessions;
  session.reset();
}

coppice_program* coppice_session::HandleOf(const coppice::Program* program) {
  const std::lock_guard lock(mutex);
  return &programs.try_emplace(program, coppice_program{this, program}).first->second;
}

coppice_binding* coppice_session::HandleOf(const coppice::Binding* binding) {
  const std::lock_guard lock(mutex);
  return &bindings.try_emplace(binding, coppice_binding{this, binding}).first->second;
}

void coppice_session::Hold(const coppice::Program* program, Held<coppice::capi::ProgramNeeds> its) {
  const std::lock_guard lock(mutex);
  needs.insert_or_assign(program, std::move(its));
}

void coppice_session::Forget(const coppice::Program* program) {
  Held<coppice::capi::ProgramNeeds> its;  // Ends when both locks are given back.
  const std::unique_lock alone(looking);
  const std::lock_guard lock(mutex);
  const auto found = needs.find(program);
  if (found == needs.end()) return;
  its = std::move(found->second);
  needs.erase(found);
}

coppice_status coppice_session_create(coppice_device* device,
                                      const coppice_session_options* options,
                                      coppice_session** out) {
  return AnswerOn(device, [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(ClearOut(out, "coppice_session_create"));
    COPPICE_ASSIGN_OR_RETURN(Held<coppice_session> session,
                             coppice::capi::CreateOn(device, options));
    *out = session.Leak();
    return absl::OkStatus();
  });
}

void coppice_session_release(coppice_session* session) {
  coppice::capi::Release(session);
}

coppice_status coppice_set_stance(coppice_session* session, int32_t stance) {
  return WithHostSide(session, [&](Session& on) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const coppice::Stance read,
                             coppice::capi::EnumOf<coppice::Stance>(stance, "stance"));
    on.SetStance(read);
    return absl::OkStatus();
  });
}

coppice_status coppice_set_seed(coppice_session* session, uint64_t seed) {
  return WithHostSide(session, [&](Session& on) {
    on.SetSeed(seed);
    return absl::OkStatus();
  });
}

coppice_status coppice_evict(coppice_session* session, coppice_program* program, int64_t* dropped) {
  return With(session, [&](Session& on) -> absl::Status {
    const coppice::Program* of = nullptr;
    if (program != nullptr) {
      COPPICE_ASSIGN_OR_RETURN(of, coppice::capi::ProgramOf(*session, program));
    }
    COPPICE_ASSIGN_OR_RETURN(const int64_t count, on.Evict(of));
    if (dropped != nullptr) *dropped = count;
    return absl::OkStatus();
  });
}

coppice_status coppice_trim(coppice_session* session) {
  return With(session, [](Session& on) { return on.memory().Trim(); });
}

coppice_status coppice_suspend(coppice_session* session, const coppice_suspend_options* options) {
  return With(session, [&](Session& on) -> absl::Status {
    constexpr coppice::SuspendedConstants kConstants[] = {coppice::SuspendedConstants::kSave,
                                                          coppice::SuspendedConstants::kKeep,
                                                          coppice::SuspendedConstants::kReload};
    COPPICE_ASSIGN_OR_RETURN(const coppice_suspend_options given,
                             coppice::capi::ReadOptions(options, "coppice_suspend_options"));
    COPPICE_ASSIGN_OR_RETURN(
        const int constants,
        coppice::capi::EnumOf<int>(
            given.constants, coppice::capi::kCountOf<coppice::SuspendedConstants>, "constants"));
    return on.memory().Suspend({.constants = kConstants[constants],
                                .refuse_leases = given.refuse_leases != 0,
                                .drop_graphs = given.drop_graphs != 0});
  });
}

coppice_status coppice_resume(coppice_session* session) {
  return With(session, [](Session& on) { return on.memory().Resume(); });
}

coppice_status coppice_set_external_bytes(coppice_session* session, int64_t bytes) {
  return With(session, [&](Session& on) { return on.memory().SetExternalBytes(bytes); });
}

coppice_status coppice_lend(
    coppice_session* session, int32_t lane, uint64_t* address, int64_t* bytes, coppice_loan** out) {
  return AnswerOn(session, [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(ClearOut(out, "coppice_lend"));
    COPPICE_RETURN_IF_ERROR(CheckSession(session));
    COPPICE_ASSIGN_OR_RETURN(*out, coppice::capi::LendOf(*session, lane));
    if (address != nullptr) *address = (*out)->loan.data();
    if (bytes != nullptr) *bytes = (*out)->loan.bytes();
    return absl::OkStatus();
  });
}

coppice_status coppice_loan_return(coppice_loan* loan, void* stream) {
  return AnswerOn(loan, [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckHandle(loan, "loan"));
    COPPICE_RETURN_IF_ERROR(CheckSession(loan->session.get()));
    COPPICE_RETURN_IF_ERROR(coppice::capi::CheckStream(stream));
    return loan->loan.Return(static_cast<coppice::CuStream>(stream));
  });
}

void coppice_loan_release(coppice_loan* loan) {
  const coppice::capi::CurrentScope current(coppice::capi::DeviceOf(loan));
  delete loan;
}

coppice_status coppice_scrub(coppice_session* session, int32_t lane, void* stream) {
  return With(session, [&](Session& on) -> absl::Status {
    COPPICE_RETURN_IF_ERROR(coppice::capi::CheckStream(stream));
    return on.memory().Scrub(static_cast<coppice::CuStream>(stream), lane);
  });
}

coppice_status coppice_stats(coppice_session* session, coppice_session_stats* out) {
  return With(session, [&](Session& on) { return coppice::capi::WriteStats(on, out); });
}

coppice_status coppice_memory(coppice_session* session, coppice_memory_usage* out) {
  return With(session, [&](Session& on) { return coppice::capi::WriteUsage(on, out); });
}

const char* coppice_memory_kind_name(int32_t kind) {
  if (kind < 0 || kind >= coppice::kMemoryKindCount) return "unknown";
  return coppice::NameOf(static_cast<coppice::MemoryKind>(kind));
}

coppice_status coppice_buckets(coppice_session* session,
                               char* buffer,
                               size_t buffer_bytes,
                               size_t* text_bytes) {
  return With(session, [&](Session& on) {
    const size_t bytes =
        coppice::capi::CopyText(coppice::capi::BucketsAsJson(on), buffer, buffer_bytes);
    if (text_bytes != nullptr) *text_bytes = bytes;
    return absl::OkStatus();
  });
}

coppice_status coppice_session_metrics_text(coppice_session* session,
                                            int32_t format,
                                            char* buffer,
                                            size_t buffer_bytes,
                                            size_t* text_bytes) {
  return With(session, [&](Session& on) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const auto in,
                             coppice::capi::EnumOf<coppice::MetricsFormat>(format, "format"));
    const size_t bytes = coppice::capi::CopyText(on.MetricsText(in), buffer, buffer_bytes);
    if (text_bytes != nullptr) *text_bytes = bytes;
    return absl::OkStatus();
  });
}

const char* coppice_metrics_content_type(int32_t format) {
  if (format < 0 || format >= coppice::kMetricsFormatCount) return "unknown";
  return coppice::ContentTypeOf(static_cast<coppice::MetricsFormat>(format));
}

coppice_status coppice_dump(coppice_session* session,
                            int32_t lane,
                            int64_t number,
                            char* buffer,
                            size_t buffer_bytes,
                            size_t* text_bytes) {
  return With(session, [&](Session& on) -> absl::Status {
    if (number < 1)
      return coppice::MakeError(absl::StatusCode::kNotFound,
                                "recording {}: the first of a lane is 1", number);
    coppice::NodeInfo node;
    node.lane = lane;
    node.number = number;
    COPPICE_ASSIGN_OR_RETURN(const std::string drawing, on.Dump(node));
    const size_t bytes = coppice::capi::CopyText(drawing, buffer, buffer_bytes);
    if (text_bytes != nullptr) *text_bytes = bytes;
    return absl::OkStatus();
  });
}

coppice_status coppice_save_profile(coppice_session* session, const char* path) {
  return With(session, [&](Session& on) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const std::string file, coppice::capi::NameIn(path, "path"));
    const std::shared_lock looking(session->looking);
    return on.warming().SaveProfile(file);
  });
}

coppice_status coppice_save_case(
    coppice_session* session, const char* path, const char* why, int32_t lane, int32_t values) {
  return With(session, [&](Session& on) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const std::string file, coppice::capi::NameIn(path, "path"));
    coppice::SaveCaseOptions options{.lane = lane};
    COPPICE_ASSIGN_OR_RETURN(options.values,
                             coppice::capi::EnumOf<coppice::CaseValues>(values, "values"));
    const std::shared_lock looking(session->looking);
    return on.recorder().Save(file, why == nullptr ? "" : why, options);
  });
}

coppice_status coppice_load_profile(coppice_session* session,
                                    const char* path,
                                    const coppice_profile_options* options,
                                    coppice_loaded_profile* out) {
  return With(session, [&](Session& /*on*/) {
    const std::shared_lock looking(session->looking);
    return coppice::capi::LoadProfileInto(*session, path, options, out);
  });
}

coppice_status coppice_mark(coppice_session* session, const char* name) {
  return With(session, [&](Session& on) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const std::string mark, coppice::capi::NameIn(name, "mark"));
    on.trace().Mark(mark);
    return absl::OkStatus();
  });
}

coppice_status coppice_note_request(coppice_session* session, const coppice_request_times* times) {
  return With(session, [&](Session& on) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const coppice_request_times noted,
                             coppice::capi::ReadStruct(times, "coppice_request_times"));
    return on.trace().NoteRequest({.id = noted.id,
                                   .first_token_ns = noted.first_token_ns,
                                   .last_token_ns = noted.last_token_ns,
                                   .input_tokens = noted.input_tokens,
                                   .output_tokens = noted.output_tokens});
  });
}

coppice_status coppice_flush_trace(coppice_session* session) {
  return With(session, [](Session& on) { return on.trace().Flush(); });
}

coppice_status coppice_wait_for_recordings(coppice_session* session) {
  return With(session, [](Session& on) {
    on.WaitForRecordings();
    return absl::OkStatus();
  });
}
