#include "engine/answer/finite.h"

#include <bit>
#include <cstdint>

namespace kvick::engine {

NotFinite::NotFinite()
    : std::runtime_error(
          "the model's logits are not finite numbers: its file is damaged, or its values are too "
          "large for the arithmetic") {}

// Has no branch, so that the compiler vectorises the loop. Floats that are not finite have all
// exponent bits set.
void require_finite(std::span<const float> logits) {
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t bad = 0;
  for (const float logit : logits)
    bad |= (std::bit_cast<uint32_t>(logit) & kExponent) == kExponent ? 1 : 0;
  if (bad != 0) throw NotFinite();
}

}  // namespace kvick::engine
