// AArch64 under Linux.

#include <asm/hwcap.h>
#include <cstdint>
#include <fmt/format.h>
#include <sys/auxv.h>

#include "base/cpu_detect.h"

namespace kvick::base {

CpuFeatures detect_cpu_features() {
  return {.neon_dot = (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0,
          .neon_i8mm = (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0};
}

std::string cpu_name() {
  if ((getauxval(AT_HWCAP) & HWCAP_CPUID) == 0) return "ARM processor";
  uint64_t midr = 0;  // the main ID register of the core that this thread runs on
  asm("mrs %0, MIDR_EL1" : "=r"(midr));
  return fmt::format("ARM processor, implementer {:#x}, part {:#x}, variant {}, revision {}",
                     midr >> 24 & 0xff, midr >> 4 & 0xfff, midr >> 20 & 15, midr & 15);
}

}  // namespace kvick::base
