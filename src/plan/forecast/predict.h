#pragma once
// What a model will do on this machine with a cache: the seconds of one token and of a prompt, from
// forwards of a sample of its layers (sample.h) that holds as many tokens as are asked for.
//
//   one token  a line over the bytes of the rows that it sees, by layers and their windows
//              (model::seen_bytes), measured with the strategy itself; the output layer; and what
//              the strategy's formula says it copies for this token, at the measured rate
//   a prompt   in chunks: a line over what is seen before a chunk, and one of the room for it
//
// The sample's weights stand for all by their bytes, and its rows by theirs.
//
// Measured whole and not put together from parts: the sum of products, attention and overhead each
// measured on its own promised SmolLM2 1.16 to 1.47 times the tokens that it then decoded, since
// in a forward they take each other's caches.

#include "base/clock.h"
#include "base/result.h"
#include "kv/registry/registry.h"
#include "plan/forecast/growth_rates.h"
#include "plan/forecast/model_size.h"
#include "plan/forecast/sample.h"

namespace kvick::plan {

struct TokenSeconds {
  double layers = 0;     // but for
  double attention = 0;  // what grows with the tokens in the cache
  double output = 0;     // the output layer
  double copies = 0;
  double all() const { return layers + attention + output + copies; }
};

// Measures once, then predicts any load of one model and element type, with the strategy that was
// measured or, for tokens one by one, with any other: what it copies is added by its formula.
class Predictor {
 public:
  struct Setting {
    const ModelSize& model;
    kv::Spec spec;
    kv::Setup setup;               // store_row and pool set
    kv::GrowthRates rates;         // measure_growth of this setup
    uint32_t batch = 1;            // sequences that decode together
    uint32_t tokens = 0;           // the longest that will be asked for; at least 1
    uint32_t prefill_chunk = 512;  // 0: no prompt will be asked for
    // Limit for the sample's weights and rows; decides how many layers and tokens it has.
    uint64_t most_bytes = uint64_t{1} << 30;
    // If the model is a rank's share of one (rank_share.h).
    model::Ranks* ranks = nullptr;
  };
  // Error: no room for the measurements, a spec that is none, a shape that is none.
  static base::Result<Predictor> measure(const Setting& setting, model::Workspace workspace,
                                         base::Clock clock = base::steady_seconds);

  // Seconds of the next token of all sequences together, each holding `tokens` tokens.
  TokenSeconds token(uint32_t tokens) const { return token(tokens, setting_.spec); }
  TokenSeconds token(uint32_t tokens, const kv::Spec& spec) const;
  // Seconds of a prompt of `tokens` tokens in one sequence.
  double prefill_s(uint32_t tokens) const;

 private:
  explicit Predictor(const Setting& setting) : setting_(setting) {}
  void choose_size();
  base::Status<kv::Shortage> measure_tokens(Sample& sample);
  base::Status<kv::Shortage> measure_prompt(Sample& sample);
  // Ratio of the time for the weights of all layers to that for the sample's weights.
  double all_weights(const Sample& sample) const;
  // model::seen_bytes for rows of the setup's types.
  double seen(const model::Config& config, uint32_t tokens) const;
  std::vector<uint32_t> depths() const;
  uint32_t sequences() const;  // that are measured together
  double copied(const kv::Spec& spec, uint32_t from, uint32_t to) const;

  Setting setting_;
  uint32_t depth_ = 2;  // the most tokens of a sequence that is measured: longer ones are on a line
  uint32_t layers_ = 1;  // of the sample, about
  double output_s_ = 0;
  // Seconds of all layers over the bytes of rows that are seen.
  Line decode_, prefill_;
  Line growth_;  // of making room for a chunk
};

}  // namespace kvick::plan
