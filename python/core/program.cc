// Programs: bound, run, explained, warmed.

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "python/core/arrays.h"
#include "python/core/cycles.h"
#include "python/core/described/session_fields.h"
#include "python/core/given.h"
#include "python/core/lease.h"
#include "python/core/session.h"
#include "python/core/spec.h"
#include "python/core/status.h"

namespace coppice::python {
namespace {

// Items of a list or tuple, which this keeps: another thread may change the list meanwhile.
class Items {
 public:
  Items(nb::handle sequence, const char* what) {
    if (PySequence_Check(sequence.ptr()) == 0 && PyIter_Check(sequence.ptr()) == 0)
      RaiseNot(sequence, what, "list or tuple");
    tuple_ = nb::steal(PySequence_Tuple(sequence.ptr()));
    if (!tuple_.is_valid()) RaisePending();
  }
  size_t size() const { return static_cast<size_t>(NB_TUPLE_GET_SIZE(tuple_.ptr())); }
  nb::handle operator[](size_t index) const {
    return NB_TUPLE_GET_ITEM(tuple_.ptr(), static_cast<Py_ssize_t>(index));
  }
  const nb::object& tuple() const { return tuple_; }

 private:
  nb::object tuple_;
};

// Up to `Few` values without an allocation.
template <typename Value, size_t Few>
class Several {
 public:
  explicit Several(size_t count) : count_(count) {
    if (count > Few) many_.resize(count);
  }
  Value* data() { return count_ > Few ? many_.data() : few_.data(); }
  Value& operator[](size_t index) { return data()[index]; }
  size_t size() const { return count_; }

 private:
  size_t count_;
  std::array<Value, Few> few_{};
  std::vector<Value> many_;
};

constexpr size_t kFew = 8;

// Copies of tensors of the CPU in staging memory of an emulator, which goes back when this ends.
class Staged {
 public:
  Staged(Device& device, uintptr_t stream) : device_(device), stream_(stream) {}
  Staged(const Staged&) = delete;
  Staged& operator=(const Staged&) = delete;
  ~Staged() {
    for (const auto& [address, bytes] : staged_)
      device_.GiveStaging(address, bytes, stream_);
  }

  void Copy(Array& array, const char* what) {
    const DLTensor& tensor = array.tensor();
    CheckShape(tensor, what);
    const int64_t bytes = SpanBytes(tensor);
    const uint64_t address = device_.TakeStaging(bytes, stream_);
    staged_.emplace_back(address, bytes);
    const auto* const from = static_cast<const std::byte*>(tensor.data) + tensor.byte_offset;
    if (bytes > 0) device_.CopyToDevice(address, from, bytes, stream_);
    array.MoveTo(reinterpret_cast<void*>(address), device_.dl());
  }

 private:
  Device& device_;
  uintptr_t stream_;
  std::vector<std::pair<uint64_t, int64_t>> staged_;
};

enum class Nones : bool { kRefused, kNull };

// Tensors of one call, as C reads them; on an emulator those of the CPU as copies.
class Arrays {
 public:
  Arrays(nb::handle given,
         const char* what,
         Device& device,
         uintptr_t stream,
         Nones nones = Nones::kRefused)
      : items_(given, what),
        staged_(device, stream),
        arrays_(items_.size()),
        pointers_(items_.size()) {
    for (size_t i = 0; i < items_.size(); ++i) {
      if (nones == Nones::kNull && items_[i].is_none()) continue;
      arrays_[i].Read(items_[i], what, i, stream, device);
      if (arrays_[i].on_host() && device.is_emulator()) staged_.Copy(arrays_[i], what);
      pointers_[i] = &arrays_[i].tensor();
    }
  }

  const DLTensor* const* data() { return pointers_.data(); }
  int64_t size() const { return static_cast<int64_t>(pointers_.size()); }

 private:
  const Items items_;
  Staged staged_;
  Several<Array, kFew> arrays_;
  Several<const DLTensor*, kFew> pointers_;
};

Several<int64_t, kFew> NumbersOf(nb::handle given, const char* what) {
  const Items items(given, what);
  Several<int64_t, kFew> numbers(items.size());
  for (size_t i = 0; i < items.size(); ++i)
    numbers[i] = Given<int64_t>(items[i], what);
  return numbers;
}

int32_t WordNumber(nb::handle word, const std::vector<const char*>& words, const char* what) {
  return NumberOf(Given<std::string>(word, what), words, what);
}

struct CallOptions {
  nb::handle scalars;
  nb::handle extents;
  nb::handle binding;
  uintptr_t stream;
  int32_t lane;
  nb::handle output_mode;
  nb::handle targets;
  nb::handle donated;
  nb::handle poison;
  nb::handle counts;
};

bool IsEmpty(nb::handle given) {
  return PyTuple_Check(given.ptr()) != 0 && NB_TUPLE_GET_SIZE(given.ptr()) == 0;
}

std::vector<coppice_lease*> LeasesOf(nb::handle given) {
  const Items items(given, "donated");
  std::vector<coppice_lease*> leases;
  for (size_t i = 0; i < items.size(); ++i) {
    leases.push_back(GivenObject<const Lease>(items[i], "donated").handle());
    if (leases.back() == nullptr)
      Raise("FailedPrecondition", "donated: a lease was already released or used up");
  }
  return leases;
}

// Builds the call of C and gives it to `use`, which returns a status, without the GIL.
template <typename Use>
uintptr_t WithCall(const Program& program,
                   nb::handle inputs,
                   const CallOptions& options,
                   Use&& use) {
  const SessionCall session(program.of());
  Device& device = program.of().device();
  const uintptr_t stream = device.OrOwn(options.stream);
  Arrays arrays(inputs, "input", device, stream);
  Arrays targets(options.targets, "target", device, stream);
  Several<int64_t, kFew> scalars = NumbersOf(options.scalars, "scalars");
  Several<int64_t, kFew> extents = NumbersOf(options.extents, "extents");
  const std::vector<coppice_lease*> donated = LeasesOf(options.donated);
  std::optional<Arrays> counts;  // Few calls have any.
  if (!IsEmpty(options.counts))
    counts.emplace(options.counts, "count", device, stream, Nones::kNull);
  auto call = Blank<coppice_call>();
  call.lane = options.lane;
  call.program = program.handle;
  if (!options.binding.is_none())
    call.binding = GivenObject<const Binding>(options.binding, "binding").handle;
  SetArray(arrays, call.inputs, call.input_count);
  SetArray(scalars, call.scalars, call.scalar_count);
  SetArray(extents, call.extents, call.extent_count);
  SetArray(targets, call.targets, call.target_count);
  SetArray(donated, call.donated, call.donated_count);
  if (counts) SetArray(*counts, call.counts, call.count_count);
  call.stream = reinterpret_cast<void*>(stream);
  if (!options.output_mode.is_none())
    call.output_mode = WordNumber(options.output_mode, kOutputModes, "output_mode");
  if (!options.poison.is_none()) call.poison = WordNumber(options.poison, kPoisons, "poison");
  Check(Unlocked([&] { return use(session.handle(), call); }));
  return stream;
}

// What a function of C does with a call: coppice_run or coppice_include.
template <auto Function>
std::unique_ptr<Lease> Run(const Program& program, nb::handle inputs, const CallOptions& options) {
  coppice_lease* lease = nullptr;
  const uintptr_t on =
      WithCall(program, inputs, options, [&](coppice_session* session, const coppice_call& call) {
        return Function(session, &call, &lease);
      });
  return std::make_unique<Lease>(lease, program.of().hold(), program.of().device_object(), on);
}

// What a callable does: the one output, or a tuple of all.
nb::object Call(const Program& program,
                const nb::object& inputs,
                nb::handle binding,
                uintptr_t stream) {
  const nb::object none = nb::none();
  const nb::tuple nothing;
  const SessionCall session(program.of());  // Which tells how many outputs there are.
  const nb::object lease = nb::cast(Run<&coppice_run>(
      program, inputs,
      {nothing, nothing, binding, stream, 0, none, nothing, nothing, none, nothing}));
  const int count = nb::cast<const Lease&>(lease).Info().output_count;
  if (count == 1) return nb::cast(std::make_unique<Output>(lease, 0));
  nb::list outputs;
  for (int index = 0; index < count; ++index)
    outputs.append(nb::cast(std::make_unique<Output>(lease, index)));
  return nb::tuple(outputs);
}

// Nanoseconds per call of `count` calls and their releases from C, each as Run makes it.
double TimeRuns(const Program& program, const nb::object& inputs, int64_t count) {
  const nb::object none = nb::none();
  const nb::tuple nothing;
  double ns = 0;
  WithCall(program, inputs, {nothing, nothing, none, 0, 0, none, nothing, nothing, none, nothing},
           [&](coppice_session* session, const coppice_call& call) {
             const auto start = std::chrono::steady_clock::now();
             for (int64_t i = 0; i < count; ++i) {
               coppice_lease* lease = nullptr;
               const coppice_status status = coppice_run(session, &call, &lease);
               if (status != COPPICE_OK) return status;
               coppice_lease_release(lease);
             }
             const std::chrono::duration<double, std::nano> taken =
                 std::chrono::steady_clock::now() - start;
             ns = taken.count() / static_cast<double>(count);
             return coppice_status{COPPICE_OK};
           });
  return ns;
}

std::string Explain(const Program& program, nb::handle inputs, const CallOptions& options) {
  std::string text;
  WithCall(program, inputs, options, [&](coppice_session* session, const coppice_call& call) {
    return ReadText(text, [&](char* buffer, size_t bytes, size_t* written) {
      return coppice_explain(session, &call, buffer, bytes, written);
    });
  });
  return text;
}

std::unique_ptr<Binding> Bind(const nb::object& self, const nb::object& tensors) {
  const Program& program = nb::cast<const Program&>(self);
  const Items items(tensors, "bind");
  std::vector<Array> arrays(items.size());
  std::vector<const DLTensor*> pointers;
  for (size_t i = 0; i < items.size(); ++i) {
    arrays[i].Read(items[i], "static", i, 0, program.of().device());
    pointers.push_back(&arrays[i].tensor());
  }
  coppice_binding* const made =
      AskProgram<&coppice_bind>(program, pointers.data(), static_cast<int64_t>(pointers.size()));
  return std::make_unique<Binding>(self, made, items.tuple());
}

void Unbind(const Program& program, const Binding& binding) {
  AskSession<&coppice_unbind>(program.of(), binding.handle);
}

void Progress(void* user, int64_t done, int64_t total) {
  TellCallback([&] { CallBack(*static_cast<const nb::object*>(user), done, total); });
}

std::vector<int64_t> RowsOf(const std::vector<std::vector<int64_t>>& buckets) {
  std::vector<int64_t> rows;
  for (const std::vector<int64_t>& bucket : buckets) {
    if (bucket.size() != buckets.front().size())
      Raise("InvalidArgument", "buckets: give each bucket one extent per symbol of the program");
    rows.insert(rows.end(), bucket.begin(), bucket.end());
  }
  return rows;
}

nb::list Plan(const Program& program,
              const std::vector<std::vector<int64_t>>& buckets,
              nb::handle scalars) {
  nb::list planned;
  if (buckets.empty()) return planned;
  const std::vector<int64_t> rows = RowsOf(buckets);
  Several<int64_t, kFew> numbers = NumbersOf(scalars, "scalars");
  std::vector<coppice_planned_bucket> plans(buckets.size(), Blank<coppice_planned_bucket>());
  AskProgram<&coppice_plan>(program, rows.data(), static_cast<int64_t>(buckets.size()),
                            static_cast<int64_t>(buckets.front().size()), numbers.data(),
                            static_cast<int64_t>(numbers.size()), plans.data());
  for (const coppice_planned_bucket& plan : plans) {
    nb::dict read;
    read["plan_height"] = plan.plan_height;
    read["live_bytes"] = plan.live_bytes;
    read["plan_method"] = plan.plan_method;
    planned.append(read);
  }
  return planned;
}

void Warm(const Program& program,
          const std::vector<std::vector<int64_t>>& buckets,
          nb::handle binding,
          nb::handle scalars,
          nb::handle scratch,
          const nb::object& progress,
          int32_t lane) {
  if (buckets.empty()) return;
  const std::vector<int64_t> rows = RowsOf(buckets);
  Several<int64_t, kFew> numbers = NumbersOf(scalars, "scalars");
  auto options = Blank<coppice_warm_options>();
  options.lane = lane;
  if (!binding.is_none()) options.binding = GivenObject<const Binding>(binding, "binding").handle;
  if (!scratch.is_none()) options.scratch = GivenObject<const Binding>(scratch, "scratch").handle;
  SetArray(numbers, options.scalars, options.scalar_count);
  if (!progress.is_none()) {
    if (PyCallable_Check(progress.ptr()) == 0) RaiseNot(progress, "progress", "function");
    options.progress = &Progress;
  }
  nb::object kept = progress;
  options.user = &kept;
  AskProgram<&coppice_warm>(program, rows.data(), static_cast<int64_t>(buckets.size()),
                            static_cast<int64_t>(buckets.front().size()), &options);
}

// Binds Run or Explain, with the options of a call as keywords.
template <auto Method>
void BindCall(nb::class_<Program>& bound, const char* name, const char* doc) {
  bound.def(
      name,
      [](const Program& program, nb::handle inputs, nb::handle scalars, nb::handle extents,
         nb::handle binding, uintptr_t stream, int32_t lane, nb::handle output_mode,
         nb::handle targets, nb::handle donated, nb::handle poison, nb::handle counts) {
        return Method(program, inputs,
                      {scalars, extents, binding, stream, lane, output_mode, targets, donated,
                       poison, counts});
      },
      nb::arg("inputs"), nb::arg("scalars") = nb::make_tuple(),
      nb::arg("extents") = nb::make_tuple(), nb::arg("binding").none() = nb::none(),
      nb::arg("stream") = 0, nb::arg("lane") = 0, nb::arg("output_mode").none() = nb::none(),
      nb::arg("targets") = nb::make_tuple(), nb::arg("donated") = nb::make_tuple(),
      nb::arg("poison").none() = nb::none(), nb::arg("counts") = nb::make_tuple(), doc);
}

}  // namespace

void BindPrograms(nb::module_& module) {
  nb::class_<Binding>(module, "Binding", "Static inputs and outputs that are bound to a program.",
                      Keeps<Binding, &Binding::program>())
      .def_ro("tensors", &Binding::tensors);

  nb::class_<Program> program(module, "Program", "A program of a session.",
                              Keeps<Program, &Program::session>());
  program.def_ro("name", &Program::name)
      .def_ro("variant", &Program::variant)
      .def_ro("session", &Program::session)
      .def("bind", &Bind, nb::arg("tensors"),
           "Binds the static inputs, in spec order, then the static outputs. They stay where\n"
           "they are until the binding ends.")
      .def("unbind", &Unbind, nb::arg("binding"),
           "Ends a binding: drops the graphs that no other binding can use. Waits.")
      .def("reset", &AskProgram<&coppice_reset>,
           "Forgets everything that was recorded and learned about the program.")
      .def("unregister", &AskProgram<&coppice_unregister>, "Ends the program. Waits.")
      .def("warm", &Warm, nb::arg("buckets"), nb::arg("binding").none() = nb::none(),
           nb::arg("scalars") = nb::make_tuple(), nb::arg("scratch").none() = nb::none(),
           nb::arg("progress").none() = nb::none(), nb::arg("lane") = 0,
           "Records buckets ahead of traffic. `buckets`: for each bucket, a list of padded\n"
           "extents. progress(done, total) is called after each bucket.")
      .def("plan", &Plan, nb::arg("buckets"), nb::arg("scalars") = nb::make_tuple(),
           "Plans buckets of a package's program without mapping or running anything. Returns\n"
           "plan_height and live_bytes, in bytes, and plan_method for each bucket.");
  program
      .def("__call__", &Call, nb::arg("inputs"), nb::arg("binding").none() = nb::none(),
           nb::arg("stream") = 0,
           "Like run, but returns the output, or a tuple if there are several outputs, each of\n"
           "which keeps the lease.")
      .def("_time_runs", &TimeRuns, nb::arg("inputs"), nb::arg("count"),
           "Times `count` calls made from C, for coppice.bench. Returns nanoseconds per call.");
  BindCall<&Run<&coppice_run>>(
      program, "run",
      "Runs the program on `stream` (0: the device's own) and returns a Lease.\n\n"
      "`inputs`: the copied inputs in spec order, at real sizes. They are outputs of\n"
      "earlier calls, which are read in place, or tensors of any library with __dlpack__ or\n"
      "__cuda_array_interface__; on the emulator, CPU tensors are copied to it. `scalars`:\n"
      "the values of all scalars, in spec order. `extents`: one per symbol that is `given`\n"
      "in the spec. `output_mode`: a word of OutputMode; \"write_into\" needs one of `targets`\n"
      "per output. `donated`: leases that the call may use up. `poison`: \"nan\", \"pattern\"\n"
      "or \"noise\" in the padding, for tests. `counts`: for each symbol that is counted,\n"
      "where the device finds its extent, such as Output.count; None: the host's count is\n"
      "used.");
  BindCall<&Run<&coppice_include>>(
      program, "include",
      "Like run, but adds the program to the capture of `stream`, as a child graph; the\n"
      "bucket must be warm. The Lease is for the outputs, which every launch of the\n"
      "caller's graph writes.");
  BindCall<&Explain>(program, "explain", "What `run` would do with this call, in words.");
}

}  // namespace coppice::python
