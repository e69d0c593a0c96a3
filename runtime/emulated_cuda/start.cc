// Makes the emulator, and tells what it found.

#include "runtime/emulated_cuda/start.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "fmt/format.h"

#include "coppice/base/status.h"
#include "coppice/base/units.h"
#include "coppice/runtime/emulator.h"

namespace coppice::emulated_cuda {
namespace {

std::mutex g_mutex;
std::atomic<Emulator*> g_emulator = nullptr;  // Lives as long as the process.

void Say(std::string_view text) {
  fmt::print(stderr, "emulated libcuda.so.1: {}\n", text);
}

// What an environment variable says, or `otherwise` if it is not set.
absl::StatusOr<int64_t> ReadNumber(const char* variable, int64_t otherwise) {
  const char* const text = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  if (text == nullptr) return otherwise;
  const std::string_view digits(text);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || number < 0)
    return InvalidArgument("{}={}: give a decimal number", variable, digits);
  return number;
}

absl::StatusOr<Emulator::Options> ReadOptions() {
  Emulator::Options options;
  COPPICE_ASSIGN_OR_RETURN(const int64_t seed, ReadNumber("COPPICE_EMULATED_SEED", 1));
  COPPICE_ASSIGN_OR_RETURN(const int64_t mebibytes,
                           ReadNumber("COPPICE_EMULATED_MEMORY", options.memory_bytes / kMiB));
  COPPICE_ASSIGN_OR_RETURN(const int64_t devices, ReadNumber("COPPICE_EMULATED_DEVICES", 1));
  options.devices = static_cast<int>(std::min<int64_t>(devices, INT32_MAX));
  options.seed = static_cast<uint64_t>(seed);
  options.memory_bytes = mebibytes > INT64_MAX / kMiB ? INT64_MAX : mebibytes * kMiB;
  COPPICE_ASSIGN_OR_RETURN(const int64_t ptx_alone, ReadNumber("CUDA_FORCE_PTX_JIT", 1));
  options.cubins = ptx_alone == 0;
  const char* const strict =
      std::getenv("COPPICE_EMULATED_STRICT");  // NOLINT(concurrency-mt-unsafe)
  const std::string_view word = strict == nullptr ? "on" : strict;
  if (word != "on" && word != "off")
    return InvalidArgument("COPPICE_EMULATED_STRICT={}: give on or off", word);
  if (word == "off") options.strictness = Emulator::Strictness::All(false);
  return options;
}

void TellFindings() {
  for (const std::string& finding : g_emulator.load()->reports())
    Say("finding: " + finding);
  if (const std::string fault = g_emulator.load()->fault(); !fault.empty()) Say("fault: " + fault);
}

}  // namespace

const DriverTable* FindTable() {
  const Emulator* const emulator = g_emulator.load(std::memory_order_acquire);
  return emulator == nullptr ? nullptr : &emulator->driver().table();
}

CuResult Start() {
  const std::lock_guard lock(g_mutex);
  if (g_emulator.load() != nullptr) return CuResult::kSuccess;
  const absl::StatusOr<Emulator::Options> options = ReadOptions();
  absl::StatusOr<std::unique_ptr<Emulator>> made =
      options.ok() ? Emulator::Create(*options) : options.status();
  if (!made.ok()) {
    Say(MessageOf(made.status()));
    return made.status().code() == absl::StatusCode::kInvalidArgument ? CuResult::kInvalidValue
                                                                      : CuResult::kOutOfMemory;
  }
  g_emulator.store(made->release(), std::memory_order_release);
  std::atexit(&TellFindings);
  return CuResult::kSuccess;
}

}  // namespace coppice::emulated_cuda
