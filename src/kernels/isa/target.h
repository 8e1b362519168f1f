#pragma once
// Instruction sets as regions of a source file: no file is compiled with -mavx2, because the linker
// may then keep that file's copy of an inline function of the standard library for the whole
// program. Between BEGIN and END there may be only functions of an anonymous namespace that use
// intrinsics and each other; include every header before the region. A file with a region is named
// after it (x_avx2.cc, x_avx512.cc, x_vnni.cc, x_amx.cc, x_neon.cc): tools/check_instructions
// checks that each uses only its set, because inside a region the compiler may use the set's
// instructions anywhere.

#define KVICK_INLINE inline __attribute__((always_inline))

// For loops over accumulators. Without it g++ does not unroll loops of 16, and keeps the
// accumulators in memory. Under a sanitizer loops are not unrolled, because one file would compile
// for minutes.
#if defined(KVICK_SANITIZED)
#define KVICK_UNROLL
#elif defined(__clang__)
#define KVICK_UNROLL _Pragma("unroll")
#else
#define KVICK_UNROLL _Pragma("GCC unroll 16")
#endif

#if defined(__clang__)
#define KVICK_TARGET_AVX2_BEGIN \
  _Pragma("clang attribute push(__attribute__((target(\"avx2,fma,f16c\"))), apply_to = function)")
// Each is one literal, because _Pragma takes no concatenation.
// clang-format off
#define KVICK_TARGET_AVX_VNNI_BEGIN \
  _Pragma("clang attribute push(__attribute__((target(\"avx2,fma,f16c,avxvnni\"))), apply_to = function)")
#define KVICK_TARGET_AVX512_BEGIN \
  _Pragma("clang attribute push(__attribute__((target(\"avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl\"))), apply_to = function)")
#define KVICK_TARGET_VNNI_BEGIN \
  _Pragma("clang attribute push(__attribute__((target(\"avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni\"))), apply_to = function)")
#define KVICK_TARGET_VBMI_BEGIN \
  _Pragma("clang attribute push(__attribute__((target(\"avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi\"))), apply_to = function)")
#define KVICK_TARGET_BF16_BEGIN \
  _Pragma("clang attribute push(__attribute__((target(\"avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16\"))), apply_to = function)")
#define KVICK_TARGET_AMX_BEGIN \
  _Pragma("clang attribute push(__attribute__((target(\"avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,avx512vbmi,amx-tile,amx-int8,amx-bf16,prfchw\"))), apply_to = function)")
// clang-format on
#define KVICK_TARGET_NEON_BEGIN \
  _Pragma("clang attribute push(__attribute__((target(\"dotprod\"))), apply_to = function)")
#define KVICK_TARGET_I8MM_BEGIN \
  _Pragma("clang attribute push(__attribute__((target(\"dotprod,i8mm\"))), apply_to = function)")
#define KVICK_TARGET_END _Pragma("clang attribute pop")
#else
#define KVICK_TARGET_AVX2_BEGIN _Pragma("GCC push_options") _Pragma("GCC target(\"avx2,fma,f16c\")")
#define KVICK_TARGET_AVX_VNNI_BEGIN \
  _Pragma("GCC push_options") _Pragma("GCC target(\"avx2,fma,f16c,avxvnni\")")
#define KVICK_TARGET_AVX512_BEGIN \
  _Pragma("GCC push_options")     \
      _Pragma("GCC target(\"avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl\")")
#define KVICK_TARGET_VNNI_BEGIN \
  _Pragma("GCC push_options")   \
      _Pragma("GCC target(\"avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni\")")
#define KVICK_TARGET_VBMI_BEGIN        \
  _Pragma("GCC push_options") _Pragma( \
      "GCC target(\"avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi\")")
#define KVICK_TARGET_BF16_BEGIN \
  _Pragma("GCC push_options")   \
      _Pragma("GCC target(\"avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16\")")
// clang-format off
#define KVICK_TARGET_AMX_BEGIN \
  _Pragma("GCC push_options") \
  _Pragma("GCC target(\"avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,avx512vbmi,amx-tile,amx-int8,amx-bf16,prfchw\")")
// clang-format on
#define KVICK_TARGET_NEON_BEGIN \
  _Pragma("GCC push_options") _Pragma("GCC target(\"arch=armv8.2-a+dotprod\")")
#define KVICK_TARGET_I8MM_BEGIN \
  _Pragma("GCC push_options") _Pragma("GCC target(\"arch=armv8.2-a+dotprod+i8mm\")")
#define KVICK_TARGET_END _Pragma("GCC pop_options")
#endif
