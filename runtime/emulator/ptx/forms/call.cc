// Calls of functions, and of those that the driver has.

#include <bit>
#include <cstring>
#include <string>

#include "fmt/format.h"

#include "runtime/emulator/ptx/form.h"
#include "runtime/emulator/ptx/forms/access.h"
#include "runtime/emulator/ptx/memory.h"
#include "runtime/emulator/ptx/print.h"
#include "runtime/emulator/ptx/resident_warp.h"

namespace coppice::ptx {
namespace {

const CallSite& SiteOf(const ResidentWarp& warp, const Instr& instr) {
  return warp.frame().code->calls[instr.target];
}

const Code* FindCallee(const Kernel& kernel, uint64_t address) {
  if (kernel.functions == nullptr || address == 0 || address % kFunctionBytes != 0) return nullptr;
  const uint64_t index = address / kFunctionBytes - 1;
  return index < kernel.functions->size() ? (*kernel.functions)[index] : nullptr;
}

Step RunCall(Warp& on, const Instr& instr) {
  ResidentWarp& warp = static_cast<ResidentWarp&>(on);
  const CallSite& site = SiteOf(warp, instr);
  if (site.callee != nullptr)
    return warp.Call(*site.callee, site, warp.mask()) ? Step::kChoose : Step::kStop;
  // The lanes of each callee make a call of their own.
  const uint64_t* const address = warp.From<uint64_t>(instr.a);
  for (uint32_t left = warp.mask(); left != 0;) {
    const int first = std::countr_zero(left);
    const Code* const callee = FindCallee(warp.state().kernel, address[first]);
    if (callee == nullptr) {
      warp.Fault(
          Finding::Kind::kIllegalInstruction, first,
          fmt::format("calls {:#x}, which is not the address of a function", address[first]));
      return Step::kStop;
    }
    uint32_t together = 0;
    for (uint32_t others = left; others != 0; others &= others - 1) {
      const int lane = std::countr_zero(others);
      if (address[lane] == address[first]) together |= uint32_t{1} << lane;
    }
    if (!warp.Call(*callee, site, together)) return Step::kStop;
    left &= ~together;
  }
  return Step::kChoose;
}

// A lane's argument of a call.
template <typename T>
T Argument(ResidentWarp& warp, const CallSite& site, size_t index, int lane) {
  T value = {};
  if (index >= site.arguments.size()) return value;
  const int64_t offset = warp.frame().memory + site.arguments[index].offset;
  std::memcpy(&value, warp.thread_memory() + lane * warp.thread_stride() + offset, sizeof(value));
  return value;
}

// int vprintf(const char* format, const void* arguments)
Step CallPrint(Warp& on, const Instr& instr) {
  ResidentWarp& warp = static_cast<ResidentWarp&>(on);
  const CallSite& site = SiteOf(warp, instr);
  for (uint32_t left = warp.mask(); left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    const auto printed = FormatPrint(warp, Argument<uint64_t>(warp, site, 0, lane),
                                     Argument<uint64_t>(warp, site, 1, lane), lane);
    if (!printed.has_value()) return Step::kStop;
    if (const auto& print = warp.state().environment.print) print(printed->text);
    if (site.results.empty()) continue;
    const int64_t offset = warp.frame().memory + site.results[0].offset;
    std::memcpy(warp.thread_memory() + lane * warp.thread_stride() + offset, &printed->arguments,
                sizeof(printed->arguments));
  }
  return Step::kNext;
}

// void __assertfail(const char* condition, const char* file, unsigned line, const char* function,
//                   size_t character_bytes)
Step CallAssertFail(Warp& on, const Instr& instr) {
  ResidentWarp& warp = static_cast<ResidentWarp&>(on);
  const CallSite& site = SiteOf(warp, instr);
  const int lane = std::countr_zero(warp.mask());
  const auto text = [&](size_t index) {
    const uint64_t address = Argument<uint64_t>(warp, site, index, lane);
    return Memory::Of(warp).TextAt(warp, address, lane);
  };
  const auto condition = text(0);
  const auto file = text(1);
  const auto function = text(3);
  // A text that cannot be read has been noted as what ends the launch.
  if (condition.has_value() && file.has_value() && function.has_value())
    warp.Fault(Finding::Kind::kAssert, lane,
               fmt::format("{}:{}: {}: assertion `{}` failed", *file,
                           Argument<uint32_t>(warp, site, 2, lane), *function, *condition));
  return Step::kStop;
}

constexpr Form kCallRows[] = {
    {"call", "", RunCall},
    {"call.__assertfail", "", CallAssertFail},
    {"call.vprintf", "", CallPrint},
};

}  // namespace

std::span<const Form> CallForms() {
  return kCallRows;
}

}  // namespace coppice::ptx
