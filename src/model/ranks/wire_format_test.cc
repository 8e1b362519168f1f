#include "model/ranks/wire_format.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

#include "kernels/formats/dtype.h"

namespace kvick::model {
namespace {

constexpr WireFormat kFormats[] = {WireFormat::kF32, WireFormat::kBf16, WireFormat::kInt8};

std::vector<float> random_floats(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> floats(count);
  for (float& x : floats) x = normal(random) * std::exp(4 * normal(random));
  return floats;
}

// Returns the largest error of one float, by the format's definition.
float most_error(WireFormat format, std::span<const float> all, size_t i) {
  if (format == WireFormat::kF32) return 0;
  if (format == WireFormat::kBf16) return std::abs(all[i]) * 0x1p-8F;
  float most = 0;
  for (size_t j = i / kWireGroup * kWireGroup;
       j < std::min(all.size(), (i / kWireGroup + 1) * kWireGroup); ++j)
    most = std::max(most, std::abs(all[j]));
  return most / 127 * (1 + 0x1p-7F) * 0.5001F;
}

TEST(WireFormat, KeepsFloatsWithinItsError) {
  for (const WireFormat format : kFormats)
    for (const size_t count : {0, 1, 31, 32, 33, 576, 5000}) {
      const std::vector<float> from = random_floats(count, static_cast<uint32_t>(count) + 3);
      // Exactly wire_bytes() bytes are written; the byte after them stays unchanged.
      std::vector<std::byte> wire(wire_bytes(format, count) + 1, std::byte{0x5A});
      to_wire(format, from, wire.data());
      EXPECT_EQ(wire.back(), std::byte{0x5A});
      std::vector<float> to(count), added = random_floats(count, 1);
      const std::vector<float> before = added;
      from_wire(format, wire.data(), to);
      add_from_wire(format, wire.data(), added);
      for (size_t i = 0; i < count; ++i) {
        EXPECT_LE(std::abs(to[i] - from[i]), most_error(format, from, i))
            << wire_name(format) << " " << i << " of " << count;
        EXPECT_EQ(added[i], before[i] + to[i]);
      }
    }
}

TEST(WireFormat, TakesEveryFloat) {
  const float limits[] = {0,     -0.0F, 1e-44F, 1e-36F, std::numeric_limits<float>::min(),
                          1e38F, -1e38F};
  for (const WireFormat format : kFormats)
    for (const float x : limits) {
      std::vector<float> from(40, x), to(40);
      std::vector<std::byte> wire(wire_bytes(format, 40));
      to_wire(format, from, wire.data());
      from_wire(format, wire.data(), to);
      for (const float y : to) EXPECT_NEAR(y, x, std::abs(x) * 0.01 + 1e-35) << wire_name(format);
    }
  for (const WireFormat format : kFormats)
    for (const float x : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
      std::vector<float> from(40, 1), to(40);
      from[3] = x;
      std::vector<std::byte> wire(wire_bytes(format, 40));
      to_wire(format, from, wire.data());
      from_wire(format, wire.data(), to);
      EXPECT_FALSE(std::isfinite(to[3])) << wire_name(format);
      EXPECT_NEAR(to[35], 1, 0.01) << wire_name(format);
    }
}

}  // namespace
}  // namespace kvick::model
