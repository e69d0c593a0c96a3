// The driver entries for the driver itself, the device and its context.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "coppice/runtime/cuda_abi.h"

#include "runtime/emulator/device_limits.h"
#include "runtime/emulator/entries.h"
#include "runtime/emulator/handles.h"
#include "runtime/emulator/result_texts.h"
#include "runtime/emulator/state.h"
#include "runtime/emulator/thread.h"

namespace coppice::emulator {

namespace {

struct AttributeValue {
  int attribute = 0;
  int value = 0;
};

// CUDA's numbers of what a device is asked, and what an H100 says; 0 for what is not offered here.
constexpr AttributeValue kAttributes[] = {
    {2, 1024},    {3, 1024},     {4, 64},          {5, 2147483647},  {6, 65535},      {7, 65535},
    {9, 65536},   {10, 32},      {11, 2147483647}, {12, 65536},      {13, 1980000},   {14, 512},
    {15, 1},      {17, 0},       {18, 0},          {19, 1},          {20, 0},         {21, 131072},
    {22, 131072}, {23, 65536},   {24, 16384},      {25, 16384},      {26, 16384},     {27, 32768},
    {28, 32768},  {29, 2048},    {30, 512},        {31, 1},          {32, 1},         {34, 0},
    {35, 0},      {36, 2619000}, {37, 5120},       {38, 52428800},   {39, 2048},      {40, 3},
    {41, 1},      {42, 32768},   {43, 2048},       {44, 1},          {45, 32768},     {46, 32768},
    {47, 8192},   {48, 8192},    {49, 32768},      {50, 0},          {51, 32},        {52, 32768},
    {53, 32768},  {54, 2046},    {55, 32768},      {56, 131072},     {57, 65536},     {58, 16384},
    {59, 16384},  {60, 16384},   {61, 32768},      {62, 2048},       {63, 32768},     {64, 32768},
    {65, 2048},   {66, 32768},   {67, 32768},      {68, 2046},       {69, 268435456}, {70, 131072},
    {71, 65000},  {72, 2097120}, {73, 32768},      {74, 32768},      {77, 32768},     {78, 1},
    {79, 1},      {80, 1},       {81, 233472},     {82, 65536},      {83, 1},         {84, 0},
    {85, 0},      {86, 0},       {87, 2},          {88, 0},          {89, 1},         {90, 1},
    {91, 1},      {92, 0},       {93, 0},          {94, 0},          {95, 1},         {96, 0},
    {98, 0},      {99, 1},       {100, 0},         {101, 0},         {102, 1},        {103, 0},
    {104, 0},     {105, 0},      {106, 32},        {107, 0},         {108, 0},        {109, 0},
    {110, 0},     {111, 1024},   {112, 0},         {113, 0},         {114, 0},        {115, 1},
    {116, 0},     {117, 0},      {118, 0},         {119, 0},         {121, 0},        {122, 0},
    {123, 0},     {124, 0},      {125, 0},         {126, 4},         {128, 0},        {129, 1},
    {130, 0},     {131, -1},     {132, 0},         {133, 0},         {134, 0},        {135, 0},
    {136, 0},     {137, 0},      {138, 0},         {139, 590352606}, {140, 0},        {141, 0},
    {142, 0},     {143, 0},      {144, 0},         {145, 0},         {146, 0},        {147, 0},
};

CuResult FindOtherAttribute(int attribute, CuDevice device, int* value) {
  constexpr int kPciBus = 33;
  constexpr int kClusterLaunch = 120;
  constexpr int kTensorMaps = 127;
  switch (attribute) {
    case kPciBus:
      *value = device + 1;
      return CuResult::kSuccess;
    case kClusterLaunch:
    case kTensorMaps:
      *value = TheState().options.limits.has_clusters ? 1 : 0;
      return CuResult::kSuccess;
    default:
      const auto* const found =
          std::ranges::find(kAttributes, attribute, &AttributeValue::attribute);
      if (found == std::end(kAttributes)) return CuResult::kInvalidValue;
      *value = found->value;
      return CuResult::kSuccess;
  }
}

}  // namespace

CuResult GetErrorName(CuResult error, const char** text) {
  if (text == nullptr) return CuResult::kInvalidValue;
  const ResultText* const found = FindResultText(error);
  *text = found == nullptr ? nullptr : found->name;
  return found == nullptr ? CuResult::kInvalidValue : CuResult::kSuccess;
}

CuResult Init(unsigned flags) {
  if (flags != 0) return CuResult::kInvalidValue;
  TheState().initialized = true;
  return CuResult::kSuccess;
}

CuResult DriverGetVersion(int* version) {
  if (version == nullptr) return CuResult::kInvalidValue;
  *version = kDriverVersion;
  return CuResult::kSuccess;
}

CuResult DeviceGetCount(int* count) {
  if (count == nullptr) return CuResult::kInvalidValue;
  *count = TheState().options.devices;
  return CuResult::kSuccess;
}

CuResult DeviceGet(CuDevice* device, int ordinal) {
  if (device == nullptr) return CuResult::kInvalidValue;
  if (!TheState().IsDevice(ordinal)) return CuResult::kInvalidDevice;
  *device = ordinal;
  return CuResult::kSuccess;
}

CuResult DeviceGetName(char* name, int capacity, CuDevice device) {
  constexpr char kDeviceName[] = "coppice emulator";
  if (name == nullptr || capacity < 1) return CuResult::kInvalidValue;
  if (!TheState().IsDevice(device)) return CuResult::kInvalidDevice;
  const size_t length = std::min(static_cast<size_t>(capacity), sizeof(kDeviceName)) - 1;
  std::memcpy(name, kDeviceName, length);
  name[length] = '\0';
  return CuResult::kSuccess;
}

CuResult DeviceTotalMem(size_t* bytes, CuDevice device) {
  if (bytes == nullptr) return CuResult::kInvalidValue;
  if (!TheState().IsDevice(device)) return CuResult::kInvalidDevice;
  *bytes = static_cast<size_t>(TheState().memory->physical(device).capacity_bytes());
  return CuResult::kSuccess;
}

CuResult DeviceGetAttribute(int* value, CuDeviceAttribute attribute, CuDevice device) {
  if (value == nullptr) return CuResult::kInvalidValue;
  if (!TheState().IsDevice(device)) return CuResult::kInvalidDevice;
  switch (attribute) {
    case CuDeviceAttribute::kMaxThreadsPerBlock:
      *value = kBlockThreadsMax;
      return CuResult::kSuccess;
    case CuDeviceAttribute::kMaxSharedMemoryPerBlock:
      *value = kSharedBytesDefault;
      return CuResult::kSuccess;
    case CuDeviceAttribute::kMaxSharedMemoryPerBlockOptin:
      *value = TheState().options.limits.shared_bytes_max;
      return CuResult::kSuccess;
    case CuDeviceAttribute::kMultiprocessorCount:
      *value = kMultiprocessors;
      return CuResult::kSuccess;
    case CuDeviceAttribute::kComputeCapabilityMajor:
      *value = TheState().options.limits.capability / 10;
      return CuResult::kSuccess;
    case CuDeviceAttribute::kComputeCapabilityMinor:
      *value = TheState().options.limits.capability % 10;
      return CuResult::kSuccess;
    default:
      return FindOtherAttribute(static_cast<int>(attribute), device, value);
  }
}

CuResult DevicePrimaryCtxRetain(CuContext* context, CuDevice device) {
  if (context == nullptr) return CuResult::kInvalidValue;
  if (!TheState().IsDevice(device)) return CuResult::kInvalidDevice;
  State& state = TheState();
  DeviceState& retained = state.devices[device];
  if (retained.retains++ == 0)
    retained.primary =
        state.MakeContext({.device = device, .is_primary = true, .flags = retained.primary_flags});
  *context = retained.primary;
  return CuResult::kSuccess;
}

CuResult DevicePrimaryCtxRelease(CuDevice device) {
  if (!TheState().IsDevice(device)) return CuResult::kInvalidDevice;
  State& state = TheState();
  DeviceState& released = state.devices[device];
  if (released.retains == 0) return CuResult::kInvalidContext;
  if (--released.retains == 0) state.EndContext(std::exchange(released.primary, nullptr));
  return CuResult::kSuccess;
}

CuResult CtxSetCurrent(CuContext context) {
  if (context != nullptr && TheState().contexts.Find(context) == nullptr)
    return CuResult::kInvalidContext;
  std::vector<CuContext>& contexts = ThisThread().contexts;
  if (!contexts.empty()) contexts.pop_back();
  if (context != nullptr) contexts.push_back(context);
  return CuResult::kSuccess;
}

CuResult CtxGetCurrent(CuContext* context) {
  if (context == nullptr) return CuResult::kInvalidValue;
  // A context that was released is no longer current anywhere.
  const CuContext current = ThisThread().context();
  *context = TheState().contexts.Find(current) == nullptr ? nullptr : current;
  return CuResult::kSuccess;
}

}  // namespace coppice::emulator
