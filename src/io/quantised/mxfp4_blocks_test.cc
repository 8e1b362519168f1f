#include "io/quantised/mxfp4_blocks.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "base/check.h"
#include "kernels/formats/dtype.h"

namespace kvick::io {
namespace {

TEST(Mxfp4Blocks, BecomeTheSameWeightsInBlocksOfGgml) {
  constexpr size_t kGroups = 64;
  std::mt19937 random(1);
  std::vector<std::byte> blocks(kGroups * 16), scales(kGroups), out(kGroups * 17);
  for (std::byte& byte : blocks) byte = static_cast<std::byte>(random());
  for (size_t g = 0; g < kGroups; ++g) scales[g] = static_cast<std::byte>(95 + g);
  mxfp4_from_halves(blocks, scales, out);
  std::vector<float> got(kGroups * 32);
  kernels::to_f32(kernels::DType::kMXFP4, out.data(), got.size(), got.data());
  const float values[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  for (size_t i = 0; i < got.size(); ++i) {
    const int both = std::to_integer<int>(blocks[i / 2]), code = i % 2 == 0 ? both & 15 : both >> 4;
    const float value = code < 8 ? values[code] : -values[code - 8];
    ASSERT_EQ(got[i], std::ldexp(value, static_cast<int>(95 + i / 32) - 127)) << i;
  }
}

TEST(Mxfp4Blocks, OfOtherSizesAreBugs) {
  std::vector<std::byte> bytes(17);
  EXPECT_THROW(mxfp4_from_halves({bytes.data(), 15}, {bytes.data(), 1}, bytes), base::Bug);
  EXPECT_THROW(mxfp4_from_halves({bytes.data(), 16}, {bytes.data(), 1}, {bytes.data(), 16}),
               base::Bug);
}

}  // namespace
}  // namespace kvick::io
