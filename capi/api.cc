// The table of functions. capi/abi_test checks that it and the structs fit compiled callers.

#include "coppice/coppice.h"

namespace {

constexpr coppice_api kApi = {.struct_size = sizeof(coppice_api),
                              .reserved = 0,
#define COPPICE_MEMBER(name) .name = &coppice_##name,
                              COPPICE_FUNCTIONS(COPPICE_MEMBER)
#undef COPPICE_MEMBER
};

}  // namespace

const coppice_api* coppice_get_api(int32_t major) {
  return major == COPPICE_API_MAJOR ? &kApi : nullptr;
}
