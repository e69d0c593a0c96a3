// What a callable of C asks of the run that it is in.

#include "capi/context.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "coppice/base/status.h"
#include "coppice/runtime/graph.h"

#include "capi/failure.h"
#include "capi/on_device.h"
#include "capi/structs.h"
#include "capi/tensors.h"

namespace coppice::capi {
namespace {

// Of a run; null of none.
const coppice_session* SessionOf(const coppice_context* run) {
  return run == nullptr ? nullptr : &run->session;
}

absl::Status CheckIndex(int32_t index, size_t count, const char* what) {
  if (index >= 0 && static_cast<size_t>(index) < count) return absl::OkStatus();
  return InvalidArgument("{} {}: the program has {}", what, index, count);
}

// Host code between two graphs, for as long as one of them may run.
struct BreakStep {
  // Where a lane drops graphs, its lock is held.
  ~BreakStep() {
    const HereScope here({.session = session});
    user.reset();
  }

  absl::Status Call(CuStream stream) const {
    const HereScope here({.needs = needs.get(), .run = nullptr, .session = session});
    ForgetCallbackMessage();
    return StatusOfCallback(step(user->get(), stream), "a break of program " + program);
  }

  const coppice_eager_step step;
  std::optional<User> user;
  const std::string program;
  const coppice_session* const session;
  const Held<ProgramNeeds> needs;  // Of what it launches.
};

EagerStep StepOf(coppice_eager_step step, User user, const coppice_context& run) {
  if (step == nullptr) return nullptr;
  std::unique_ptr<BreakStep> made(new BreakStep{.step = step,
                                                .user = std::move(user),
                                                .program = run.program,
                                                .session = &run.session,
                                                .needs = Held<ProgramNeeds>::Share(&run.needs)});
  return [made = std::move(made)](CuStream stream) { return made->Call(stream); };
}

absl::Status AddGraph(const CallContext& context, CuGraph graph) {
  const Driver& driver = context.driver();
  COPPICE_RETURN_IF_ERROR(CheckChild(driver, graph));
  if (context.phase() == Phase::kRecord) return AddChildToCapture(driver, context.stream(), graph);
  // The driver keeps what a launch that is queued needs of the exec, which ends here.
  COPPICE_ASSIGN_OR_RETURN(const GraphExec exec, GraphExec::Instantiate(driver, graph));
  return driver.Call<&DriverTable::GraphLaunch>(exec.handle(), context.stream());
}

}  // namespace
}  // namespace coppice::capi

using coppice::capi::Answer;
using coppice::capi::AnswerOn;
using coppice::capi::CheckHandle;
using coppice::capi::CheckIndex;
using coppice::capi::ClearOut;
using coppice::capi::SessionOf;

coppice_status coppice_context_describe(coppice_context* context, coppice_context_info* out) {
  return Answer([&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckHandle(context, "context"));
    COPPICE_RETURN_IF_ERROR(coppice::capi::CheckOut(out, "coppice_context_info"));
    coppice_context_info info{};
    info.phase = static_cast<int32_t>(context->context.phase());
    info.stream = context->context.stream();
    info.parameters = context->context.parameters();
    info.workspace = context->context.workspace();
    info.workspace_bytes = context->context.workspace_bytes();
    coppice::capi::WriteStruct(info, out);
    return absl::OkStatus();
  });
}

coppice_status coppice_context_extent(coppice_context* context, int32_t symbol, int64_t* out) {
  return Answer([&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckHandle(context, "context"));
    COPPICE_RETURN_IF_ERROR(ClearOut(out, "coppice_context_extent"));
    COPPICE_RETURN_IF_ERROR(CheckIndex(symbol, context->symbols, "symbol"));
    *out = context->context.extent(symbol);
    return absl::OkStatus();
  });
}

coppice_status coppice_context_scalar(coppice_context* context, int32_t scalar, int64_t* out) {
  return Answer([&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckHandle(context, "context"));
    COPPICE_RETURN_IF_ERROR(ClearOut(out, "coppice_context_scalar"));
    COPPICE_RETURN_IF_ERROR(CheckIndex(scalar, context->scalars, "scalar"));
    *out = context->context.scalar(scalar);
    return absl::OkStatus();
  });
}

coppice_status coppice_context_input(coppice_context* context, int32_t input, coppice_view* out) {
  return Answer([&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckHandle(context, "context"));
    COPPICE_RETURN_IF_ERROR(coppice::capi::CheckView(out));
    COPPICE_RETURN_IF_ERROR(CheckIndex(input, context->inputs, "input"));
    coppice::capi::WriteView(context->context.input(input), context->session.device->dl(), out);
    return absl::OkStatus();
  });
}

coppice_status coppice_context_offsets(coppice_context* context,
                                       int32_t ragged,
                                       coppice_view* out) {
  return Answer([&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckHandle(context, "context"));
    COPPICE_RETURN_IF_ERROR(coppice::capi::CheckView(out));
    COPPICE_RETURN_IF_ERROR(CheckIndex(ragged, context->ragged, "ragged"));
    coppice::capi::WriteView(context->context.offsets(ragged), context->session.device->dl(), out);
    return absl::OkStatus();
  });
}

coppice_status coppice_context_output(coppice_context* context, int32_t output, coppice_view* out) {
  return AnswerOn(SessionOf(context), [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckHandle(context, "context"));
    COPPICE_RETURN_IF_ERROR(coppice::capi::CheckView(out));
    COPPICE_RETURN_IF_ERROR(CheckIndex(output, context->outputs, "output"));
    COPPICE_ASSIGN_OR_RETURN(const coppice::Tensor tensor, context->context.AllocateOutput(output));
    coppice::capi::WriteView(tensor, context->session.device->dl(), out);
    return absl::OkStatus();
  });
}

coppice_status coppice_context_alias_output(coppice_context* context,
                                            int32_t output,
                                            uint64_t address) {
  return AnswerOn(SessionOf(context), [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckHandle(context, "context"));
    COPPICE_RETURN_IF_ERROR(CheckIndex(output, context->outputs, "output"));
    return context->context.AliasOutput(output, address);
  });
}

coppice_status coppice_context_allocate(coppice_context* context,
                                        int64_t bytes,
                                        uint64_t* address) {
  return AnswerOn(SessionOf(context), [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckHandle(context, "context"));
    COPPICE_RETURN_IF_ERROR(ClearOut(address, "coppice_context_allocate"));
    COPPICE_ASSIGN_OR_RETURN(*address, context->context.Allocate(bytes));
    return absl::OkStatus();
  });
}

coppice_status coppice_context_allocate_labelled(coppice_context* context,
                                                 int64_t bytes,
                                                 const char* label,
                                                 uint64_t* address) {
  return AnswerOn(SessionOf(context), [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckHandle(context, "context"));
    COPPICE_RETURN_IF_ERROR(ClearOut(address, "coppice_context_allocate_labelled"));
    COPPICE_ASSIGN_OR_RETURN(const std::string named, coppice::capi::NameIn(label, "label"));
    COPPICE_ASSIGN_OR_RETURN(*address, context->context.Allocate(bytes, named));
    return absl::OkStatus();
  });
}

coppice_status coppice_context_free(coppice_context* context, uint64_t address) {
  return AnswerOn(SessionOf(context), [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckHandle(context, "context"));
    context->blocks.erase(address);
    return context->context.Free(address);
  });
}

coppice_status coppice_context_add_graph(coppice_context* context, void* graph) {
  return AnswerOn(SessionOf(context), [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckHandle(context, "context"));
    COPPICE_RETURN_IF_ERROR(CheckHandle(graph, "graph"));
    return coppice::capi::AddGraph(context->context, static_cast<coppice::CuGraph>(graph));
  });
}

coppice_status coppice_context_break(coppice_context* context,
                                     coppice_eager_step step,
                                     void* user,
                                     void (*release)(void* user)) {
  return AnswerOn(SessionOf(context), [&]() -> absl::Status {
    coppice::capi::User kept(user, release);
    COPPICE_RETURN_IF_ERROR(CheckHandle(context, "context"));
    return context->context.Break(coppice::capi::StepOf(step, std::move(kept), *context));
  });
}
