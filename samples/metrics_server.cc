// metrics_server: serves the metrics of a session over HTTP while threads of the program call it,
// as a server of models would. Prometheus scrapes http://127.0.0.1:9400/metrics, and
// grafana_dashboard.json draws it.
//
//   metrics_server [--port N] [--seconds N] [--scrapes N]
//
// Port 0 is one that is free. It ends by SIGINT or SIGTERM, after so many seconds or scrapes.

#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <httplib.h>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <vector>

#include "absl/status/status.h"
#include "fmt/format.h"

#include "coppice/base/status.h"
#include "coppice/graphs/session.h"
#include "coppice/runtime/kernel_library.h"
#include "coppice/runtime/stream.h"

#include "copies.h"
#include "open_driver.h"
#include "scale.h"

namespace samples {
namespace {

using coppice::Dim;
using coppice::MetricsFormat;
using coppice::PaddingPolicy;
using coppice::Tensor;

constexpr int kThreads = 2;
constexpr int64_t kCountMax = 96;
constexpr auto kPause = std::chrono::milliseconds(2);  // Between the calls of a thread.

struct Options {
  int port = 9400;
  int seconds = 0;  // 0: no end.
  int scrapes = 0;  // The same.
};

// The numbers of options that come in pairs, all >= 0.
absl::StatusOr<Options> Parse(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; i += 2) {
    const std::string_view name = arguments[i];
    const std::string_view value = i + 1 < count ? arguments[i + 1] : "";
    int* const into = name == "--port"      ? &options.port
                      : name == "--seconds" ? &options.seconds
                      : name == "--scrapes" ? &options.scrapes
                                            : nullptr;
    const char* const end = value.data() + value.size();
    if (into == nullptr || std::from_chars(value.data(), end, *into).ptr != end || value.empty() ||
        *into < 0 || options.port > 65535)
      return coppice::InvalidArgument("'{} {}'; use --port 0 to 65535, --seconds N, --scrapes N",
                                      name, value);
  }
  return options;
}

// That the program is to end: a signal tells its first thread, which tells the others.
class Ending {
 public:
  Ending() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    // Threads inherit it: signals are waited for, not handled.
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  }

  // From any thread.
  static void Ask() { kill(getpid(), SIGTERM); }
  // Waits until somebody asked, or for so many seconds if that is not 0.
  void Wait(int seconds) {
    const timespec most = {.tv_sec = seconds, .tv_nsec = 0};
    if (seconds > 0) {
      sigtimedwait(&signals_, nullptr, &most);
    } else {
      sigwaitinfo(&signals_, nullptr);
    }
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  // Whether it is so far within this time; waits for one or the other.
  bool ComesWithin(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [this] { return ended_; });
  }

 private:
  sigset_t signals_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
};

// A thread of the application: batches of any size, one after another.
absl::Status CallUntil(Ending& ending,
                       const coppice::Context& context,
                       coppice::Session& session,
                       const coppice::Program& program,
                       int lane) {
  COPPICE_RETURN_IF_ERROR(context.MakeCurrent());
  const coppice::Driver& driver = context.driver();
  COPPICE_ASSIGN_OR_RETURN(const auto stream, coppice::Stream::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(const auto memory,
                           Upload(driver, stream, std::vector<float>(kCountMax, 1)));
  std::minstd_rand random(static_cast<unsigned>(lane + 1));
  while (!ending.ComesWithin(kPause)) {
    const int64_t count[] = {std::uniform_int_distribution<int64_t>(1, kCountMax)(random)};
    const Tensor x[] = {Tensor::Dense(memory.address(), coppice::DType::kFloat32, count)};
    COPPICE_RETURN_IF_ERROR(
        session.Run({.program = &program, .inputs = x, .stream = stream.handle(), .lane = lane})
            .status());
    COPPICE_RETURN_IF_ERROR(stream.Synchronize());
  }
  return absl::OkStatus();
}

// OpenMetrics for who asks for it, as Prometheus does; the older format for everybody else.
MetricsFormat FormatFor(const httplib::Request& request) {
  return request.get_header_value("Accept").find("application/openmetrics-text") !=
                 std::string::npos
             ? MetricsFormat::kOpenMetrics
             : MetricsFormat::kPrometheus;
}

void AddPages(httplib::Server& server, const coppice::Session& session, const Options& options) {
  server.Get("/metrics", [&](const httplib::Request& request, httplib::Response& response) {
    const MetricsFormat format = FormatFor(request);
    response.set_content(session.MetricsText(format), ContentTypeOf(format));
  });
  server.Get("/healthz", [](const httplib::Request&, httplib::Response& response) {
    response.set_content("ok\n", "text/plain");
  });
  // After the answer has been sent.
  server.set_logger([left = std::make_shared<std::atomic<int>>(options.scrapes)](
                        const httplib::Request& request, const httplib::Response&) {
    if (request.path == "/metrics" && left->fetch_sub(1) == 1) Ending::Ask();
  });
}

absl::Status RunSample(const coppice::Driver& driver, const Options& options, Ending& ending) {
  COPPICE_ASSIGN_OR_RETURN(const auto context, coppice::Context::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(const auto library, coppice::KernelLibrary::Load(driver, scale_image));
  COPPICE_ASSIGN_OR_RETURN(const coppice::Kernel kernel, library.Get("Scale"));
  COPPICE_ASSIGN_OR_RETURN(
      const auto session,
      coppice::Session::Create(context, {.lanes = kThreads, .memory = {.budget_bytes = 64 << 20}}));

  coppice::ProgramSpec spec{.name = "scale", .claim = coppice::PaddingContents::kRowIndependent};
  const auto count = Dim::Symbol(spec.AddSymbol("count", *PaddingPolicy::Ramp(1, 8, 64)));
  spec.inputs = {{.name = "x", .dims = {count}}};
  spec.outputs = {{.name = "y", .dims = {count}}};
  const auto scale = [&](coppice::CallContext& call) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, call.AllocateOutput(0));
    const ScaleParams params{.x = reinterpret_cast<const float*>(call.input(0).data),
                             .y = reinterpret_cast<float*>(y.data),
                             .count = call.extent(0),
                             .factor = 2};
    return coppice::Launch(call.driver(), kernel, call.stream(), params, 1U);
  };
  COPPICE_ASSIGN_OR_RETURN(const auto* program, session->Register(std::move(spec), scale));

  httplib::Server server;
  // Not SO_REUSEPORT, which the library would set: another server may have the port.
  server.set_socket_options([](socket_t socket) {
    constexpr int kYes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &kYes, sizeof(kYes));
  });
  AddPages(server, *session, options);
  const int port = options.port == 0 ? server.bind_to_any_port("127.0.0.1")
                   : server.bind_to_port("127.0.0.1", options.port) ? options.port
                                                                    : -1;
  if (port < 0)
    return coppice::FailedPrecondition("port {} of 127.0.0.1 is in use; choose another by --port",
                                       options.port);
  fmt::print("http://127.0.0.1:{}/metrics\n", port);
  std::fflush(stdout);

  std::vector<absl::Status> ended(kThreads);
  std::vector<std::thread> threads;
  for (int lane = 0; lane < kThreads; ++lane) {
    threads.emplace_back([&, lane] {
      ended[static_cast<size_t>(lane)] = CallUntil(ending, context, *session, *program, lane);
      if (!ended[static_cast<size_t>(lane)].ok()) Ending::Ask();
    });
  }
  std::thread serving([&] { server.listen_after_bind(); });
  ending.Wait(options.seconds);
  while (!server.is_running())  // Until then stop() does nothing.
    std::this_thread::yield();
  server.stop();
  serving.join();
  for (std::thread& thread : threads)
    thread.join();
  for (const absl::Status& status : ended)
    COPPICE_RETURN_IF_ERROR(status);
  fmt::print("{} calls\n", session->stats().calls);
  return absl::OkStatus();
}

}  // namespace
}  // namespace samples

int main(int argc, char** argv) {
  samples::Ending ending;  // Before there are threads.
  std::unique_ptr<coppice::Emulator> emulator;
  const auto options = samples::Parse(argc, argv);
  if (!options.ok()) return samples::Finish("metrics_server", options.status(), emulator);
  const auto driver = samples::OpenDriver(samples::scale_image, emulator);
  const absl::Status status =
      driver.ok() ? samples::RunSample(*driver, *options, ending) : driver.status();
  return samples::Finish("metrics_server", status, emulator);
}
