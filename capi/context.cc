// What a callable of C asks of the run that it is in.

#include "capi/context.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "coppice/base/status.h"
#include "coppice/runtime/graph.h"

#include "capi/answer.h"

namespace coppice::capi {
namespace {

absl::Status CheckIndex(int32_t index, size_t count, const char* what) {
  if (index >= 0 && static_cast<size_t>(index) < count) return absl::OkStatus();
  return InvalidArgument("{} {}: the program has only {}, and the first index is 0", what, index,
                         count);
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

extern "C" {

coppice_status coppice_context_describe(coppice_context* context, coppice_context_info* out) {
  return AnswerTo(context, out, [&] {
    const CallContext& run = context->context;
    return coppice_context_info{.struct_size = 0,
                                .phase = static_cast<int32_t>(run.phase()),
                                .stream = run.stream(),
                                .parameters = run.parameters(),
                                .workspace = run.workspace(),
                                .workspace_bytes = run.workspace_bytes()};
  });
}

coppice_status coppice_context_extent(coppice_context* context, int32_t symbol, int64_t* out) {
  return AnswerTo(context, out, [&]() -> absl::StatusOr<int64_t> {
    COPPICE_RETURN_IF_ERROR(CheckIndex(symbol, context->symbols, "symbol"));
    return context->context.extent(symbol);
  });
}

coppice_status coppice_context_scalar(coppice_context* context, int32_t scalar, int64_t* out) {
  return AnswerTo(context, out, [&]() -> absl::StatusOr<int64_t> {
    COPPICE_RETURN_IF_ERROR(CheckIndex(scalar, context->scalars, "scalar"));
    return context->context.scalar(scalar);
  });
}

coppice_status coppice_context_input(coppice_context* context, int32_t input, coppice_view* out) {
  return AnswerTo(context, out, [&]() -> absl::StatusOr<ShownTensor> {
    COPPICE_RETURN_IF_ERROR(CheckIndex(input, context->inputs, "input"));
    return context->Shown(context->context.input(input));
  });
}

coppice_status coppice_context_offsets(coppice_context* context,
                                       int32_t ragged,
                                       coppice_view* out) {
  return AnswerTo(context, out, [&]() -> absl::StatusOr<ShownTensor> {
    COPPICE_RETURN_IF_ERROR(CheckIndex(ragged, context->ragged, "ragged"));
    return context->Shown(context->context.offsets(ragged));
  });
}

coppice_status coppice_context_output(coppice_context* context, int32_t output, coppice_view* out) {
  return AnswerOn(context, out, [&]() -> absl::StatusOr<ShownTensor> {
    COPPICE_RETURN_IF_ERROR(CheckIndex(output, context->outputs, "output"));
    COPPICE_ASSIGN_OR_RETURN(const Tensor tensor, context->context.AllocateOutput(output));
    return context->Shown(tensor);
  });
}

coppice_status coppice_context_alias_output(coppice_context* context,
                                            int32_t output,
                                            uint64_t address) {
  return AnswerOn(context, [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckIndex(output, context->outputs, "output"));
    return context->context.AliasOutput(output, address);
  });
}

coppice_status coppice_context_allocate(coppice_context* context,
                                        int64_t bytes,
                                        uint64_t* address) {
  return AnswerOn(context, address, [&] { return context->context.Allocate(bytes); });
}

coppice_status coppice_context_allocate_labelled(coppice_context* context,
                                                 int64_t bytes,
                                                 const char* label,
                                                 uint64_t* address) {
  return AnswerOn(context, address, [&]() -> absl::StatusOr<uint64_t> {
    COPPICE_ASSIGN_OR_RETURN(const std::string named, NameIn(label, "label"));
    return context->context.Allocate(bytes, named);
  });
}

coppice_status coppice_context_free(coppice_context* context, uint64_t address) {
  return AnswerOn(context, [&] {
    context->blocks.erase(address);
    return context->context.Free(address);
  });
}

coppice_status coppice_context_add_graph(coppice_context* context, void* graph) {
  return AnswerOn(context, [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckHandle(graph, "graph"));
    return AddGraph(context->context, static_cast<CuGraph>(graph));
  });
}

coppice_status coppice_context_break(coppice_context* context,
                                     coppice_eager_step step,
                                     void* user,
                                     void (*release)(void* user)) {
  User kept(user, release);
  return AnswerOn(context,
                  [&] { return context->context.Break(StepOf(step, std::move(kept), *context)); });
}

}  // extern "C"
}  // namespace coppice::capi
