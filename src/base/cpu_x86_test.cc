#include <gtest/gtest.h>

#include "base/cpu.h"

namespace kvick::base {
namespace {

// Features of real processors, from Intel's and AMD's manuals.
constexpr CpuFeatures kHaswell = {.avx2 = true, .fma = true, .f16c = true};
constexpr CpuFeatures with_avx512(CpuFeatures f) {
  f.avx512f = f.avx512bw = f.avx512dq = f.avx512vl = true;
  return f;
}

TEST(Cpu, RunsAvx512WithoutVnniAndVnniWithoutBf16) {
  CpuFeatures cpu;
  EXPECT_EQ(best_isa(cpu), Isa::kScalar);
  cpu = kHaswell;
  EXPECT_EQ(best_isa(cpu), Isa::kAvx2);
  cpu.avx_vnni = true;  // Alder Lake
  EXPECT_EQ(best_isa(cpu), Isa::kAvxVnni);
  cpu = with_avx512(kHaswell);  // Skylake-X
  EXPECT_EQ(best_isa(cpu), Isa::kAvx512);
  cpu.avx512_vnni = true;  // Cascade Lake
  EXPECT_EQ(best_isa(cpu), Isa::kAvx512Vnni);
  cpu.avx512_vbmi = true;  // Ice Lake, Tiger Lake
  EXPECT_EQ(best_isa(cpu), Isa::kAvx512Vnni);
  cpu.avx512_bf16 = true;  // Zen 4
  EXPECT_EQ(best_isa(cpu), Isa::kAvx512Bf16);
  cpu.avx_vnni = true;  // Zen 5
  EXPECT_EQ(best_isa(cpu), Isa::kAvx512Bf16);
  cpu.amx = true;  // Sapphire Rapids
  EXPECT_EQ(best_isa(cpu), Isa::kAmx);
}

TEST(Cpu, LeavesOutAnInstructionSetWhoseFoundationIsMissing) {
  CpuFeatures cpu = with_avx512(kHaswell);
  cpu.avx512_vnni = cpu.avx512_bf16 = cpu.avx512_vbmi = cpu.amx = true;
  for (bool CpuFeatures::*part : {&CpuFeatures::avx512f, &CpuFeatures::avx512bw,
                                  &CpuFeatures::avx512dq, &CpuFeatures::avx512vl}) {
    CpuFeatures masked = cpu;
    masked.*part = false;
    EXPECT_EQ(best_isa(masked), Isa::kAvx2);
  }
  for (bool CpuFeatures::*part : {&CpuFeatures::avx2, &CpuFeatures::fma, &CpuFeatures::f16c}) {
    CpuFeatures masked = cpu;
    masked.*part = false;
    EXPECT_EQ(best_isa(masked), Isa::kScalar);
    masked.avx_vnni = true;
    EXPECT_EQ(best_isa(masked), Isa::kScalar);
  }
  CpuFeatures masked = cpu;
  masked.avx512_vnni = false;
  EXPECT_EQ(best_isa(masked), Isa::kAvx512);
  masked = cpu;
  masked.avx512_bf16 = false;
  EXPECT_EQ(best_isa(masked), Isa::kAvx512Vnni);
  masked = cpu;
  masked.avx512_vbmi = false;
  EXPECT_EQ(best_isa(masked), Isa::kAvx512Bf16);
}

TEST(Cpu, NamesAllInstructionSetsForAMessage) {
  EXPECT_EQ(isa_names(), "scalar, avx2, avx_vnni, avx512, avx512_vnni, avx512_bf16 or amx");
}

TEST(Cpu, HasANameWithTheNumbersBehindIt) {
  EXPECT_NE(cpu_name().find(", family "), std::string::npos);
}

}  // namespace
}  // namespace kvick::base
