#pragma once

#include <cstdint>
#include <string>

#include "engine/artifacts/predictor_file.h"

namespace kvick::distil {

// Returns the file of a predictor that was evaluated layer by layer. Made: Distilled or Scores.
template <typename Made>
engine::PredictorFile evaluated_file(const Made& made, const engine::ModelIdentity& model,
                                     const std::string& text) {
  engine::PredictorFile file = {.model = model,
                                .predictor = made.predictor,
                                .text = text,
                                .tokens = static_cast<uint32_t>(made.tokens),
                                .held_out = static_cast<uint32_t>(made.held_out),
                                .mse = {},
                                .recall = {},
                                .mass = {}};
  for (const auto& layer : made.layers) {
    file.mse.push_back(static_cast<float>(layer.mse));
    file.recall.push_back(static_cast<float>(layer.recall));
    file.mass.push_back(static_cast<float>(layer.mass));
  }
  return file;
}

}  // namespace kvick::distil
