#pragma once
// What a model will do on this machine with a cache: the seconds of one token and of a prompt, put
// together from what the kernels and the memory were measured to do.
//
//   one token  weights: the longer of bytes / (what of the machine's reading products get) and
//              operations / (what products make); attention: a line over the tokens in the cache,
//              measured with the strategy itself; copies: what the strategy's formula says it moves
//              for this token, at the measured rate; and what a layer takes besides
//   a prompt   in chunks: operations of the weights, attention of a chunk and the room for it
//   (lines again)

#include "base/function_ref.h"
#include "base/result.h"
#include "kv/registry.h"
#include "plan/attention_block.h"
#include "plan/calibration.h"
#include "plan/growth_rates.h"
#include "plan/kernel_rates.h"
#include "plan/model_size.h"

namespace kvick::plan {

struct TokenSeconds {
  double weights = 0, attention = 0, copies = 0, overhead = 0;
  double all() const { return weights + attention + copies + overhead; }
};

// Measures once, then predicts any load of one model and element type, with the strategy that was
// measured or, for tokens one by one, with any other: what it copies is added by its formula.
class Predictor {
 public:
  struct Setting {
    const ModelSize& model;
    const Calibration& machine;
    kv::Spec spec;
    kv::Setup setup;        // store_row and pool set
    kv::GrowthRates rates;  // measure_growth of this setup
    uint32_t batch = 1;     // sequences that decode together
    uint32_t tokens = 0;    // the longest that will be asked for; at least 1
    uint32_t prefill_chunk = 512;
    // Of the rows that attention is measured on: as many tokens and layers as fit.
    uint64_t most_bytes = uint64_t{256} << 20;
  };
  // Error: no room for the measurements, or a spec that is none.
  static base::Result<Predictor> measure(const Setting& setting, model::Workspace& workspace,
                                         base::Clock clock = base::steady_seconds);

  // Of the next token of every sequence, each of which holds `tokens`.
  TokenSeconds token(uint32_t tokens) const { return token(tokens, setting_.spec); }
  TokenSeconds token(uint32_t tokens, const kv::Spec& spec) const;
  // Of a prompt of one sequence.
  double prefill_s(uint32_t tokens) const;

 private:
  struct Product {
    TypedWeights weights;
    bool output = false;
    double share = 0;  // of the machine's reading
    double decode_ops_s = 0, prefill_ops_s = 0;
  };
  explicit Predictor(const Setting& setting) : setting_(setting) {}
  base::Status<> measure_products(model::Workspace& workspace, base::Clock clock);
  base::Status<> measure_attention(model::Workspace& workspace, base::Clock clock);
  using MeasureBody = base::FunctionRef<base::Status<kv::Shortage>(AttentionBlock&, kv::Store&)>;
  base::Status<> on_store(uint32_t layers, MeasureBody body, model::Workspace& workspace,
                          base::Clock clock) const;
  base::Status<kv::Shortage> measure_tokens(AttentionBlock& block, kv::Store& store,
                                            uint32_t layers);
  base::Status<kv::Shortage> measure_prompt(AttentionBlock& block, kv::Store& store);
  uint32_t sequences() const;  // that are measured together
  double copied(const kv::Spec& spec, uint32_t from, uint32_t to) const;

  Setting setting_;
  uint32_t depth_ = 2;  // the most tokens of a sequence that is measured: longer ones are on a line
  std::vector<Product> products_;
  Line decode_attention_, prefill_attention_;  // seconds over tokens in the cache
  Line prefill_growth_;                        // seconds of making room for a chunk
  LayerOverhead layer_;
  unsigned threads_ = 1;
};

}  // namespace kvick::plan
