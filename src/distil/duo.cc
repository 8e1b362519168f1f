#include "distil/duo.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvick::distil {
namespace {

using base::fail;
using base::Result;

constexpr uint32_t kPassages = 8;      // a passage is this part of a sequence
constexpr uint32_t kLeastWindow = 16;  // a passage of two tokens

uint32_t passage_of(uint32_t window) { return window / kPassages; }
// Returns the tokens of the text that one sequence takes.
uint32_t taken_of(uint32_t window) { return window - passage_of(window); }

// The outputs of one KV head for one query head. Scratch is reused from query to query.
class Outputs {
 public:
  Outputs(const LayerActivations& layer, const model::LayerConfig& heads, const NearRows& near,
          size_t head, const kernels::Table& kernels)
      : layer_(layer),
        heads_(heads),
        near_(near),
        head_(head),
        kernels_(kernels),
        columns_(
            columns_of(layer.k + head * heads.k_dim, heads.k_floats(), heads.k_dim, layer.tokens)),
        scores_(layer.tokens),
        near_scores_(layer.tokens),
        all_(heads.v_dim),
        some_(heads.v_dim) {}

  OutputChange change(uint32_t token, uint32_t g) {
    const HeadWindow window = {.tokens = layer_.tokens,
                               .group = heads_.group(),
                               .head_dim = heads_.k_dim,
                               .q = layer_.q + head_ * heads_.group() * heads_.k_dim,
                               .q_stride = heads_.q_floats(),
                               .columns = columns_.data(),
                               .scale = layer_.scale};
    true_scores(window, token, g, kernels_, scores_.data());
    const uint32_t seen = token + 1;
    const uint32_t sinks = std::min(near_.sinks, seen);
    const uint32_t newest = std::max(sinks, seen - std::min(near_.recent, seen));
    // The near rows get a softmax of their own: beside a distant row with all of the attention
    // their weights may be too small for floats.
    float* const end = std::copy_n(scores_.data(), sinks, near_scores_.data());
    std::copy(scores_.data() + newest, scores_.data() + seen, end);
    const uint32_t near = sinks + seen - newest;
    clear(all_);
    add(kernels_.exp_row(scores_.data(), seen, 1), scores_.data(), 0, seen, all_);
    clear(some_);
    const float sum = kernels_.exp_row(near_scores_.data(), near, 1);
    add(sum, near_scores_.data(), 0, sinks, some_);
    add(sum, near_scores_.data() + sinks, newest, seen, some_);
    return compared();
  }

 private:
  static void clear(std::vector<float>& out) { std::fill(out.begin(), out.end(), 0.0F); }
  // Adds the values of rows [first, end) by their weights.
  void add(float sum, const float* weights, uint32_t first, uint32_t end, std::vector<float>& out) {
    for (uint32_t row = first; row < end; ++row)
      kernels_.axpy(out.data(), weights[row - first] / sum,
                    layer_.v + size_t{row} * heads_.v_floats() + head_ * heads_.v_dim, out.size());
  }
  OutputChange compared() const {
    double distance = 0, all = 0, some = 0;
    for (size_t i = 0; i < all_.size(); ++i) {
      const double x = all_[i], y = some_[i];
      distance += (x - y) * (x - y);
      all += x * x;
      some += y * y;
    }
    const double most = std::sqrt(all) + std::sqrt(some);
    return {.square = distance, .most = most * most};
  }

  const LayerActivations& layer_;
  const model::LayerConfig& heads_;
  const NearRows near_;
  const size_t head_;
  const kernels::Table& kernels_;
  const std::vector<float> columns_;
  std::vector<float> scores_, near_scores_, all_, some_;
};

// Returns the `count` heads with the highest scores in ascending order; of equal ones the first.
std::vector<uint32_t> highest(const std::vector<OutputChange>& heads, size_t count) {
  std::vector<uint32_t> order(heads.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return heads[a].score() > heads[b].score(); });
  order.resize(count);
  std::sort(order.begin(), order.end());
  return order;
}

double agreement_of(const std::vector<OutputChange>& a, const std::vector<OutputChange>& b) {
  const size_t count = std::max<size_t>(1, a.size() / 4);
  const std::vector<uint32_t> x = highest(a, count), y = highest(b, count);
  std::vector<uint32_t> both;
  std::set_intersection(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(both));
  return static_cast<double>(both.size()) / static_cast<double>(count);
}

base::Status<> check_near(const DuoOptions& options) {
  if (options.window < kLeastWindow)
    return fail("windows of {} tokens are too short to repeat a passage: give at least {}",
                options.window, kLeastWindow);
  if (options.near.recent == 0)
    return fail("a token always sees its own row: give --recent 1 or more");
  const uint32_t passage = passage_of(options.window), between = options.window - 2 * passage;
  if (options.near.recent > between)
    return fail(
        "windows of {} tokens are too short: the copies of a passage are {} tokens apart, which "
        "{} newest rows would cover: give longer windows, or at most --recent {}",
        options.window, between, options.near.recent, between);
  if (options.near.sinks > passage / 2)
    return fail(
        "windows of {} tokens are too short: {} sinks would cover more than half of a passage of "
        "{} tokens: give longer windows, or at most --sinks {}",
        options.window, options.near.sinks, passage, passage / 2);
  return base::Done{};
}

// heads: [layers][kv_heads].
Result<kv::Predictor> predictor_of(const model::Config& config,
                                   const std::vector<OutputChange>& heads) {
  const model::LayerConfig& layer = config.layers.front();
  kv::Predictor made;
  made.shape = shape_of(config, kv::PredictorForm::kRetrieval, 1);
  made.layers.resize(config.layer_count());
  for (size_t i = 0; i < heads.size(); ++i) {
    const size_t number = i / layer.kv_heads;
    if (!std::isfinite(heads[i].square) || !std::isfinite(heads[i].most))
      return fail("layer {} computes numbers that are not finite: nothing can be measured on it",
                  number);
    made.layers[number].k.push_back(static_cast<float>(heads[i].score()));
  }
  return made;
}

}  // namespace

double OutputChange::score() const {
  return most > 0 ? std::min(1.0, std::sqrt(square / most)) : 0;
}

std::vector<engine::Token> repeated(std::span<const engine::Token> text, uint32_t window,
                                    uint64_t number) {
  const auto part = text.subspan(number * taken_of(window), taken_of(window));
  std::vector<engine::Token> tokens(part.begin(), part.end());
  tokens.insert(tokens.end(), part.begin(), part.begin() + passage_of(window));
  return tokens;
}

std::vector<OutputChange> changes(const LayerActivations& layer, const model::LayerConfig& heads,
                                  const NearRows& near, uint32_t first,
                                  const kernels::Table& kernels, base::ThreadPool& pool) {
  std::vector<OutputChange> made(heads.kv_heads);
  pool.parallel_for(heads.kv_heads, 1, [&](size_t begin, size_t end, unsigned) {
    for (size_t head = begin; head < end; ++head) {
      Outputs outputs(layer, heads, near, head, kernels);
      for (uint32_t token = first; token < layer.tokens; ++token)
        for (uint32_t g = 0; g < heads.group(); ++g) made[head].add(outputs.change(token, g));
    }
  });
  return made;
}

Result<HeadScores> measure_heads(engine::Engine& engine, std::span<const engine::Token> text,
                                 const DuoOptions& options) {
  if (options.most != 0) text = text.first(std::min<size_t>(text.size(), options.most));
  KVICK_TRY_VOID(check_windows(engine, text.size(), options.window));
  KVICK_TRY_VOID(check_near(options));
  const model::Config& config = engine.model().config();
  const model::LayerConfig& heads = config.layers.front();
  KVICK_TRY(Capture capture, Capture::make(engine, options.window));
  // Of the even and of the odd sequences, [layers][kv_heads].
  std::vector<OutputChange> halves[2];
  for (auto& half : halves) half.resize(size_t{config.layer_count()} * heads.kv_heads);
  const uint32_t taken = taken_of(options.window);
  const uint64_t count = text.size() / taken;
  for (uint64_t i = 0; i < count; ++i) {
    const auto visit = [&](const LayerActivations& layer) {
      const std::vector<OutputChange> made =
          changes(layer, heads, options.near, taken, engine.kernels(), engine.pool());
      for (size_t head = 0; head < made.size(); ++head)
        halves[i % 2][size_t{layer.layer} * heads.kv_heads + head].add(made[head]);
    };
    KVICK_TRY_VOID(capture.read(repeated(text, options.window, i), visit));
    if (options.progress) options.progress((i + 1) * options.window, count * options.window);
  }
  HeadScores made = {.predictor = {},
                     .agreement = agreement_of(halves[0], halves[1]),
                     .sequences = count,
                     .tokens = count * taken};
  for (size_t head = 0; head < halves[0].size(); ++head) halves[0][head].add(halves[1][head]);
  KVICK_TRY(made.predictor, predictor_of(config, halves[0]));
  return made;
}

engine::PredictorFile file_of(const HeadScores& made, const engine::ModelIdentity& model,
                              const std::string& text) {
  return {.model = model,
          .predictor = made.predictor,
          .text = text,
          .tokens = static_cast<uint32_t>(made.tokens),
          .held_out = 0,
          .mse = {},
          .recall = {},
          .mass = {}};
}

}  // namespace kvick::distil
