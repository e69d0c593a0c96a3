// The functions of the driver table, around the entries.

#include "runtime/emulator/admission.h"

#include "runtime/emulator/capture.h"

namespace coppice::emulator {
namespace {

// Calls that work before cuInit.
constexpr bool NeedsNoInit(EntryId entry) {
  return entry == EntryId::kGetErrorName || entry == EntryId::kInit ||
         entry == EntryId::kDriverGetVersion;
}

// Calls about the driver and the device; they work without a context and after its death.
constexpr bool NeedsNoContext(EntryId entry) {
  switch (entry) {
    case EntryId::kGetErrorName:
    case EntryId::kInit:
    case EntryId::kDriverGetVersion:
    case EntryId::kDeviceGetCount:
    case EntryId::kDeviceGet:
    case EntryId::kDeviceGetName:
    case EntryId::kDeviceTotalMem:
    case EntryId::kDeviceGetAttribute:
    case EntryId::kDevicePrimaryCtxRetain:
    case EntryId::kDevicePrimaryCtxRelease:
    case EntryId::kCtxSetCurrent:
    case EntryId::kCtxGetCurrent:
    case EntryId::kThreadExchangeStreamCaptureMode:
      return true;
    default:
      return false;
  }
}

// Calls that give something back: a dead context takes it, and reports its death all the same.
constexpr bool Releases(EntryId entry) {
  switch (entry) {
    case EntryId::kMemFree:
    case EntryId::kMemFreeHost:
    case EntryId::kMemAddressFree:
    case EntryId::kMemRelease:
    case EntryId::kMemUnmap:
    case EntryId::kStreamDestroy:
    case EntryId::kStreamEndCapture:
    case EntryId::kEventDestroy:
    case EntryId::kLibraryUnload:
    case EntryId::kGraphDestroy:
    case EntryId::kGraphExecDestroy:
      return true;
    default:
      return false;
  }
}

constexpr Admission AdmissionOf(EntryId entry) {
  return {.init = !NeedsNoInit(entry),
          .context = !NeedsNoContext(entry),
          .releases = Releases(entry),
          .handle_first = LooksAtHandleFirst(entry),
          .as = entry};
}

// An entry that any thread may call at any time, host code of the device's work too.
CuResult CallGetErrorName(CuResult error, const char** text) {
  if (FindState() == nullptr)
    return IsForked() ? CuResult::kNotInitialized : CuResult::kDeinitialized;
  return GetErrorName(error, text);
}

}  // namespace

CuResult Admit(State& state, const Admission& admission) {
  if (!state.initialized && admission.init) return CuResult::kNotInitialized;
  if (!admission.context) return CuResult::kSuccess;
  if (!admission.orphan && state.contexts.Find(ThisThread().context()) == nullptr)
    return CuResult::kInvalidContext;
  if (state.processor.sticky() != CuResult::kSuccess && !admission.releases)
    return state.processor.sticky();
  if (state.captures.empty() || admission.handle_first) return CuResult::kSuccess;
  return CheckCaptureAllows(state, admission.as);
}

DriverTable MakeTable() {
  DriverTable table;
#define X(member, version, parameters) \
  table.member = &Admitted<AdmissionOf(EntryId::k##member), &member>::Call;
#include "coppice/runtime/driver_entries.inc"
#undef X
  table.GetErrorName = &CallGetErrorName;
  return table;
}

}  // namespace coppice::emulator
