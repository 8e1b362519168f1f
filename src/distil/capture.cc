#include "distil/capture.h"

#include <algorithm>

namespace kvick::distil {
namespace {

using base::fail;

// Buffers of one layer of one sequence.
struct Layer {
  std::vector<float>&x, &q, &k, &v;
};

// Passes all calls on to another step, and copies the activations.
class CaptureStep final : public kv::Step, kv::InputReader {
 public:
  CaptureStep(kv::Step& inner, const model::Config& config, uint32_t tokens, Layer layer,
              LayerVisitor visit)
      : inner_(inner),
        layers_(config.layer_count()),
        numbers_(config.layers.front()),
        tokens_(tokens),
        layer_(layer),
        visit_(visit) {
    layer_.x.resize(size_t{tokens} * config.dim);
    layer_.q.resize(size_t{tokens} * config.layers.front().q_floats());
    layer_.k.resize(size_t{tokens} * config.layers.front().k_floats());
    layer_.v.resize(size_t{tokens} * config.layers.front().v_floats());
  }

  kv::StepFacets facets() override { return {.inputs = this, .per_query = true}; }
  void inputs(uint32_t layer, const float* x, std::span<const uint32_t>) override {
    if (layer > 0) visit(layer - 1);
    std::copy_n(x, layer_.x.size(), layer_.x.data());
  }
  void write(uint32_t layer, const float* k, const float* v) override {
    std::copy_n(k, layer_.k.size(), layer_.k.data());
    std::copy_n(v, layer_.v.size(), layer_.v.data());
    inner_.write(layer, k, v);
  }
  void view(const kv::Query& query, base::Arena& scratch, kernels::View& out) override {
    const size_t floats = size_t{numbers_.group()} * numbers_.k_dim;
    for (uint32_t t = 0; t < tokens_; ++t)
      std::copy_n(query.q + size_t{t} * query.q_stride, floats,
                  layer_.q.data() + size_t{t} * numbers_.q_floats() + query.head * floats);
    inner_.view(query, scratch, out);
  }
  void commit(const kv::Kept& kept) override { inner_.commit(kept); }

  void finish() { visit(layers_ - 1); }

 private:
  void visit(uint32_t layer) {
    visit_({.layer = layer,
            .tokens = tokens_,
            .scale = numbers_.scale,
            .x = layer_.x.data(),
            .q = layer_.q.data(),
            .k = layer_.k.data(),
            .v = layer_.v.data()});
  }

  kv::Step& inner_;
  uint32_t layers_;
  const model::LayerConfig& numbers_;  // of every layer: they are alike
  uint32_t tokens_;
  Layer layer_;
  LayerVisitor visit_;
};

}  // namespace

base::Result<Capture> Capture::make(engine::Engine& engine, uint32_t window) {
  engine::KvOptions kv;
  kv.k_type = kv.v_type = kernels::DType::kF32;
  kv.max_tokens = window;
  KVICK_TRY(std::unique_ptr<kv::Store> store, engine.make_store(kv));
  return Capture(engine, std::move(store));
}

base::Status<> Capture::read(std::span<const engine::Token> tokens, LayerVisitor visit) {
  const model::Slot slot = {
      .seq = store_->open({}).seq, .past = 0, .tokens = tokens, .parents = {}};
  {
    auto step = executor_.begin(*store_, {.slots = {&slot, 1}});
    if (!step.ok()) return fail("no room for {} tokens: {}", tokens.size(), step.error().what);
    CaptureStep capture(step->rows(), executor_.model().config(),
                        static_cast<uint32_t>(tokens.size()), {x_, q_, k_, v_}, visit);
    step->forward({}, capture);
    capture.finish();
  }
  store_->close(slot.seq);
  return base::Done{};
}

}  // namespace kvick::distil
