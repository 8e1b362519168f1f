#include "io/families/hf_families.h"

#include <vector>

#include "io/families/hf_parts.h"

namespace kvick::io {

std::span<const HfFamily> hf_families() {
  static const std::vector<HfFamily> all = [] {
    std::vector<HfFamily> families;
    for (const auto part :
         {dense_families(), expert_families(), latent_families(), gemma_families(),
          delta_families(), state_families(), one_block_families(), picture_families(),
          encoder_families(), jina_families()})
      families.insert(families.end(), part.begin(), part.end());
    return families;
  }();
  return all;
}

const HfFamily* find_hf_family(std::string_view model_type) {
  for (const HfFamily& family : hf_families())
    if (family.model_type == model_type) return &family;
  return nullptr;
}

}  // namespace kvick::io
