// The table of functions, and where structs end: what compiled callers rely on.
//
// A struct grows at its end: its size and its last field change together here, and a caller's older
// struct is still read. A field that moves breaks callers. Of structs that tools/describe appends
// to, what was last is where it was.

#include <cstddef>

#include "coppice/coppice.h"

// Of 64 bits.
#define COPPICE_LAYOUT(type, bytes, last, offset) \
  static_assert(sizeof(type) == (bytes) && offsetof(type, last) == (offset))
#define COPPICE_STAYS(type, known_last, offset) \
  static_assert(offsetof(type, known_last) == (offset))

COPPICE_LAYOUT(coppice_view, 184, strides, 120);
COPPICE_LAYOUT(coppice_device_options, 56, reserved, 52);
COPPICE_LAYOUT(coppice_memory_provider, 32, free, 24);
COPPICE_LAYOUT(coppice_device_info, 88, name, 24);
COPPICE_LAYOUT(coppice_package_options, 24, trusted_key_count, 16);
COPPICE_LAYOUT(coppice_kernel_info, 32, parameter_bytes, 24);
COPPICE_LAYOUT(coppice_launch_shape, 52, programmatic, 48);
COPPICE_LAYOUT(coppice_vote, 32, unanimous, 28);
COPPICE_STAYS(coppice_session_options, now_ns, 152);
COPPICE_LAYOUT(coppice_policy, 40, observe_half_life, 32);
COPPICE_LAYOUT(coppice_joint_policy, 48, b_maximum, 40);
COPPICE_LAYOUT(coppice_rebucket_options, 88, cost_per_byte, 80);
COPPICE_LAYOUT(coppice_rebucket_report, 216, why, 56);
COPPICE_LAYOUT(coppice_learn_options, 80, max_gap, 72);
COPPICE_LAYOUT(coppice_claim, 32, relative, 24);
COPPICE_LAYOUT(coppice_function_call, 56, stream, 48);
COPPICE_LAYOUT(coppice_function, 40, release, 32);
COPPICE_LAYOUT(coppice_named_tensor, 24, tensor, 16);
COPPICE_LAYOUT(coppice_package_program_options, 112, reserved_end, 108);
COPPICE_LAYOUT(coppice_symbol_spec, 80, claim, 72);
COPPICE_LAYOUT(coppice_tensor_spec, 80, reserved, 76);
COPPICE_LAYOUT(coppice_scalar_spec, 16, name, 8);
COPPICE_LAYOUT(coppice_ragged_spec, 48, lengths, 40);
COPPICE_LAYOUT(coppice_program_spec, 160, reserved, 156);
COPPICE_LAYOUT(coppice_context_info, 40, workspace_bytes, 32);
COPPICE_LAYOUT(coppice_call, 136, donated_count, 128);
COPPICE_LAYOUT(coppice_warm_options, 56, user, 48);
COPPICE_LAYOUT(coppice_feed, 32, output, 24);
COPPICE_LAYOUT(coppice_warm_step, 96, count_count, 88);
COPPICE_LAYOUT(coppice_planned_bucket, 32, plan_method, 24);
COPPICE_LAYOUT(coppice_lease_info, 32, part, 28);
COPPICE_LAYOUT(coppice_external_stats, 40, late_frees, 32);
COPPICE_LAYOUT(coppice_suspend_options, 16, drop_graphs, 12);
COPPICE_STAYS(coppice_session_stats, stream_switches, 352);
COPPICE_STAYS(coppice_memory_usage, eager_peak, 304);
COPPICE_LAYOUT(coppice_profile_options, 64, user, 56);
COPPICE_LAYOUT(coppice_loaded_profile, 32, skipped, 24);

#undef COPPICE_LAYOUT
#undef COPPICE_STAYS

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
