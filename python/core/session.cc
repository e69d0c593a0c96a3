// Sessions as objects of Python.

#include "python/core/session.h"

#include <memory>
#include <string>
#include <vector>

#include "python/core/arrays.h"
#include "python/core/callbacks.h"
#include "python/core/cycles.h"
#include "python/core/described/session_fields.h"
#include "python/core/fields.h"
#include "python/core/given.h"
#include "python/core/status.h"

namespace coppice::python {
namespace {

// What a function of C fills in.
template <auto Function>
nb::object AskFigures(const Session& session) {
  return FiguresOf(AskSession<Function>(session));
}

nb::object BucketsOf(const Session& session) {
  const SessionCall call(session);
  return nb::module_::import_("json").attr("loads")(AskText<&coppice_buckets>(call.handle()));
}

std::string MetricsText(const Session& session, const std::string& format) {
  const SessionCall call(session);
  return AskText<&coppice_session_metrics_text>(call.handle(),
                                                NumberOf(format, kMetricsFormats, "format"));
}

void NoteRequest(const Session& session,
                 int64_t id,
                 int64_t first_token_ns,
                 int64_t last_token_ns,
                 int32_t input_tokens,
                 int32_t output_tokens) {
  const coppice_request_times times = {.struct_size = sizeof times,
                                       .input_tokens = input_tokens,
                                       .output_tokens = output_tokens,
                                       .reserved = 0,
                                       .id = id,
                                       .first_token_ns = first_token_ns,
                                       .last_token_ns = last_token_ns};
  AskSession<&coppice_note_request>(session, &times);
}

void SaveCase(const Session& session,
              const std::string& path,
              const std::string& why,
              int32_t lane,
              const std::string& values) {
  AskSession<&coppice_save_case>(session, path.c_str(), why.c_str(), lane,
                                 NumberOf(values, kCaseValues, "values"));
}

std::string Dump(const Session& session, int32_t lane, int64_t number) {
  const SessionCall call(session);
  return AskText<&coppice_dump>(call.handle(), lane, number);
}

nb::dict LoadProfile(const Session& session,
                     const std::string& path,
                     const nb::list& bindings,
                     int64_t graphs_max,
                     int64_t bytes_max) {
  std::vector<coppice_binding*> handles;
  for (const nb::handle binding : bindings)
    handles.push_back(GivenObject<const Binding>(binding, "bindings").handle);
  auto options = Blank<coppice_profile_options>();
  SetArray(handles, options.bindings, options.binding_count);
  options.graphs_max = graphs_max;
  options.bytes_max = bytes_max;
  const coppice_loaded_profile loaded =
      AskSession<&coppice_load_profile>(session, path.c_str(), &options);
  nb::dict read;
  read["recorded"] = loaded.recorded;
  read["present"] = loaded.present;
  read["skipped"] = loaded.skipped;
  return read;
}

int64_t Evict(const Session& session, const nb::object& program) {
  coppice_program* const of =
      program.is_none() ? nullptr : GivenObject<const Program>(program, "evict").handle;
  return AskSession<&coppice_evict>(session, of);
}

void Suspend(const Session& session,
             const std::string& constants,
             bool refuse_leases,
             bool drop_graphs) {
  const coppice_suspend_options options = {
      .struct_size = sizeof options,
      .constants = NumberOf(constants, kSuspendedConstants, "constants"),
      .refuse_leases = refuse_leases ? 1 : 0,
      .drop_graphs = drop_graphs ? 1 : 0};
  AskSession<&coppice_suspend>(session, &options);
}

void Scrub(const Session& session, uintptr_t stream, int32_t lane) {
  AskSession<&coppice_scrub>(session, lane, session.device().StreamAt(stream));
}

template <auto Function>
void CallWithText(const Session& session, const std::string& text) {
  if (const size_t end = text.find('\0'); end != std::string::npos)
    Raise("InvalidArgument", "the text has a NUL character at byte ", end, "; remove it");
  AskSession<Function>(session, text.c_str());
}

}  // namespace

Session::Session(nb::object device, const nb::dict& given) : device_(std::move(device)) {
  Fields options(given, "session", "option");
  coppice_session_options read = SessionOptionsOf(options);
  nb::dict callbacks;
  for (const char* const name : {"log", "vote", "barrier", "now_ns"}) {
    const nb::object fn = options.Get(name);
    if (fn.is_none()) continue;
    CheckCallable(fn, std::string("session: ") + name);
    callbacks[name] = fn;
  }
  options.CheckNames();
  callbacks_ = callbacks;
  stance_ = read.stance;
  read.user = this;
  if (callbacks.contains("log")) read.log = &Log;
  if (callbacks.contains("vote")) read.vote = &Vote;
  if (callbacks.contains("barrier")) read.barrier = &Barrier;
  if (callbacks.contains("now_ns")) read.now_ns = &NowNs;
  if (read.trace_path != nullptr && *read.trace_path != '\0')
    nb::module_::import_("coppice.devices").attr("close_at_exit")(hold_);
  Check(Unlocked([&] {
    return coppice_session_create(this->device().handle(), &read, &HoldOf(hold_).handle);
  }));
}

void Session::SetStance(int32_t stance) {
  AskSession<&coppice_set_stance>(*this, stance);
  stance_ = stance;
}

void Chain::Begin() {
  coppice_chain* const made =
      AskSession<&coppice_chain_begin>(nb::cast<const Session&>(session_), lane_);
  End();
  handle_ = made;
}

Loan::Loan(nb::object session, int32_t lane) : session_(std::move(session)) {
  handle_ = AskSession<&coppice_lend>(nb::cast<const Session&>(session_), lane, &data_, &bytes_);
}

void Loan::Return(uintptr_t stream) {
  void* const on = nb::cast<const Session&>(session_).device().StreamAt(stream);
  AskUnlocked<&coppice_loan_return>(handle_, on);
  returned_ = true;
}

void Session::Log(void* user, const char* line) {
  TellCallback([&] {
    CallBack(nb::object(static_cast<const Session*>(user)->callbacks_["log"]), nb::str(line));
  });
}

coppice_status Session::Vote(void* user, coppice_vote* vote) {
  return AnswerCallback([&] {
    nb::list bucket;
    for (int32_t i = 0; i < vote->bucket_count; ++i)
      bucket.append(vote->bucket[i]);
    const nb::object agreed =
        CallBack(nb::object(static_cast<const Session*>(user)->callbacks_["vote"]), bucket,
                 coppice_run_kind_name(vote->kind), vote->unanimous != 0);
    const nb::tuple parts = GivenParts(agreed, "vote", "(bucket, kind, unanimous)", 3);
    const auto extents = Given<std::vector<int64_t>>(parts[0], "vote: bucket");
    if (static_cast<int32_t>(extents.size()) != vote->bucket_count)
      Raise("InvalidArgument", "vote: the callable must return as many extents as it receives");
    std::copy(extents.begin(), extents.end(), vote->bucket);
    vote->kind = NumberOf(Given<std::string>(parts[1], "vote: kind"), kRunKinds, "vote: kind");
    vote->unanimous = Given<bool>(parts[2], "vote: unanimous") ? 1 : 0;
  });
}

coppice_status Session::Barrier(void* user) {
  return AnswerCallback(
      [&] { CallBack(nb::object(static_cast<const Session*>(user)->callbacks_["barrier"])); });
}

int64_t Session::NowNs(void* user) {
  auto& session = *static_cast<Session*>(user);
  TellCallback([&] {
    session.now_ns_ =
        Given<int64_t>(CallBack(nb::object(session.callbacks_["now_ns"])), "session: now_ns");
  });
  return session.now_ns_;
}

namespace {

void BindChains(nb::module_& module) {
  nb::class_<Chain>(
      module, "Chain",
      "Inside `with`, calls on the lane build on each other: none writes over the leased\n"
      "outputs of earlier ones.")
      .def("__enter__",
           [](const nb::object& self) {
             nb::cast<Chain&>(self).Begin();
             return self;
           })
      .def("__exit__", [](Chain& self, const nb::args&) { self.End(); });
}

void BindLoans(nb::module_& module) {
  nb::class_<Loan>(
      module, "Loan",
      "The idle memory of a lane of a session. Calls of the lane are refused until the loan\n"
      "ends: at the end of `with` (in the order of the device's own stream), with\n"
      "give_back(), or when this object is destroyed. By then, all work on the memory must\n"
      "have run.")
      .def_prop_ro("data", &Loan::data, "Its address; its contents are undefined.")
      .def_prop_ro("bytes", &Loan::bytes, "Its size in bytes.")
      .def("give_back", &Loan::Return, nb::arg("stream") = 0,
           "Ends the loan; the lane's next call waits for the work queued on `stream` so far.")
      .def("__enter__", [](const nb::object& self) { return self; })
      .def("__exit__", [](Loan& self, const nb::args&) { self.Exit(); });
}

// What becomes of graphs and memory, and what is known of both.
void BindMemory(nb::class_<Session>& session) {
  session
      .def("evict", &Evict, nb::arg("program").none() = nb::none(),
           "Drops the graphs of a program, or all graphs. Returns their number.")
      .def("trim", &AskSession<&coppice_trim>, "Gives back memory that no lease holds.")
      .def("suspend", &Suspend, nb::arg("constants") = "save", nb::kw_only(),
           nb::arg("refuse_leases") = false, nb::arg("drop_graphs") = false,
           "Gives the session's memory back. `constants`: \"save\", \"keep\" or \"reload\".")
      .def("resume", &AskSession<&coppice_resume>, "Takes the memory again.")
      .def("set_external_bytes", &AskSession<&coppice_set_external_bytes, int64_t>,
           nb::arg("bytes"), "Tells the budget how many bytes the application itself holds.")
      .def(
          "lend",
          [](const nb::object& self, int32_t lane) { return std::make_unique<Loan>(self, lane); },
          nb::arg("lane") = 0,
          "Lends the idle memory of a lane, as a Loan. Raises FailedPrecondition while outputs\n"
          "there are leased, or work of the lane is in flight.")
      .def("scrub", &Scrub, nb::arg("stream") = 0, nb::arg("lane") = 0,
           "Zeroes all memory of a lane, ordered after earlier work on `stream` and the lane's\n"
           "earlier calls. Raises FailedPrecondition while outputs there are leased.")
      .def("stats", &AskFigures<&coppice_stats>,
           nb::sig("def stats(self) -> coppice.figures.SessionStats"),
           "Counts of calls by kind and by reason, and counts of graph and input events.")
      .def("memory", &AskFigures<&coppice_memory>,
           nb::sig("def memory(self) -> coppice.figures.MemoryUsage"),
           "Bytes by kind of use, and the height of the pool.")
      .def("buckets", &BucketsOf,
           "For each bucket: program, variant, bucket, lane, recorded, plan_height, live_bytes,\n"
           "serial, graph_nodes, family, record_ns, replays.")
      .def("metrics_text", &MetricsText, nb::arg("format") = "prometheus",
           "All figures as a page for Prometheus. `format`: \"prometheus\" or \"openmetrics\".")
      .def("save_profile", &CallWithText<&coppice_save_profile>, nb::arg("path"),
           "Writes the buckets that traffic used, for load_profile.")
      .def("load_profile", &LoadProfile, nb::arg("path"), nb::kw_only(),
           nb::arg("bindings") = nb::list(), nb::arg("graphs_max") = 0, nb::arg("bytes_max") = 0,
           "Records the buckets of a profile, the most useful first. Returns how many buckets\n"
           "were recorded, how many were recorded already, and how many were left out.")
      .def("save_case", &SaveCase, nb::arg("path"), nb::arg("why") = "", nb::kw_only(),
           nb::arg("lane") = 0, nb::arg("values") = "keep",
           "Saves the calls of a lane that the flight recorder holds, as a file for `coppice\n"
           "replay`. Needs recorder_ring_bytes. Also works after a fault of the device. `values`:\n"
           "\"keep\" keeps the values; \"noise\" replaces them; \"special\" replaces them, but\n"
           "keeps zeros, infinities and NaNs.")
      .def("dump", &Dump, nb::arg("lane"), nb::arg("number"),
           "A recording that buckets() lists, in Graphviz's DOT; needs keep_drawings.")
      .def("mark", &CallWithText<&coppice_mark>, nb::arg("name"), "Adds a mark to the trace.")
      .def("note_request", &NoteRequest, nb::arg("id"), nb::kw_only(), nb::arg("first_token_ns"),
           nb::arg("last_token_ns"), nb::arg("input_tokens"), nb::arg("output_tokens"),
           "Adds the times of one server request to the trace, starting at the request's\n"
           "arrival.")
      .def("flush_trace", &AskSession<&coppice_flush_trace>, "Waits until the trace is written.")
      .def("wait_for_recordings", &AskSession<&coppice_wait_for_recordings>,
           "Waits for recordings in the background.");
}

}  // namespace

void BindSessions(nb::module_& module) {
  constexpr auto kVisit = [](const Session& session, const auto& visit) { session.Visit(visit); };
  // A session of a cycle is closed while all of the cycle is there: a recording in the background
  // may still call its callables.
  static const PyType_Slot kSlots[] = {
      {Py_tp_traverse, reinterpret_cast<void*>(&Traverse<Session, kVisit>)},
      {Py_tp_finalize, reinterpret_cast<void*>(+[](PyObject* self) {
         if (nb::inst_ready(self)) nb::inst_ptr<Session>(self)->Close();
       })},
      {Py_tp_clear, reinterpret_cast<void*>(+[](PyObject* self) {
         if (nb::inst_ready(self)) nb::inst_ptr<Session>(self)->Clear();
         return 0;
       })},
      {0, nullptr}};
  BindSessionHolds(module);
  module.def(
      "metrics_content_type",
      [](const std::string& format) {
        return coppice_metrics_content_type(NumberOf(format, kMetricsFormats, "format"));
      },
      nb::arg("format"), "The Content-Type of a page of metrics.");
  BindChains(module);
  BindLoans(module);
  nb::class_<Session> session(
      module, "Session", "Programs that replay the graph of their shape bucket, all in one pool.",
      nb::type_slots(kSlots));
  session
      .def(
          "__init__",
          [](Session* self, const nb::object& device, const nb::kwargs& options) {
            (void)GivenObject<Device>(device, "session: device");
            new (self) Session(device, options);
          },
          nb::arg("device").none(), nb::arg("options"), nb::sig(kSessionSignature), kSessionDoc)
      .def_prop_ro("device", &Session::device_object)
      .def(
          "chain",
          [](const nb::object& self, int32_t lane) { return std::make_unique<Chain>(self, lane); },
          nb::arg("lane") = 0, "A scope of calls that build on each other.")
      .def("close", &Session::Close,
           "Waits for the work in flight and gives everything back. If another call of the\n"
           "session is running, on any thread, the session closes when that call ends.")
      .def("__enter__", [](const nb::object& self) { return self; })
      .def("__exit__", [](Session& self, const nb::args&) { self.Close(); })
      .def_prop_ro("closed", &Session::closed, "Whether close() was called.")
      .def_prop_rw(
          "stance", [](const Session& self) { return kStances[self.stance()]; },
          [](Session& self, const std::string& stance) {
            self.SetStance(NumberOf(stance, kStances, "stance"));
          },
          "What calls may do: \"record\", \"replay_only\", \"eager\" or \"strict\".")
      .def("set_seed", &AskSession<&coppice_set_seed, uint64_t>, nb::arg("seed"),
           "Restarts the generator of random numbers.");
  BindMemory(session);
  BindRegistering();
}

}  // namespace coppice::python
