// Handles: counted, so that what one needs lives as long as it does. Private to capi/.
//
// Threads: counts from any; what a handle holds as coppice.h says of it.

#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/base/status.h"
#include "coppice/coppice.h"
#include "coppice/graphs/session.h"
#include "coppice/runtime/emulator.h"
#include "coppice/runtime/kernel_library.h"
#include "coppice/runtime/loaded_package.h"
#include "coppice/runtime/stream.h"

#include "capi/counted.h"
#include "capi/device_memory.h"
#include "capi/function_call.h"
#include "capi/here.h"

struct coppice_device : coppice::capi::Counted {
  static constexpr const char* kName = "device";  // As errors call a handle.
  ~coppice_device();

  coppice::DriverKind kind() const { return driver->kind(); }
  DLDevice dl() const;
  // The kernel that runs functions of COPPICE_ON_HOST, loaded when it is asked for first. Errors:
  // kFailedPrecondition on CUDA.
  absl::StatusOr<coppice::Kernel> HostOperationKernel();
  // Remembers that one of these failed, for findings and synchronisations.
  void TellHostFailure(const absl::Status& status);
  // The first failure that nobody was told of, or what the emulator's work ran into.
  absl::Status TakeFailure();

  // What a thread let go of while it ran work of the emulator, which must not wait for itself.
  using Retired = std::variant<coppice::capi::DeviceBlock,
                               coppice::capi::Held<coppice_session>,
                               coppice::capi::Held<coppice_package>,
                               coppice::capi::Held<coppice_kernels>>;
  void Retire(Retired ending);
  void EndRetired();  // Nothing in such work.
  // Ends memory, streams and what it launches itself.
  void Clear();

  std::unique_ptr<coppice::Emulator> emulator;  // Null on CUDA.
  std::optional<coppice::Driver> driver;
  std::optional<coppice::Context> context;
  int ordinal = 0;
  coppice::capi::MemorySource source;
  std::atomic<int> sessions{0};  // That are there.
  std::atomic<int> resets{0};    // So far: what was loaded before one is gone.

  std::mutex mutex;  // Of what follows.
  std::optional<coppice::KernelLibrary> host_operations;
  std::map<uint64_t, coppice::capi::DeviceBlock> memory;
  std::map<void*, coppice::Stream> streams;
  std::vector<Retired> retired;
  absl::Status untold;
};

struct coppice_package : coppice::capi::Counted {
  static constexpr const char* kName = "package";
  ~coppice_package();

  coppice::capi::Held<coppice_device> device;
  int resets = 0;              // Of the device, when it was loaded.
  std::vector<std::byte> zip;  // Of a package in memory.
  std::unique_ptr<const coppice::package::LoadedPackage> loaded;
};

struct coppice_kernel {
  static constexpr const char* kName = "kernel";
  coppice_kernels* const kernels;
  const std::string name;
  const coppice::Kernel kernel;
  const std::vector<int64_t> parameter_offsets;  // Empty where the driver cannot tell.
  const std::vector<int64_t> parameter_bytes;
  // What the driver was asked to allow its launches.
  std::atomic<unsigned> shared_bytes{0};
  std::atomic<bool> large_clusters{false};
};

struct coppice_kernels : coppice::capi::Counted {
  static constexpr const char* kName = "kernels";
  ~coppice_kernels();

  coppice::capi::Held<coppice_device> device;
  int resets = 0;  // Of the device, when it was loaded.
  std::optional<coppice::KernelLibrary> library;
  std::mutex mutex;  // Of what follows.
  std::map<std::string, std::unique_ptr<coppice_kernel>> kernels;
};

namespace coppice::capi {

// What the graphs of a program launch. Its session holds it until the program was unregistered.
struct ProgramNeeds : Counted {
  void Keep(coppice_kernels& launched);

  Held<coppice_package> package;  // Of a program of one.
  std::vector<Held<StepFunctionRecord>> functions;
  std::mutex mutex;  // Of what follows.
  std::map<coppice_kernels*, Held<coppice_kernels>> kernels;
};

}  // namespace coppice::capi

struct coppice_program {
  coppice_session* session;
  const coppice::Program* program;
};

struct coppice_binding {
  coppice_session* session;
  const coppice::Binding* binding;
};

struct coppice_session : coppice::capi::Counted {
  static constexpr const char* kName = "session";
  ~coppice_session();

  coppice_program* HandleOf(const coppice::Program* program);
  coppice_binding* HandleOf(const coppice::Binding* binding);
  // Holds what a program's graphs launch until Forget, or its own end.
  void Hold(const coppice::Program* program, coppice::capi::Held<coppice::capi::ProgramNeeds> its);
  // Requires: the program was unregistered.
  void Forget(const coppice::Program* program);

  coppice::capi::Held<coppice_device> device;
  int lanes = 1;
  // Shared by what looks into packages without a lane's lock, alone by who lets one go.
  std::shared_mutex looking;
  std::mutex mutex;  // Of the next three.
  std::map<const coppice::Program*, coppice::capi::Held<coppice::capi::ProgramNeeds>> needs;
  std::map<const coppice::Program*, coppice_program> programs;
  std::map<const coppice::Binding*, coppice_binding> bindings;
  std::unique_ptr<coppice::Session> session;
};

struct coppice_lease : coppice::capi::Counted {
  static constexpr const char* kName = "lease";
  // An empty one, so that no lease is taken for which there is no room.
  coppice_lease(coppice_session* made_by, coppice::capi::Held<coppice_device> on)
      : session(made_by), device(std::move(on)) {}

  coppice_session* const session;  // May be gone; not while `lease` can be read.
  coppice::capi::Held<coppice_device> device;
  coppice::Lease lease;
  std::atomic<int> scopes{0};  // That are open.
};

struct coppice_read {
  static constexpr const char* kName = "scope";
  coppice_read(coppice_lease* of, coppice_session* session_of, coppice::ReadScope opened)
      : session(coppice::capi::Held<coppice_session>::Share(session_of)),
        lease(coppice::capi::Held<coppice_lease>::Share(of)),
        scope(std::in_place, std::move(opened)) {}
  // The scope ends first, then the lease, then the session.
  coppice::capi::Held<coppice_session> session;
  coppice::capi::Held<coppice_lease> lease;
  std::optional<coppice::ReadScope> scope;
};

struct coppice_chain {
  // The scope ends first, then the session.
  coppice::capi::Held<coppice_session> session;
  coppice::ChainScope scope;
};

struct coppice_loan {
  static constexpr const char* kName = "loan";
  // The loan ends first, then the session.
  coppice::capi::Held<coppice_session> session;
  coppice::Loan loan;
};

namespace coppice::capi {

// Ends a hold of the caller's; later, if the thread runs work of the emulator.
template <typename Object>
void Release(Object* object) {
  if (object == nullptr) return;
  Held<Object> held = Held<Object>::Adopt(object);
  if (Emulator::RunsThisThread()) object->device->Retire(std::move(held));
}

// What is loaded on a device, which its holder holds.
template <typename Object>
Held<Object> MakeOn(coppice_device& device) {
  auto made = Held<Object>::Adopt(new Object);
  made->device = Held<coppice_device>::Share(&device);
  made->resets = device.resets.load();
  return made;
}

// Errors of what handles are given: kInvalidArgument.
absl::Status CheckHandle(const void* handle, const char* what);
// Of what was loaded on a device when that had been reset `resets` times: kFailedPrecondition if it
// was reset since.
absl::Status CheckNotReset(const coppice_device& device, int resets, const char* what);

// The session whose lock a call on a handle takes, so that callbacks of it cannot call; null: none.
inline const coppice_session* LockedBy(const coppice_session& session) {
  return &session;
}
inline const coppice_session* LockedBy(const coppice_lease& lease) {
  return lease.session;
}
inline const coppice_session* LockedBy(const coppice_loan& loan) {
  return loan.session.get();
}
template <typename Handle>
const coppice_session* LockedBy(const Handle& /*handle*/) {
  return nullptr;
}

// Of a handle that a function is called on; kFailedPrecondition if this thread runs a callback that
// it would wait for.
template <typename Handle>
absl::Status CheckUsable(const Handle* handle) {
  COPPICE_RETURN_IF_ERROR(CheckHandle(handle, Handle::kName));
  const coppice_session* const session = LockedBy(*handle);
  return session == nullptr ? absl::OkStatus() : CheckNotCalledBy(session);
}

// Of a program or binding that it is the session's, too.
absl::StatusOr<const Program*> ProgramOf(const coppice_session& session,
                                         const coppice_program* program);
// Null if `binding` is.
absl::StatusOr<const Binding*> BindingOf(const coppice_session& session,
                                         const coppice_binding* binding);
absl::Status CheckLane(const coppice_session& session, int32_t lane);
absl::Status CheckStream(const void* stream);

}  // namespace coppice::capi
