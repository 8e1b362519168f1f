#include "model/adapters/adapter.h"

namespace kvick::model {

const LowRank* Adapter::find(std::string_view tensor) const {
  const auto at = layers_.find(tensor);
  return at == layers_.end() ? nullptr : &at->second;
}

uint64_t Adapter::bytes() const {
  uint64_t elements = 0;
  for (const auto& [tensor, layer] : layers_) elements += layer.a.size() + layer.b.size();
  return elements * sizeof(uint16_t);
}

}  // namespace kvick::model
