#include "plan/predict.h"

#include <algorithm>

#include "plan/attention_block.h"

namespace kvick::plan {
namespace {

constexpr int kSteps = 12;
// More sequences take so many times as long.
constexpr uint32_t kMostSequences = 64;

// Where attention is measured: at a quarter of the tokens and at all of them.
std::vector<uint32_t> depths_of(uint32_t tokens) {
  return {std::max(1U, tokens / 4), std::max(2U, tokens)};
}

double per_step(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace

base::Result<Predictor> Predictor::measure(const Setting& setting, model::Workspace& workspace,
                                           base::Clock clock) {
  Predictor predictor(setting);
  KVICK_TRY_VOID(predictor.measure_products(workspace, clock));
  KVICK_TRY_VOID(predictor.measure_attention(workspace, clock));
  predictor.threads_ = workspace.pool.size();
  predictor.layer_ =
      measure_layer_overhead(workspace.pool, workspace.kernels, setting.model.config, clock);
  return predictor;
}

base::Status<> Predictor::measure_products(model::Workspace& workspace, base::Clock clock) {
  const double read_s = setting_.machine.read_bytes_s(kMatmulBytes);
  for (const bool output : {false, true})
    for (const TypedWeights& weights : output ? setting_.model.output : setting_.model.layers) {
      const auto rate = [&](uint32_t tokens) {
        return measure_matmul(workspace.pool, workspace.kernels, weights.type, tokens, clock);
      };
      const MatmulRate decode = rate(std::min(setting_.batch, setting_.prefill_chunk));
      const MatmulRate prefill = rate(setting_.prefill_chunk);
      products_.push_back(
          {.weights = weights,
           .output = output,
           .share = std::min(1.0, std::max(decode.bytes_s, prefill.bytes_s) / read_s),
           .decode_ops_s = decode.ops_s,
           .prefill_ops_s = prefill.ops_s});
    }
  return base::Done{};
}

base::Status<> Predictor::measure_attention(model::Workspace& workspace, base::Clock clock) {
  // Tokens one by one over as many layers as fit, for caches matter; prompts, which are bound by
  // arithmetic, over one.
  const uint64_t row_bytes = std::max<uint64_t>(
      1, setting_.setup.shape.token_bytes() / setting_.model.config.layers * sequences());
  depth_ = static_cast<uint32_t>(
      std::clamp<uint64_t>(setting_.most_bytes / row_bytes, 2, std::max(2U, setting_.tokens)));
  const auto layers = static_cast<uint32_t>(std::clamp<uint64_t>(
      setting_.most_bytes / (row_bytes * depth_), 1, setting_.model.config.layers));
  KVICK_TRY_VOID(on_store(
      layers,
      [&](AttentionBlock& block, kv::Store& store) { return measure_tokens(block, store, layers); },
      workspace, clock));
  return on_store(
      1, [&](AttentionBlock& block, kv::Store& store) { return measure_prompt(block, store); },
      workspace, clock);
}

base::Status<> Predictor::on_store(uint32_t layers, MeasureBody body, model::Workspace& workspace,
                                   base::Clock clock) const {
  model::Config config = setting_.model.config;
  kv::Setup setup = setting_.setup;
  config.layers = setup.shape.layers = layers;
  setup.shape.max_tokens = depth_ + setting_.prefill_chunk;
  setup.max_bytes = UINT64_MAX;
  KVICK_TRY(const std::unique_ptr<kv::Store> store, kv::make_store(setting_.spec, setup));
  AttentionBlock block(config, *store, workspace, clock);
  const auto done = body(block, *store);
  if (!done.ok()) return base::fail("no room to measure attention: {}", done.error().what);
  return base::Done{};
}

base::Status<kv::Shortage> Predictor::measure_tokens(AttentionBlock& block, kv::Store& store,
                                                     uint32_t layers) {
  std::vector<kv::SeqId> seqs;
  for (uint32_t i = 0; i < sequences(); ++i) seqs.push_back(store.open({}).seq);
  std::vector<double> depths, seconds;
  for (const uint32_t depth : depths_of(depth_)) {
    KVICK_TRY_VOID(block.fill(seqs, depth - store.length(seqs[0])));
    std::vector<double> steps;
    for (int i = 0; i <= kSteps; ++i) {
      BlockSeconds step;
      KVICK_TRY_VOID(block.step(seqs, 1, step, false));
      if (i > 0) steps.push_back(step.write + step.attend);
    }
    depths.push_back(depth);
    seconds.push_back(per_step(steps) * setting_.model.config.layers / layers * setting_.batch /
                      sequences());
  }
  decode_attention_ = fit_line(depths, seconds);
  return base::Done{};
}

base::Status<kv::Shortage> Predictor::measure_prompt(AttentionBlock& block, kv::Store& store) {
  const kv::SeqId seq = store.open({}).seq;
  const double layers = setting_.model.config.layers;
  std::vector<double> depths, attention, growth;
  for (const uint32_t depth : depths_of(depth_)) {
    KVICK_TRY_VOID(block.fill({&seq, 1}, depth - store.length(seq)));
    BlockSeconds first, second;
    KVICK_TRY_VOID(block.step({&seq, 1}, setting_.prefill_chunk, first, false));
    KVICK_TRY_VOID(block.step({&seq, 1}, setting_.prefill_chunk, second, false));
    depths.push_back(depth);
    growth.push_back(first.begin * layers);
    attention.push_back((second.write + second.attend) * layers);
  }
  prefill_growth_ = fit_line(depths, growth);
  prefill_attention_ = fit_line(depths, attention);
  return base::Done{};
}

uint32_t Predictor::sequences() const { return std::min(setting_.batch, kMostSequences); }

double Predictor::copied(const kv::Spec& spec, uint32_t from, uint32_t to) const {
  kv::Setup setup = setting_.setup;
  setup.shape.max_tokens = std::max(setup.shape.max_tokens, to);
  const auto bytes = [&](uint32_t tokens) {
    const auto cost = kv::cost_of(spec, setup, {.tokens = tokens, .sequences = 1});
    return cost.ok() ? static_cast<double>(cost->copied_bytes) : 0;
  };
  return bytes(to) - bytes(from);
}

TokenSeconds Predictor::token(uint32_t tokens, const kv::Spec& spec) const {
  const ModelSize& model = setting_.model;
  const double batch = setting_.batch;
  const auto cost = kv::cost_of(spec, setting_.setup, {.tokens = tokens, .sequences = 1});
  const uint64_t cached = cost.ok() ? cost->read_bytes_per_token * setting_.batch : 0;
  const double read_s = setting_.machine.read_bytes_s(packed_bytes(model) + cached);
  TokenSeconds seconds;
  for (const Product& product : products_)
    seconds.weights +=
        std::max(static_cast<double>(packed_bytes(product.weights)) / (read_s * product.share),
                 2 * batch * static_cast<double>(product.weights.weights) / product.decode_ops_s);
  seconds.attention = std::max(0.0, decode_attention_.at_zero + decode_attention_.slope * tokens);
  constexpr uint32_t kSpan = 64;  // growth in steps is evened out over so many tokens
  seconds.copies =
      batch * copied(spec, tokens, tokens + kSpan) / kSpan / setting_.rates.copy_bytes_s;
  seconds.overhead =
      (layer_.regions + layer_.per_token * std::max(1.0, batch / threads_)) * model.config.layers;
  return seconds;
}

double Predictor::prefill_s(uint32_t tokens) const {
  double seconds = 0;
  for (uint32_t done = 0; done < tokens;) {
    const uint32_t n = std::min(setting_.prefill_chunk, tokens - done);
    const double part = static_cast<double>(n) / setting_.prefill_chunk;
    for (const Product& product : products_)
      seconds += 2 * static_cast<double>(product.weights.weights) * (product.output ? 1 : n) /
                 product.prefill_ops_s;
    const auto at = [&](const Line& line) {
      return part * std::max(0.0, line.at_zero + line.slope * done);
    };
    seconds += at(prefill_attention_) + at(prefill_growth_);
    seconds += (layer_.regions + layer_.per_token * n / threads_) * setting_.model.config.layers;
    done += n;
  }
  return seconds;
}

}  // namespace kvick::plan
