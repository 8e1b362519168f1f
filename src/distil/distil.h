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

// What predictions from a layer's input know of positions.
enum class Position : uint8_t {
  kDefault,  // the form's: of heads nothing more, of the others rotary where it can be
  kNone,
  kRotary,  // low-rank queries and keys turn: kv::Predictor::frequency
};

struct DistilOptions {
  kv::PredictorForm form = kv::PredictorForm::kHeads;
  Position position = Position::kDefault;
  uint32_t rank = 0;  // values of a low-rank key per KV head; 0: a quarter of head_dim
  uint32_t seed = 1;
  Loss loss = Loss::kCentred;
  uint32_t window = 4096;             // tokens of one sequence; the last one is held out
  uint32_t most = 0;                  // tokens of the text that count; 0: all
  uint32_t epochs = 3;                // the learning rate is a tenth after each
  float rate = 0;                     // 0: one that suits the form
  uint32_t steps = 32, queries = 16;  // steps per sequence, tokens whose scores one step takes
  EvaluateOptions evaluate = {};
  std::function<void(uint64_t done, uint64_t total)> progress = {};  // tokens
};

struct Distilled {
  kv::Predictor predictor;  // rounded to the weights of its file
  std::vector<Quality> layers;
  uint64_t tokens = 0, held_out = 0;  // that it was trained on, and judged by
};

// The same for the same text, options and model, whatever the number of threads. Errors: a model
// with a memory of slots, a rank or rate that makes no sense, a window past the context, a text of
// fewer than two windows, activations that are not finite.
base::Result<Distilled> distil(engine::Engine& engine, std::span<const engine::Token> text,
                               const DistilOptions& options);

// A predictor of the form `heads` that was trained elsewhere, as distil() leaves its own: low-rank
// keys in the units of int8 by the first of two windows of the text, rounded, and judged by the
// second. Errors: those of check_windows; a predictor of another shape than the model's.
base::Result<Distilled> finish(engine::Engine& engine, kv::Predictor predictor,
                               std::span<const engine::Token> text, const DistilOptions& options);

// Errors: a model with a memory of slots, a window past the context, a text of fewer than two.
base::Status<> check_windows(const engine::Engine& engine, size_t tokens, uint32_t window);

// As it is written; text: the name of what it was trained on.
engine::PredictorFile file_of(const Distilled& made, const engine::ModelIdentity& model,
                              const std::string& text);

}  // namespace kvick::distil
