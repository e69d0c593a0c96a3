// Sessions: made, told what to do, asked what they hold.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

#include "coppice/base/status.h"

#include "capi/answer.h"
#include "capi/described/session_fields.h"
#include "capi/here.h"

namespace coppice::capi {
namespace {

absl::Status Vote(const std::function<coppice_status(coppice_vote*)>& vote,
                  coppice_session& session,
                  RankVote& rank) {
  coppice_vote told = {.struct_size = sizeof(coppice_vote),
                       .kind = static_cast<int32_t>(rank.kind),
                       .program = session.HandleOf(rank.program),
                       .bucket = rank.bucket.data(),
                       .bucket_count = static_cast<int32_t>(rank.bucket.size()),
                       .unanimous = rank.unanimous ? 1 : 0};
  ForgetCallbackMessage();
  COPPICE_RETURN_IF_ERROR(StatusOfCallback(vote(&told), "vote"));
  COPPICE_ASSIGN_OR_RETURN(rank.kind,
                           EnumOf<RunKind>(told.kind, COPPICE_RUN_INCLUDE, "vote: kind"));
  rank.unanimous = told.unanimous != 0;
  return absl::OkStatus();
}

void SetCallbacks(const coppice_session_options& given,
                  coppice_session& session,
                  SessionOptions& options) {
  if (auto log = CallbackOf(given.log, given.user, session))
    options.log = [log](const std::string& line) { log(line.c_str()); };
  if (auto vote = CallbackOf(given.vote, given.user, session))
    options.ranks.vote = [vote, &session](RankVote& rank) { return Vote(vote, session, rank); };
  if (auto barrier = CallbackOf(given.barrier, given.user, session)) {
    options.ranks.barrier = [barrier] {
      ForgetCallbackMessage();
      return StatusOfCallback(barrier(), "barrier");
    };
  }
  options.now_ns = CallbackOf(given.now_ns, given.user, session);
}

absl::StatusOr<Held<coppice_session>> CreateOn(coppice_device& device,
                                               const coppice_session_options* given) {
  auto handle = Held<coppice_session>::Adopt(new coppice_session);
  handle->device = Held<coppice_device>::Share(&device);
  COPPICE_ASSIGN_OR_RETURN(const coppice_session_options read, ReadOptions(given));
  SessionOptions options;
  COPPICE_RETURN_IF_ERROR(ReadFields(read, options));
  SetCallbacks(read, *handle, options);
  handle->lanes = options.lanes;
  COPPICE_ASSIGN_OR_RETURN(handle->session, Session::Create(*device.context, options));
  ++device.sessions;
  return handle;
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
  COPPICE_ASSIGN_OR_RETURN(const coppice_profile_options options, ReadOptions(given));
  LoadProfileOptions load;
  load.lane = options.lane;
  load.graphs_max = options.graphs_max;
  load.bytes_max = options.bytes_max;
  load.progress = CallbackOf(options.progress, options.user, session);
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

}  // namespace

extern "C" {

coppice_status coppice_session_create(coppice_device* device,
                                      const coppice_session_options* options,
                                      coppice_session** out) {
  return AnswerOn(device, out, [&] { return CreateOn(*device, options); });
}

void coppice_session_release(coppice_session* session) {
  Release(session);
}

coppice_status coppice_set_stance(coppice_session* session, int32_t stance) {
  return AnswerOf(session, [&]() -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Stance read, EnumOf<Stance>(stance, "stance"));
    session->session->SetStance(read);
    return absl::OkStatus();
  });
}

coppice_status coppice_set_seed(coppice_session* session, uint64_t seed) {
  return AnswerOf(session, [&] { session->session->SetSeed(seed); });
}

coppice_status coppice_evict(coppice_session* session, coppice_program* program, int64_t* dropped) {
  return AnswerOn(session, [&]() -> absl::Status {
    const Program* of = nullptr;
    if (program != nullptr) {
      COPPICE_ASSIGN_OR_RETURN(of, ProgramOf(*session, program));
    }
    COPPICE_ASSIGN_OR_RETURN(const int64_t count, session->session->Evict(of));
    if (dropped != nullptr) *dropped = count;
    return absl::OkStatus();
  });
}

coppice_status coppice_trim(coppice_session* session) {
  return AnswerOn(session, [&] { return session->session->memory().Trim(); });
}

coppice_status coppice_suspend(coppice_session* session, const coppice_suspend_options* options) {
  return AnswerOn(session, [&]() -> absl::Status {
    constexpr SuspendedConstants kConstants[] = {
        SuspendedConstants::kSave, SuspendedConstants::kKeep, SuspendedConstants::kReload};
    COPPICE_ASSIGN_OR_RETURN(const coppice_suspend_options given, ReadOptions(options));
    COPPICE_ASSIGN_OR_RETURN(
        const int constants,
        EnumOf<int>(given.constants, kCountOf<SuspendedConstants>, "constants"));
    return session->session->memory().Suspend({.constants = kConstants[constants],
                                               .refuse_leases = given.refuse_leases != 0,
                                               .drop_graphs = given.drop_graphs != 0});
  });
}

coppice_status coppice_resume(coppice_session* session) {
  return AnswerOn(session, [&] { return session->session->memory().Resume(); });
}

coppice_status coppice_set_external_bytes(coppice_session* session, int64_t bytes) {
  return AnswerOn(session, [&] { return session->session->memory().SetExternalBytes(bytes); });
}

coppice_status coppice_lend(
    coppice_session* session, int32_t lane, uint64_t* address, int64_t* bytes, coppice_loan** out) {
  return AnswerOn(session, out, [&]() -> absl::StatusOr<coppice_loan*> {
    COPPICE_ASSIGN_OR_RETURN(Loan loan, session->session->memory().Lend(lane));
    if (address != nullptr) *address = loan.data();
    if (bytes != nullptr) *bytes = loan.bytes();
    return new coppice_loan{.session = Held<coppice_session>::Share(session),
                            .loan = std::move(loan)};
  });
}

coppice_status coppice_loan_return(coppice_loan* loan, void* stream) {
  return AnswerOn(loan, [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckStream(stream));
    return loan->loan.Return(static_cast<CuStream>(stream));
  });
}

void coppice_loan_release(coppice_loan* loan) {
  const CurrentScope current(DeviceOf(loan));
  delete loan;
}

coppice_status coppice_scrub(coppice_session* session, int32_t lane, void* stream) {
  return AnswerOn(session, [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckStream(stream));
    return session->session->memory().Scrub(static_cast<CuStream>(stream), lane);
  });
}

coppice_status coppice_stats(coppice_session* session, coppice_session_stats* out) {
  return AnswerOn(session, out, [&] { return StructOf(session->session->stats()); });
}

coppice_status coppice_memory(coppice_session* session, coppice_memory_usage* out) {
  return AnswerOn(session, out, [&] {
    coppice_memory_usage told = StructOf(session->session->memory().usage());
    told.kind_count = kMemoryKindCount;
    return told;
  });
}

const char* coppice_memory_kind_name(int32_t kind) {
  return NameOfNumber<MemoryKind>(kind);
}

coppice_status coppice_buckets(coppice_session* session,
                               char* buffer,
                               size_t buffer_bytes,
                               size_t* text_bytes) {
  return AnswerOn(session, TextOut{buffer, buffer_bytes, text_bytes},
                  [&] { return BucketsAsJson(*session->session); });
}

coppice_status coppice_session_metrics_text(coppice_session* session,
                                            int32_t format,
                                            char* buffer,
                                            size_t buffer_bytes,
                                            size_t* text_bytes) {
  return AnswerOn(
      session, TextOut{buffer, buffer_bytes, text_bytes}, [&]() -> absl::StatusOr<std::string> {
        COPPICE_ASSIGN_OR_RETURN(const MetricsFormat in, EnumOf<MetricsFormat>(format, "format"));
        return session->session->MetricsText(in);
      });
}

const char* coppice_metrics_content_type(int32_t format) {
  if (format < 0 || format >= kMetricsFormatCount) return "unknown";
  return ContentTypeOf(static_cast<MetricsFormat>(format));
}

coppice_status coppice_dump(coppice_session* session,
                            int32_t lane,
                            int64_t number,
                            char* buffer,
                            size_t buffer_bytes,
                            size_t* text_bytes) {
  return AnswerOn(
      session, TextOut{buffer, buffer_bytes, text_bytes}, [&]() -> absl::StatusOr<std::string> {
        if (number < 1)
          return MakeError(absl::StatusCode::kNotFound,
                           "recording {}: the recordings of a lane are numbered from 1", number);
        NodeInfo node;
        node.lane = lane;
        node.number = number;
        return session->session->Dump(node);
      });
}

coppice_status coppice_save_profile(coppice_session* session, const char* path) {
  return AnswerOn(session, [&]() -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const std::string file, NameIn(path, "path"));
    const std::shared_lock looking(session->looking);
    return session->session->warming().SaveProfile(file);
  });
}

coppice_status coppice_save_case(
    coppice_session* session, const char* path, const char* why, int32_t lane, int32_t values) {
  return AnswerOn(session, [&]() -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const std::string file, NameIn(path, "path"));
    SaveCaseOptions options{.lane = lane};
    COPPICE_ASSIGN_OR_RETURN(options.values, EnumOf<CaseValues>(values, "values"));
    const std::shared_lock looking(session->looking);
    return session->session->recorder().Save(file, TextOf(why), options);
  });
}

coppice_status coppice_load_profile(coppice_session* session,
                                    const char* path,
                                    const coppice_profile_options* options,
                                    coppice_loaded_profile* out) {
  return AnswerOn(session, [&]() -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const std::string file, NameIn(path, "path"));
    if (out != nullptr) COPPICE_RETURN_IF_ERROR(CheckStruct(out));
    const std::shared_lock looking(session->looking);
    COPPICE_ASSIGN_OR_RETURN(const LoadProfileOptions load, ProfileOptionsOf(*session, options));
    COPPICE_ASSIGN_OR_RETURN(const LoadedProfile loaded,
                             session->session->warming().LoadProfile(file, load));
    if (out == nullptr) return absl::OkStatus();
    WriteStruct({.struct_size = 0,
                 .reserved = 0,
                 .recorded = loaded.recorded,
                 .present = loaded.present,
                 .skipped = static_cast<int64_t>(loaded.skipped.size())},
                out);
    return absl::OkStatus();
  });
}

coppice_status coppice_mark(coppice_session* session, const char* name) {
  return AnswerOn(session, [&]() -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const std::string mark, NameIn(name, "mark"));
    session->session->trace().Mark(mark);
    return absl::OkStatus();
  });
}

coppice_status coppice_note_request(coppice_session* session, const coppice_request_times* times) {
  return AnswerOn(session, [&]() -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const coppice_request_times noted, ReadStruct(times));
    return session->session->trace().NoteRequest({.id = noted.id,
                                                  .first_token_ns = noted.first_token_ns,
                                                  .last_token_ns = noted.last_token_ns,
                                                  .input_tokens = noted.input_tokens,
                                                  .output_tokens = noted.output_tokens});
  });
}

coppice_status coppice_flush_trace(coppice_session* session) {
  return AnswerOn(session, [&] { return session->session->trace().Flush(); });
}

coppice_status coppice_wait_for_recordings(coppice_session* session) {
  return AnswerOn(session, [&] { session->session->WaitForRecordings(); });
}

}  // extern "C"
}  // namespace coppice::capi

using coppice::capi::Held;

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
