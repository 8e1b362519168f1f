#pragma once
// Predicts the seconds of one token and of a prompt, for a model with a cache on this machine, from
// forwards of a sample of its layers (sample.h) with as long a cache as will be asked for, or with
// a shorter one where that would take too long.
//
//   one token  a line over the bytes of the rows that it sees, by layers and their windows
//              (model::seen_bytes), measured with the strategy itself; plus the output layer; plus
//              its copies. A strategy that copies all rows for every token (iterative): a line over
//              the same bytes, measured in the same steps. Others: the bytes that the strategy's
//              formula gives for this token, at the rate of measure_growth
//   a prompt   by chunks: a line over the bytes seen before the chunk, plus a line for making room
//
// Times of the sample are scaled to the whole model by the bytes of weights, and of rows.
//
// The rate of measure_growth is that of one sequence, not that at which the sequences of a batch
// copy their rows: SmolLM2's copies on a Zen 4 took, for 8 sequences of 512 and of 4096 tokens, 1.9
// and 0.6 times as long as planned at it.
//
// Forwards are measured as a whole: the sum of products, attention and overhead, each measured on
// its own, promised SmolLM2 1.16 to 1.47 times the tokens that it then decoded, since in a forward
// they evict each other's data from the processor's caches.

#include <optional>

#include "base/clock.h"
#include "base/result.h"
#include "kv/registry/registry.h"
#include "plan/forecast/growth_rates.h"
#include "plan/forecast/model_size.h"
#include "plan/forecast/sample.h"

namespace kvick::plan {

struct TokenSeconds {
  double layers = 0;     // all layers, without `attention`
  double attention = 0;  // what grows with the tokens in the cache
  double output = 0;     // the output layer
  double copies = 0;
  double all() const { return layers + attention + output + copies; }
};

// Measures once, then predicts any load of one model and element type with the measured strategy.
// Single tokens can be predicted with other strategies too: their copies are added by formula, at
// the rate of one sequence.
class Predictor {
 public:
  struct Setting {
    const ModelSize& model;
    kv::Spec spec;
    kv::Setup setup;               // store_row and pool set
    kv::GrowthRates rates;         // measure_growth of this setup
    uint32_t batch = 1;            // sequences that decode together
    uint32_t tokens = 0;           // longest sequence that will be asked for; at least 1
    uint32_t prefill_chunk = 512;  // 0: no prompt will be asked for
    model::Role prompt_role = model::Role::kAnswer;    // the arithmetic of prompts
    kernels::DType state_type = kernels::DType::kF32;  // of layers that keep a state
    // Limit for the sample's weights and rows; decides how many layers and tokens it has.
    uint64_t most_bytes = uint64_t{1} << 30;
    // Multiplications of attention that a measured chunk of a prompt may take; decides how many
    // layers the sample has, and behind how many rows the chunk is measured: at least prompt_rows
    // if there are as many, since few rows would say little of what each costs.
    double most_products = 1e11;  // a second or two
    uint32_t prompt_rows = 4096;
    // For a model that is one rank's share (rank_share.h); otherwise null.
    model::Ranks* ranks = nullptr;
  };
  // Errors: no room for the measurements, an invalid spec, an invalid shape.
  static base::Result<Predictor> measure(const Setting& setting, model::Workspace workspace,
                                         base::Clock clock = base::steady_seconds);

  // Returns the seconds of the next token of all sequences together, each with `tokens` tokens.
  TokenSeconds token(uint32_t tokens) const { return token(tokens, setting_.spec); }
  TokenSeconds token(uint32_t tokens, const kv::Spec& spec) const;
  // Returns the seconds of a prompt of `tokens` tokens in one sequence.
  double prefill_s(uint32_t tokens) const;

 private:
  explicit Predictor(const Setting& setting) : setting_(setting) {}
  void choose_size();
  base::Status<kv::Shortage> measure_tokens(Sample& sample);
  base::Status<kv::Shortage> measure_prompt(Sample& sample);
  // Ratio of the time for the weights of all layers to that for the sample's weights.
  double all_weights(const Sample& sample) const;
  // Ratio of the number of all layers to that of the sample's.
  double all_layers(const Sample& sample) const;
  // model::seen_bytes for rows of the setup's types.
  double seen(const model::Config& config, uint32_t tokens) const;
  std::vector<uint32_t> depths(uint32_t far) const;
  uint32_t sequences() const;  // how many are measured together
  double copied(const kv::Spec& spec, uint32_t from, uint32_t to) const;
  // Whether the measured strategy copies rows for each of `tokens` tokens after the first `from`.
  bool copies_always(uint32_t from, uint32_t tokens) const;

  Setting setting_;
  uint32_t depth_ = 2;         // most tokens of a measured sequence; longer ones are extrapolated
  uint32_t prompt_depth_ = 2;  // most tokens before a measured chunk of a prompt, likewise
  uint32_t layers_ = 1;        // of the sample, approximately
  double output_s_ = 0;
  // Seconds of all layers, by the bytes of the rows seen.
  Line decode_, prefill_;
  Line growth_;  // seconds of making room for a chunk, likewise
  // Seconds of making room for one token, likewise; none if the measured strategy does not copy for
  // every token.
  std::optional<Line> copies_;
};

}  // namespace kvick::plan
