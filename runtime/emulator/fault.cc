// SIGSEGV and SIGBUS as values: a jump buffer per thread, and handlers that know when to use it.

#include "runtime/emulator/fault.h"

#include <csetjmp>
#include <csignal>
#include <ucontext.h>
#include <unistd.h>

namespace coppice::emulator {
namespace {

struct Frame {
  sigjmp_buf resume;
  void* volatile address;
};

thread_local Frame* t_frame = nullptr;  // Set while this thread is inside RunGuarded.

struct sigaction g_previous_segv;
struct sigaction g_previous_bus;

bool (*g_is_device)(uint64_t address) = nullptr;

// By write(), since a signal handler may hold any lock.
void TellHostAccess() {
  constexpr char kText[] =
      "coppice emulator: host code touched device memory; copy the data with a driver call, or "
      "turn off Strictness::host_access\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kText, sizeof(kText) - 1);
}

void Chain(int signal, siginfo_t* info, void* context) {
  const struct sigaction& previous = signal == SIGSEGV ? g_previous_segv : g_previous_bus;
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  } else {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

void OnFault(int signal, siginfo_t* info, void* context) {
  Frame* const frame = t_frame;
  if (frame == nullptr) {
    if (g_is_device(reinterpret_cast<uint64_t>(info->si_addr))) TellHostAccess();
    Chain(signal, info, context);
    return;
  }
  frame->address = info->si_addr;
  // The mask of the code that faulted, which the jump does not restore: saving it with every
  // operation would cost a system call each.
  pthread_sigmask(SIG_SETMASK, &static_cast<const ucontext_t*>(context)->uc_sigmask, nullptr);
  siglongjmp(frame->resume, 1);
}

}  // namespace

FaultHandlers::FaultHandlers(bool (*is_device)(uint64_t address)) {
  g_is_device = is_device;
  struct sigaction action = {};
  action.sa_sigaction = OnFault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;  // The earlier handler may need a thread's own stack.
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &g_previous_segv);
  sigaction(SIGBUS, &action, &g_previous_bus);
}

FaultHandlers::~FaultHandlers() {
  sigaction(SIGSEGV, &g_previous_segv, nullptr);
  sigaction(SIGBUS, &g_previous_bus, nullptr);
}

std::optional<uint64_t> RunGuarded(void (*body)(const void*), const void* argument) {
  Frame frame = {};
  if (sigsetjmp(frame.resume, 0) != 0) {  // NOLINT(cert-err52-cpp): the only way out of a fault.
    t_frame = nullptr;
    return reinterpret_cast<uint64_t>(frame.address);
  }
  t_frame = &frame;
  body(argument);
  t_frame = nullptr;
  return std::nullopt;
}

}  // namespace coppice::emulator
