#include "plan/forecast/predict.h"

#include <algorithm>

namespace kvick::plan {
namespace {

constexpr int kSteps = 12;
// Each without and with the output layer, behind one of both that is not timed; at two depths.
constexpr uint32_t kStepTokens = 2 * 2 * (kSteps + 1);
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

void Predictor::choose_size() {
  const model::Config& config = setting_.model.config;
  uint64_t weights = 0;
  for (const TypedWeights& part : setting_.model.layers) weights += packed_bytes(part);
  const uint64_t layer_bytes = weights / config.layer_count();
  const uint64_t row_bytes = std::max<uint64_t>(
      1, setting_.setup.shape.token_bytes() / config.layer_count() * sequences());
  // Rows first: a quarter of the bytes if one layer wants so many.
  const uint64_t most_rows = std::max<uint64_t>(2, setting_.most_bytes / 4 / row_bytes);
  depth_ = static_cast<uint32_t>(std::clamp<uint64_t>(std::max(2U, setting_.tokens), 2, most_rows));
  layers_ = static_cast<uint32_t>(std::clamp<uint64_t>(
      setting_.most_bytes / (layer_bytes + row_bytes * depth_), 1, config.layer_count()));
}

base::Result<Predictor> Predictor::measure(const Setting& setting, model::Workspace workspace,
                                           base::Clock clock) {
  Predictor predictor(setting);
  predictor.choose_size();
  KVICK_TRY(SampleModel model,
            make_sample(setting.model, predictor.layers_, workspace.pool, workspace.kernels));
  kv::Setup setup = setting.setup;
  setup.shape.max_tokens = predictor.depth_ + std::max(setting.prefill_chunk, kStepTokens);
  KVICK_TRY(Sample sample,
            Sample::make(std::move(model), setting.spec, setup, std::move(workspace), clock));
  for (const auto measure_one : {&Predictor::measure_tokens, &Predictor::measure_prompt})
    if (const auto done = (predictor.*measure_one)(sample); !done.ok())
      return base::fail("no room to measure a forward: {}", done.error().what);
  return predictor;
}

double Predictor::all_layers() const {
  return static_cast<double>(setting_.model.config.layer_count()) / layers_;
}

double Predictor::all_weights(const Sample& sample) const {
  if (layers_ == setting_.model.config.layer_count()) return 1;
  uint64_t bytes = 0;
  for (const TypedWeights& part : setting_.model.layers) bytes += packed_bytes(part);
  return static_cast<double>(bytes) / static_cast<double>(sample.model().weights().layers.bytes);
}

base::Status<kv::Shortage> Predictor::measure_tokens(Sample& sample) {
  sample.open(sequences());
  const double share = static_cast<double>(setting_.batch) / sequences();
  std::vector<double> depths, seconds, output;
  for (const uint32_t depth : depths_of(depth_)) {
    if (sample.length() < depth) KVICK_TRY_VOID(sample.fill(depth - sample.length()));
    std::vector<double> layers, all;
    const uint32_t first = sample.length();
    for (int i = 0; i <= kSteps; ++i) {
      KVICK_TRY(const ForwardSeconds without, sample.forward(1, false));
      KVICK_TRY(const ForwardSeconds with, sample.forward(1, true));
      if (i == 0) continue;
      layers.push_back(without.forward);
      all.push_back(with.forward);
    }
    depths.push_back((first + sample.length()) / 2.0);
    seconds.push_back(per_step(layers) * share);
    output.push_back(std::max(0.0, per_step(all) - per_step(layers)) * share);
  }
  const Line line = fit_line(depths, seconds);
  decode_ = {.at_zero = line.at_zero * all_weights(sample), .slope = line.slope * all_layers()};
  output_s_ = (output[0] + output[1]) / 2;
  return base::Done{};
}

base::Status<kv::Shortage> Predictor::measure_prompt(Sample& sample) {
  sample.open(1);
  std::vector<double> depths, forward, growth;
  for (const uint32_t depth : depths_of(depth_)) {
    KVICK_TRY_VOID(sample.fill(depth - (depths.empty() ? 0 : static_cast<uint32_t>(depths[0]))));
    KVICK_TRY(const ForwardSeconds first, sample.forward(setting_.prefill_chunk, false));
    KVICK_TRY(const ForwardSeconds second, sample.forward(setting_.prefill_chunk, false));
    depths.push_back(depth);
    growth.push_back(first.begin * all_layers());
    forward.push_back(second.forward);
  }
  growth_ = fit_line(depths, growth);
  const Line line = fit_line(depths, forward);
  prefill_ = {.at_zero = line.at_zero * all_weights(sample), .slope = line.slope * all_layers()};
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
  TokenSeconds seconds;
  const double all = std::max(0.0, decode_.at_zero + decode_.slope * tokens);
  seconds.layers = std::clamp(decode_.at_zero, 0.0, all);
  seconds.attention = all - seconds.layers;
  seconds.output = output_s_;
  constexpr uint32_t kSpan = 64;  // growth in steps is evened out over so many tokens
  seconds.copies =
      setting_.batch * copied(spec, tokens, tokens + kSpan) / kSpan / setting_.rates.copy_bytes_s;
  return seconds;
}

double Predictor::prefill_s(uint32_t tokens) const {
  if (tokens == 0) return 0;
  double seconds = output_s_ / setting_.batch;
  for (uint32_t done = 0; done < tokens;) {
    const uint32_t n = std::min(setting_.prefill_chunk, tokens - done);
    const double part = static_cast<double>(n) / setting_.prefill_chunk;
    for (const Line* line : {&prefill_, &growth_})
      seconds += part * std::max(0.0, line->at_zero + line->slope * done);
    done += n;
  }
  return seconds;
}

}  // namespace kvick::plan
