#pragma once
// The simplest store: one sequence, one block of memory per layer, rows of any size.

#include <vector>

#include "kv/contract/kv.h"
#include "model/core/config.h"

namespace kvick::model {

struct PlainRows {
  explicit PlainRows(const Config& config) : layers(config.layers), k(layers.size()), v(k) {}
  std::vector<LayerConfig> layers;
  // Per layer [tokens][kv_heads][k_dim or v_dim]; latent layers have no v.
  std::vector<std::vector<float>> k, v;
};

// Keeps all rows as soon as they are written, without a commit.
class PlainStep final : public kv::Step {
 public:
  PlainStep(PlainRows& rows, uint32_t past, uint32_t fresh)
      : rows_(rows), past_{0, past, 0}, fresh_{past, fresh, past} {}

  void write(uint32_t layer, const float* k, const float* v) override {
    const LayerConfig& numbers = rows_.layers[layer];
    KVICK_CHECK(numbers.owns_rows(), "rows of layer {}, which has none", layer);
    put(rows_.k[layer], numbers.k_floats(), k);
    if (!numbers.is_latent()) put(rows_.v[layer], numbers.v_floats(), v);
  }
  void view(const kv::Query& query, base::Arena&, kernels::View& out) override {
    const LayerConfig& numbers = rows_.layers[query.layer];
    KVICK_CHECK(!rows_.k[query.layer].empty(), "layer {} has no rows to view", query.layer);
    const float* const k = rows_.k[query.layer].data() + size_t{query.head} * numbers.k_dim;
    const bool latent = numbers.is_latent();
    const float* const v =
        latent ? k : rows_.v[query.layer].data() + size_t{query.head} * numbers.v_dim;
    const uint32_t v_floats = latent ? numbers.k_floats() : numbers.v_floats();
    out = {};
    out.fresh = {.k = reinterpret_cast<const std::byte*>(k),
                 .v = reinterpret_cast<const std::byte*>(v),
                 .k_stride = static_cast<uint32_t>(numbers.k_floats() * sizeof(float)),
                 .v_stride = static_cast<uint32_t>(v_floats * sizeof(float)),
                 .runs = {&fresh_, 1}};
    if (past_.rows == 0) return;
    kernels::Segment past = out.fresh;
    past.runs = {&past_, 1};
    out.past.push_back(past);
  }
  void commit(const kv::Kept&) override {}

 private:
  void put(std::vector<float>& to, size_t floats, const float* from) const {
    to.resize(past_.rows * floats);
    to.insert(to.end(), from, from + fresh_.rows * floats);
  }

  PlainRows& rows_;
  kernels::Run past_, fresh_;
};

}  // namespace kvick::model
