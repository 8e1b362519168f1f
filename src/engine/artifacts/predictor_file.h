#pragma once
// MAPLE's predictor in a file, NAME.kvp: a GGUF file, so that what shows models shows it too.
//
//   general.type = "predictor", general.architecture = the model's
//   kvick.predictor.version (1, or 2 of one that has .frequency), .form (random, trained, heads,
//   components or scores), .layers, .heads, .kv_heads, .head_dim, .dim, .rank, .seed:
//   kv::PredictorShape; .weights: which model it was trained for (ModelIdentity); .text, .tokens,
//   .held_out: on what it was trained and judged; .mse, .recall, .mass: of each layer; .frequency:
//   Predictor::frequency; .checksum: of all of the above and the tensors' data
//   blk.N.predictor_q.weight [heads * rank][inputs], blk.N.predictor_k.weight [kv_heads *
//   rank][inputs]: Q8_0, inputs padded with zeros to a multiple of 32; of the form scores
//   predictor_k alone
//
// The random projection is made again from its seed.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/artifacts/identity.h"
#include "kv/select/predictor.h"
#include "model/core/config.h"

namespace kvick::engine {

struct PredictorFile {
  ModelIdentity model;
  kv::Predictor predictor;
  std::string text;                   // the name of what it was trained on
  uint32_t tokens = 0, held_out = 0;  // that it was trained on, and judged by
  // Of each layer, on what was held out: the mean square error of scores, and at an eighth of the
  // rows the share of the heaviest ones found and the share of probability on what is read. Of the
  // form scores: the mean square error of log scores, and at a quarter of the rows the share of
  // those with the highest scores that is found, and of the scores' sum that these have.
  std::vector<float> mse, recall, mass;
};

std::string_view form_name(kv::PredictorForm form);

// A predictor's weights as its file keeps them: rounded to Q8_0.
std::vector<kv::PredictorLayer> rounded(const kv::Predictor& predictor);

// The weights are rounded to Q8_0, once: what is read and written again keeps its bytes.
std::string predictor_bytes(const PredictorFile& file);
// The inverse, but without the projection. Errors: what is wrong, without the file's name.
base::Result<PredictorFile> parse_predictor(std::span<const std::byte> image);

// The file appears whole or not at all. Error: what the system says.
base::Status<> write_predictor(const std::string& path, const PredictorFile& file);
// For this model. Errors, all naming the file: it cannot be read, is damaged, or is another
// model's.
base::Result<std::shared_ptr<const kv::Predictor>> read_predictor(const std::string& path,
                                                                  const ModelIdentity& model,
                                                                  const model::Config& config);

}  // namespace kvick::engine
