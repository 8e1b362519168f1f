#include "make_model/random.h"

#include <algorithm>
#include <cstddef>

namespace kvick::tools {

uint64_t row_seed(uint64_t seed, std::string_view tensor, uint64_t row) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : tensor) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return Random(seed ^ Random(hash ^ Random(row).next()).next()).next();
}

void random_row(uint64_t seed, float sd, std::span<float> out) {
  constexpr size_t kGroup = 16;
  constexpr int kMean = 2 * 65535;
  // Standard deviation of the sum of four uniform numbers in 0..65535.
  constexpr float kSumSd = 37837.22f;
  constexpr float kFactorRms = 1.0925f;  // root mean square of 0.25 + 1.5 * uniform
  Random random(seed);
  for (size_t first = 0; first < out.size(); first += kGroup) {
    const float factor = 0.25f + static_cast<float>(random.next() >> 58) * (1.5f / 63.0f);
    const float scale = sd * factor / (kSumSd * kFactorRms);
    const size_t end = std::min(first + kGroup, out.size());
    for (size_t i = first; i < end; ++i) {
      const uint64_t bits = random.next();
      const int sum = static_cast<int>(bits & 0xffff) + static_cast<int>(bits >> 16 & 0xffff) +
                      static_cast<int>(bits >> 32 & 0xffff) + static_cast<int>(bits >> 48);
      out[i] = static_cast<float>(sum - kMean) * scale;
    }
  }
}

}  // namespace kvick::tools
