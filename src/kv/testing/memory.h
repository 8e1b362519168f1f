#pragma once
// Slots for the tests of stores: random keys and initial values, in the form that a model gives.

#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "kernels/formats/matrix.h"
#include "kv/registry/policies.h"
#include "kv/registry/registry.h"
#include "kv/select/predictor.h"
#include "kv/testing/rows.h"

namespace kvick::kv::test {

struct MadeSlots {
  MadeSlots(const Shape& of, uint32_t slots, kernels::DType type = kernels::DType::kF32,
            uint32_t carried = 0)
      : shape(of) {
    const uint32_t heads = shape.layers * shape.kv_heads, dim = shape.head_dim;
    const uint32_t inputs = (dim + kernels::kGroup - 1) / kernels::kGroup * kernels::kGroup;
    std::mt19937 random(slots);
    std::normal_distribution<float> normal;
    for (uint32_t i = 0; i < heads * slots * dim; ++i) initial.push_back(normal(random) / 8);
    for (uint32_t head = 0; head < heads; ++head) {
      std::vector<float> padded(size_t{slots} * inputs), read(padded.size());
      for (uint32_t i = 0; i < padded.size(); ++i)
        if (i % inputs < dim) padded[i] = normal(random);
      std::vector<std::byte> bytes(kernels::dtype_bytes(type, padded.size()));
      kernels::from_f32(type, padded.data(), padded.size(), bytes.data());
      kernels::to_f32(type, bytes.data(), read.size(), read.data());
      for (uint32_t i = 0; i < read.size(); ++i)
        if (i % inputs < dim) keys.push_back(read[i]);
      matrices.push_back(kernels::make_matrix(type, slots, inputs));
      kernels::pack_panels(matrices.back(), bytes.data(), slots, 0, 0, matrices.back().panels());
    }
    facts = {
        .slots = slots, .scale = 0.5F, .keys = matrices, .initial = initial, .carried = carried};
  }
  MadeSlots(const MadeSlots&) = delete;
  MadeSlots& operator=(const MadeSlots&) = delete;

  Shape shape;
  std::vector<float> keys, initial;  // [layers][kv_heads][slots][head_dim]
  std::vector<kernels::Matrix> matrices;
  Slots facts;
};

// The text of a case: a strategy's spec, or with a policy "STRATEGY POLICY": bmc:r=7
// quest:budget=9.
inline Spec spec_of(const std::string& text) {
  return parse_spec(text.substr(0, text.find(' '))).value();
}
inline Spec select_of(const std::string& text) {
  const size_t space = text.find(' ');
  return space == std::string::npos ? Spec{} : parse_spec(text.substr(space + 1)).value();
}

// Returns the traits that hold for any shape and any options.
inline Traits traits_of(const std::string& text) {
  Traits traits = find_strategy(spec_of(text).name)->traits;
  const Spec select = select_of(text);
  if (const Policy* policy = find_policy(select.name)) {
    policy->change_traits(traits);
    if (policy->limit_traits != nullptr) policy->limit_traits(select, traits);
  }
  return traits;
}

// Makes a predictor of random weights, which predicts from keys.
inline std::shared_ptr<const Predictor> made_predictor(const Shape& shape, PredictorForm form) {
  auto made = std::make_shared<Predictor>();
  made->shape = {.layers = shape.layers,
                 .heads = shape.kv_heads,
                 .kv_heads = shape.kv_heads,
                 .head_dim = shape.head_dim,
                 .dim = shape.head_dim,
                 .rank = form == PredictorForm::kScores || form == PredictorForm::kRetrieval ||
                                 form == PredictorForm::kDocument
                             ? 1U
                             : 4U,
                 .form = form};
  constexpr uint32_t kDocument = 40;
  if (form == PredictorForm::kDocument) made->shape.tokens = kDocument;
  made->document.resize(made->shape.tokens);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  made->layers.resize(shape.layers);
  for (PredictorLayer& layer : made->layers)
    for (std::vector<float>* w : {&layer.q, &layer.k}) {
      if (w == &layer.q && !made->shape.has_queries()) continue;
      w->resize(size_t{shape.kv_heads} * made->shape.rank * made->shape.inputs());
      for (float& x : *w) x = normal(random);
    }
  return made;
}

// Returns the slots that all stores of a shape are tried with.
inline const MadeSlots& made_slots(const Shape& shape) {
  static std::map<std::tuple<uint32_t, uint32_t, uint32_t>, MadeSlots> made;
  constexpr uint32_t kSlots = 21;
  const auto key = std::tuple(shape.layers, shape.kv_heads, shape.head_dim);
  return made.try_emplace(key, shape, kSlots).first->second;
}

// Returns the setup for a spec: with slots and type f32 if the strategy keeps slots, with a slower
// tier if it needs one.
inline Setup setup_for(const std::string& spec, const Shape& shape,
                       uint64_t max_bytes = UINT64_MAX) {
  Setup setup = test_setup(shape, max_bytes);
  // Units are small enough that sequences of a few dozen tokens fill some.
  if (traits_of(spec).tiered) setup.tier.spec = parse_spec("ram:unit=8,size=64MiB").value();
  setup.select.spec = select_of(spec);
  if (setup.select.spec.name == "maple")
    setup.select.predictor = made_predictor(shape, PredictorForm::kHeads);
  if (setup.select.spec.name == "loki")
    setup.select.predictor = made_predictor(shape, PredictorForm::kComponents);
  if (setup.select.spec.name == "kvzap") {
    setup.select.predictor = made_predictor(shape, PredictorForm::kScores);
    setup.select.model_dim = shape.head_dim;
  }
  if (setup.select.spec.name == "duo")
    setup.select.predictor = made_predictor(shape, PredictorForm::kRetrieval);
  if (setup.select.spec.name == "kvzip")
    setup.select.predictor = made_predictor(shape, PredictorForm::kDocument);
  if (!traits_of(spec).slots) return setup;
  setup.shape.k_type = setup.shape.v_type = kernels::DType::kF32;
  setup.slots = &made_slots(shape).facts;
  return setup;
}

}  // namespace kvick::kv::test
