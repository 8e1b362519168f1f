#include "io/quantised/mxfp4_blocks.h"

#include "base/check.h"

namespace kvick::io {

void mxfp4_from_halves(std::span<const std::byte> blocks, std::span<const std::byte> scales,
                       std::span<std::byte> out) {
  constexpr size_t kHalf = 16;
  KVICK_CHECK_EQ(blocks.size(), scales.size() * kHalf);
  KVICK_CHECK_EQ(out.size(), scales.size() * (1 + kHalf));
  constexpr std::byte kLow{15};
  for (size_t g = 0; g < scales.size(); ++g) {
    const auto code = [&](size_t i) {
      const std::byte both = blocks[g * kHalf + i / 2];
      return i % 2 == 0 ? both & kLow : both >> 4;
    };
    std::byte* block = out.data() + g * (1 + kHalf);
    block[0] = scales[g];
    for (size_t i = 0; i < kHalf; ++i) block[1 + i] = code(i) | code(i + kHalf) << 4;
  }
}

}  // namespace kvick::io
