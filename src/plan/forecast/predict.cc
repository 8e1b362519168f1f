#include "plan/forecast/predict.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "model/core/seen_rows.h"

namespace kvick::plan {
namespace {

constexpr int kSteps = 12;
// At two depths, kSteps steps after one that is not timed, each without and with the output layer.
constexpr uint32_t kStepTokens = 2 * 2 * (kSteps + 1);
// Most sequences that are measured together; the time of more is scaled up.
constexpr uint32_t kMostSequences = 64;
// A forward of tokens may take a tenth of a chunk's multiplications: kStepTokens of them are
// measured, and four chunks.
constexpr int kTokenForwards = 10;

// Returns the multiplications of a token's attention in a layer, on average.
double products(const model::Config& config, uint32_t tokens) {
  double all = 0;
  for (const model::LayerConfig& layer : config.layers)
    all += static_cast<double>(layer.heads) * (layer.k_dim + layer.v_dim) *
           model::seen_rows(layer, tokens);
  return all / config.layer_count();
}

double per_step(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace

double Predictor::seen(const model::Config& config, uint32_t tokens) const {
  const kv::Shape& shape = setting_.setup.shape;
  return static_cast<double>(
      model::seen_bytes(config, {.k = shape.k_type, .v = shape.v_type}, tokens));
}

// Returns the two numbers of cached tokens at which attention is measured: `far` and a quarter.
// With windows a quarter may see almost as much, so the smaller depth is halved until it sees at
// most half as many bytes.
std::vector<uint32_t> Predictor::depths(uint32_t far) const {
  const model::Config& config = setting_.model.config;
  uint32_t near = std::max(1U, far / 4);
  while (near > 1 && 2 * seen(config, near) > seen(config, far)) near /= 2;
  return {near, far};
}

void Predictor::choose_size() {
  const model::Config& config = setting_.model.config;
  uint64_t weights = 0;
  for (const TypedWeights& part : setting_.model.layers) weights += packed_bytes(part);
  const uint64_t layer_bytes = weights / config.layer_count();
  const uint64_t row_bytes = std::max<uint64_t>(
      1, static_cast<uint64_t>(seen(config, 1)) / config.layer_count() * sequences());
  // Rows first: up to a quarter of the bytes for the rows of one layer.
  const uint64_t most_rows = std::max<uint64_t>(2, setting_.most_bytes / 4 / row_bytes);
  depth_ = static_cast<uint32_t>(std::clamp<uint64_t>(std::max(2U, setting_.tokens), 2, most_rows));
  layers_ = static_cast<uint32_t>(std::clamp<uint64_t>(
      setting_.most_bytes / (layer_bytes + row_bytes * depth_), 1, config.layer_count()));
  const auto of_chunk = [&](uint32_t tokens) {
    return setting_.prefill_chunk * products(config, tokens);
  };
  const double of_tokens = kTokenForwards * sequences() * products(config, depth_);
  const double of_layer =
      std::max({1.0, of_tokens, of_chunk(std::min(depth_, setting_.prompt_rows))});
  layers_ = static_cast<uint32_t>(
      std::clamp(setting_.most_products / of_layer, 1.0, static_cast<double>(layers_)));
  prompt_depth_ = depth_;
  while (prompt_depth_ > setting_.prompt_rows &&
         layers_ * of_chunk(prompt_depth_) > setting_.most_products)
    prompt_depth_ = std::max(setting_.prompt_rows, prompt_depth_ / 2);
}

base::Result<Predictor> Predictor::measure(const Setting& setting, model::Workspace workspace,
                                           base::Clock clock) {
  Predictor predictor(setting);
  predictor.choose_size();
  KVICK_TRY(SampleModel model, make_sample(setting.model, predictor.layers_, workspace.pool,
                                           workspace.kernels, setting.ranks));
  model.state_type = setting.state_type;
  kv::Setup setup = setting.setup;
  setup.shape.max_tokens = predictor.depth_ + std::max(setting.prefill_chunk, kStepTokens);
  KVICK_TRY(Sample sample,
            Sample::make(std::move(model), setting.spec, setup, std::move(workspace), clock));
  for (const auto measure_one : {&Predictor::measure_tokens, &Predictor::measure_prompt})
    if (const auto done = (predictor.*measure_one)(sample); !done.ok())
      return base::fail("no room to measure a forward: {}", done.error().what);
  return predictor;
}

double Predictor::all_weights(const Sample& sample) const {
  if (sample.model().config().layer_count() == setting_.model.config.layer_count()) return 1;
  uint64_t bytes = 0;
  for (const TypedWeights& part : setting_.model.layers) bytes += packed_bytes(part);
  const model::Weights& weights = sample.model().weights();
  return static_cast<double>(bytes) /
         static_cast<double>(weights.layers.bytes + weights.experts.bytes);
}

double Predictor::all_layers(const Sample& sample) const {
  return static_cast<double>(setting_.model.config.layer_count()) /
         static_cast<double>(sample.model().config().layer_count());
}

base::Status<kv::Shortage> Predictor::measure_tokens(Sample& sample) {
  sample.open(sequences());
  const double share = static_cast<double>(setting_.batch) / sequences();
  const model::Config& config = sample.model().config();
  std::vector<double> rows, seconds, output, growth;
  bool always = true;
  for (const uint32_t depth : depths(depth_)) {
    if (sample.length() < depth) KVICK_TRY_VOID(sample.fill(depth - sample.length()));
    std::vector<double> layers, all, begin;
    const uint32_t first = sample.length();
    for (int i = 0; i <= kSteps; ++i) {
      KVICK_TRY(const ForwardSeconds without, sample.forward(1, false));
      KVICK_TRY(const ForwardSeconds with, sample.forward(1, true));
      if (i == 0) continue;
      layers.push_back(without.forward);
      all.push_back(with.forward);
      begin.push_back(without.begin);
      begin.push_back(with.begin);
    }
    always = always && copies_always(first, sample.length() - first);
    rows.push_back(seen(config, (first + sample.length()) / 2));
    seconds.push_back(per_step(layers) * share);
    growth.push_back(per_step(begin) * share);
    output.push_back(std::max(0.0, per_step(all) - per_step(layers)) * share);
  }
  const Line line = fit_line(rows, seconds);
  decode_ = {.at_zero = line.at_zero * all_weights(sample), .slope = line.slope};
  output_s_ = (output[0] + output[1]) / 2;
  if (!always) return base::Done{};
  copies_ = fit_line(rows, growth);
  copies_->at_zero *= all_layers(sample);
  return base::Done{};
}

base::Status<kv::Shortage> Predictor::measure_prompt(Sample& sample) {
  if (setting_.prefill_chunk == 0) return base::Done{};
  sample.open(1);
  const model::Config& config = sample.model().config();
  std::vector<double> rows, forward, growth;
  uint32_t filled = 0;
  for (const uint32_t depth : depths(prompt_depth_)) {
    KVICK_TRY_VOID(sample.fill(depth - std::exchange(filled, depth)));
    KVICK_TRY(const ForwardSeconds first,
              sample.forward(setting_.prefill_chunk, false, setting_.prompt_role));
    KVICK_TRY(const ForwardSeconds second,
              sample.forward(setting_.prefill_chunk, false, setting_.prompt_role));
    rows.push_back(seen(config, depth));
    growth.push_back(first.begin);
    forward.push_back(second.forward);
  }
  growth_ = fit_line(rows, growth);
  growth_.at_zero *= all_layers(sample);
  const Line line = fit_line(rows, forward);
  prefill_ = {.at_zero = line.at_zero * all_weights(sample), .slope = line.slope};
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

bool Predictor::copies_always(uint32_t from, uint32_t tokens) const {
  for (uint32_t i = 0; i < tokens; ++i)
    if (copied(setting_.spec, from + i, from + i + 1) <= 0) return false;
  return true;
}

TokenSeconds Predictor::token(uint32_t tokens, const kv::Spec& spec) const {
  TokenSeconds seconds;
  const double all =
      std::max(0.0, decode_.at_zero + decode_.slope * seen(setting_.model.config, tokens));
  seconds.layers = std::clamp(decode_.at_zero, 0.0, all);
  seconds.attention = all - seconds.layers;
  seconds.output = output_s_;
  if (copies_ && kv::spec_text(spec) == kv::spec_text(setting_.spec)) {
    seconds.copies =
        std::max(0.0, copies_->at_zero + copies_->slope * seen(setting_.model.config, tokens));
    return seconds;
  }
  constexpr uint32_t kSpan = 64;  // copies by growth are averaged over this many tokens
  seconds.copies =
      setting_.batch * copied(spec, tokens, tokens + kSpan) / kSpan / setting_.rates.copy_bytes_s;
  return seconds;
}

double Predictor::prefill_s(uint32_t tokens) const {
  if (tokens == 0) return 0;
  KVICK_CHECK(setting_.prefill_chunk > 0, "prompts were not measured");
  double seconds = output_s_ / setting_.batch;
  for (uint32_t done = 0; done < tokens;) {
    const uint32_t n = std::min(setting_.prefill_chunk, tokens - done);
    const double part = static_cast<double>(n) / setting_.prefill_chunk;
    const double before = seen(setting_.model.config, done);
    for (const Line* line : {&prefill_, &growth_})
      seconds += part * std::max(0.0, line->at_zero + line->slope * before);
    done += n;
  }
  return seconds;
}

}  // namespace kvick::plan
