// Kernels as PTX, for tests of what a driver does with compiled code.
//
// Units: bytes; words are of 64 bits.

#pragma once

namespace coppice {

// WriteThreads(target, first)  Thread i of a block, x first, sets word i of `target` to first + i.
// CountCalls(target)           Sets a word to how often it ran before in this module, and 40.
// Reverse(words)               Reverses as many words as it has threads, through dynamic shared
//                              memory of 8 bytes each, behind 1 KiB of static.
// Add(target, source)          Sets a word to another and 1.
// Misaligned(target)           Writes 4 bytes at `target` and 2.
// Trap()                       Traps.
inline constexpr char kCompiledKernels[] = R"(
.version 7.0
.target sm_80
.address_size 64

.global .align 8 .u64 calls = 40;
.extern .shared .align 8 .b8 dynamic[];

.visible .entry WriteThreads(.param .u64 target, .param .u64 first)
{
  .reg .b32 %r<9>;
  .reg .b64 %rd<7>;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %tid.y;
  mov.u32 %r3, %tid.z;
  mov.u32 %r4, %ntid.x;
  mov.u32 %r5, %ntid.y;
  mad.lo.u32 %r6, %r3, %r5, %r2;
  mad.lo.u32 %r7, %r6, %r4, %r1;
  cvt.u64.u32 %rd1, %r7;
  ld.param.u64 %rd2, [target];
  ld.param.u64 %rd3, [first];
  add.u64 %rd4, %rd3, %rd1;
  shl.b64 %rd5, %rd1, 3;
  add.u64 %rd6, %rd2, %rd5;
  st.global.u64 [%rd6], %rd4;
  ret;
}

.visible .entry CountCalls(.param .u64 target)
{
  .reg .b64 %rd<3>;
  atom.global.add.u64 %rd1, [calls], 1;
  ld.param.u64 %rd2, [target];
  st.global.u64 [%rd2], %rd1;
  ret;
}

.visible .entry Reverse(.param .u64 words)
{
  .shared .align 8 .b8 fixed[1024];
  .reg .b32 %r<8>;
  .reg .b64 %rd<7>;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ntid.x;
  ld.param.u64 %rd1, [words];
  mul.wide.u32 %rd2, %r1, 8;
  add.u64 %rd3, %rd1, %rd2;
  ld.global.u64 %rd4, [%rd3];
  shl.b32 %r3, %r1, 3;
  mov.u32 %r4, dynamic;
  add.u32 %r5, %r4, %r3;
  st.shared.u64 [%r5], %rd4;
  st.shared.u8 [fixed], 1;
  bar.sync 0;
  shl.b32 %r6, %r2, 3;
  sub.u32 %r6, %r6, %r3;
  add.u32 %r7, %r4, %r6;
  ld.shared.u64 %rd5, [%r7+-8];
  st.global.u64 [%rd3], %rd5;
  ret;
}

.visible .entry Add(.param .u64 target, .param .u64 source)
{
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [target];
  ld.param.u64 %rd2, [source];
  ld.global.u64 %rd3, [%rd2];
  add.u64 %rd4, %rd3, 1;
  st.global.u64 [%rd1], %rd4;
  ret;
}

.visible .entry Misaligned(.param .u64 target)
{
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [target];
  st.global.u32 [%rd1+2], 1;
  ret;
}

.visible .entry Trap()
{
  trap;
}
)";

}  // namespace coppice
