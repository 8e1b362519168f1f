#pragma once
// Distillation of MAPLE's predictor (equation 2): for each layer and KV head, matrices whose
// low-rank scores come close to a model's own on a text.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "distil/evaluate.h"
#include "distil/head_fit.h"

#include "base/result.h"
#include "engine/artifacts/predictor_file.h"
#include "engine/core/engine.h"
#include "kv/select/predictor.h"

namespace kvick::distil {

// Whether predictions use token positions.
enum class Position : uint8_t {
  kDefault,  // the form's default: kNone for kHeads, else kRotary where possible
  kNone,
  kRotary,  // low-rank queries and keys are rotated: kv::Predictor::frequency
};

struct DistilOptions {
  kv::PredictorForm form = kv::PredictorForm::kHeads;
  Position position = Position::kDefault;
  uint32_t rank = 0;  // values of a low-rank key per KV head; 0: a quarter of head_dim
  uint32_t seed = 1;
  Loss loss = Loss::kCentred;
  uint32_t window = 4096;             // tokens of one sequence; the last one is held out
  uint32_t most = 0;                  // most tokens of the text to use; 0: all
  uint32_t epochs = 3;                // the learning rate is a tenth after each
  float rate = 0;                     // 0: a rate that suits the form
  uint32_t steps = 32, queries = 16;  // steps per sequence, query tokens per step
  EvaluateOptions evaluate = {};
  std::function<void(uint64_t done, uint64_t total)> progress = {};  // tokens
};

struct Distilled {
  kv::Predictor predictor;  // rounded to the weights of its file
  std::vector<Quality> layers;
  uint64_t tokens = 0, held_out = 0;  // trained on, evaluated on
};

// Deterministic: the result does not depend on the number of threads. Errors: a model with a memory
// of slots, a rank or rate out of range, a window longer than the context, a text of fewer than two
// windows, activations that are not finite.
base::Result<Distilled> distil(engine::Engine& engine, std::span<const engine::Token> text,
                               const DistilOptions& options);

// Finishes a predictor of the form `heads` that was trained elsewhere, as distil() does its own:
// scales low-rank keys to int8 on the first of two windows of the text, rounds, and evaluates on
// the second. Errors: those of check_windows; a predictor of another shape than the model's.
base::Result<Distilled> finish(engine::Engine& engine, kv::Predictor predictor,
                               std::span<const engine::Token> text, const DistilOptions& options);

// Errors: a model with a memory of slots, a window past the context, a text of fewer than two.
base::Status<> check_windows(const engine::Engine& engine, size_t tokens, uint32_t window);

// Returns the shape of a predictor for this model. rank: 0: a quarter of a key's values.
kv::PredictorShape shape_of(const model::Config& config, kv::PredictorForm form, uint32_t rank);

// The predictor file to write. text: the name of the training text.
engine::PredictorFile file_of(const Distilled& made, const engine::ModelIdentity& model,
                              const std::string& text);

}  // namespace kvick::distil
