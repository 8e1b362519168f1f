#include "engine/eval/measure_ranges.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/options/layer_options.h"

namespace kvick::engine {
namespace {

using base::fail;

// Raises `most` to the largest magnitude of the rows; false if one is not finite.
bool raise(float& most, const kernels::Segment& segment, bool is_v, uint32_t head_dim) {
  const std::byte* rows = is_v ? segment.v : segment.k;
  const uint32_t stride = is_v ? segment.v_stride : segment.k_stride;
  std::vector<float> row(head_dim);
  for (const kernels::Run& run : segment.runs)
    for (uint32_t i = 0; i < run.rows; ++i) {
      std::memcpy(row.data(), rows + size_t{run.row + i} * stride, head_dim * sizeof(float));
      for (const float x : row) {
        if (!std::isfinite(x)) return false;
        most = std::max(most, std::abs(x));
      }
    }
  return true;
}

class Pass {
 public:
  Pass(Engine& engine, std::unique_ptr<kv::Store> store)
      : store_(std::move(store)), executor_(engine.model(), {engine.pool(), engine.kernels()}) {
    const kv::Shape& shape = store_->shape();
    const size_t heads = size_t{shape.layers} * shape.kv_heads;
    seen_ = {.k = std::vector<float>(heads), .v = std::vector<float>(heads)};
  }

  // Reads the tokens as one sequence.
  base::Status<> read(std::span<const Token> tokens) {
    const model::Slot slot = {
        .seq = store_->open({}).seq, .past = 0, .tokens = tokens, .parents = {}};
    {
      auto step = executor_.run(*store_, {.slots = {&slot, 1}}, {});
      if (!step.ok()) return fail("no room for {} tokens: {}", tokens.size(), step.error().what);
      KVICK_TRY_VOID(look(step->rows()));
    }
    store_->close(slot.seq);
    return base::Done{};
  }

  const kv::StaticRanges& seen() const { return seen_; }

 private:
  base::Status<> look(kv::Step& step) {
    const kv::Shape& shape = store_->shape();
    base::Arena scratch;
    kernels::View view;
    for (uint32_t layer = 0; layer < shape.layers; ++layer)
      for (uint32_t head = 0; head < shape.kv_heads; ++head)
        for (const bool is_v : {false, true}) {
          step.view({.slot = 0, .layer = layer, .head = head}, scratch, view);
          float& most = (is_v ? seen_.v : seen_.k)[size_t{layer} * shape.kv_heads + head];
          if (!raise(most, view.fresh, is_v, shape.head_dim))
            return fail("layer {}, KV head {} has {} that are not finite numbers", layer, head,
                        is_v ? "values" : "keys");
        }
    return base::Done{};
  }

  std::unique_ptr<kv::Store> store_;
  model::Executor executor_;
  kv::StaticRanges seen_;
};

}  // namespace

base::Result<Ranges> measure_ranges(Engine& engine, std::span<const Token> text,
                                    const RangesOptions& options) {
  if (options.most != 0) text = text.first(std::min<size_t>(text.size(), options.most));
  if (text.empty()) return fail("the text has no tokens: there is nothing to measure");
  if (options.window == 0) return fail("a window of 0 tokens: at least 1 is needed");
  if (layers_differ(engine.model().config()))
    return fail(
        "static types need layers that are all alike, and this model's differ: use q8 or f16");
  if (!(options.margin >= 0 && options.margin <= 10))
    return fail("a margin of {}, but it must be from 0 to 10", options.margin);
  KvOptions kv;
  kv.k_type = kv.v_type = kernels::DType::kF32;
  kv.max_tokens = std::min(options.window, engine.model().config().context);
  KVICK_TRY(std::unique_ptr<kv::Store> store, engine.make_store(kv));
  Pass pass(engine, std::move(store));
  for (size_t begin = 0; begin < text.size(); begin += kv.max_tokens) {
    const size_t n = std::min<size_t>(kv.max_tokens, text.size() - begin);
    KVICK_TRY_VOID(pass.read(text.subspan(begin, n)));
    if (options.progress) options.progress(begin + n, text.size());
  }
  Ranges ranges = {.model = engine.identity(),
                   .tokens = text.size(),
                   .margin = options.margin,
                   .heads = pass.seen()};
  const auto factor = static_cast<float>(1 + options.margin);
  for (std::vector<float>* list : {&ranges.heads.k, &ranges.heads.v})
    for (float& range : *list) range = std::min(range * factor, std::numeric_limits<float>::max());
  return ranges;
}

}  // namespace kvick::engine
