#pragma once
// MAPLE's predictor in a file, NAME.kvp. It is a GGUF file, so that tools that show models show it.
//
//   general.type = "predictor", general.architecture = the model's
//   kvick.predictor.version (1; 2 with .frequency), .form (random, trained, heads, components,
//   scores, retrieval or document), .layers, .heads, .kv_heads, .head_dim, .dim, .rank, .seed:
//   kv::PredictorShape; .weights: the model that it was trained for (ModelIdentity); .text,
//   .tokens, .held_out: what it was trained and evaluated on; .mse, .recall, .mass: of each layer;
//   .frequency: Predictor::frequency; .checksum: of all of the above and the tensors' data. The
//   form retrieval has neither .mse, .recall and .mass nor tensors, but .retrieval: a number in [0,
//   1] for each layer and KV head. The form document has, in place of .mse, .recall and .mass,
//   .document: kv::Predictor::document, of .tokens tokens
//
//   blk.N.predictor_q.weight [heads * rank][inputs],
//   blk.N.predictor_k.weight [kv_heads * rank][inputs]: Q8_0, inputs padded with zeros to a
//   multiple of 32; the form scores has predictor_k only. The form document has predictor_k only:
//   F16, a score for each KV head and token
//
// The random projection is not stored but made again from its seed.

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
  std::string text;                   // name of the text that it was trained on
  uint32_t tokens = 0, held_out = 0;  // tokens for training, and for evaluation
  // Of each layer, on the held-out tokens: the mean square error of scores; the share of the
  // heaviest rows that is found when an eighth of the rows is read; and the share of probability on
  // the rows read. For the form scores: the mean square error of log scores; at a quarter of the
  // rows, the share of the rows with the highest scores that is found, and their share of the sum
  // of scores. Empty for the forms retrieval and document.
  std::vector<float> mse, recall, mass;
};

std::string_view form_name(kv::PredictorForm form);

// Returns a predictor's weights as its file keeps them: rounded to Q8_0, the scores of a document
// to F16. Not for the form retrieval.
std::vector<kv::PredictorLayer> rounded(const kv::Predictor& predictor);

// Returns the file's bytes. Weights are rounded once: reading and writing a file again does
// not change its bytes.
std::string predictor_bytes(const PredictorFile& file);
// The inverse of predictor_bytes, but without the random projection. Errors say what is wrong,
// without the file's name.
base::Result<PredictorFile> parse_predictor(std::span<const std::byte> image);

// Writes the whole file or none. Error: what the system reports.
base::Status<> write_predictor(const std::string& path, const PredictorFile& file);
// Reads the predictor for this model. Errors, which name the file: it cannot be read, is damaged,
// or is another model's.
base::Result<std::shared_ptr<const kv::Predictor>> read_predictor(const std::string& path,
                                                                  const ModelIdentity& model,
                                                                  const model::Config& config);

}  // namespace kvick::engine
