#include "engine/answer/finite.h"

#include <bit>
#include <cstdint>

namespace kvick::engine {

NotFinite::NotFinite()
    : std::runtime_error(
          "the model's logits are not finite numbers: its file is damaged, or its values are too "
          "large for the arithmetic") {}

// Without a branch, so that the compiler takes many at once. What is not finite has all bits of the
// exponent set.
void require_finite(std::span<const float> logits) {
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t bad = 0;
  for (const float logit : logits)
    bad |= (std::bit_cast<uint32_t>(logit) & kExponent) == kExponent ? 1 : 0;
  if (bad != 0) throw NotFinite();
}

}  // namespace kvick::engine
