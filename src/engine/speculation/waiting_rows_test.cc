// Rows of a model's own draft layer that wait to be computed until the layer drafts.

#include <cmath>
#include <gtest/gtest.h>

#include "make_model/families.h"

#include "engine/core/test_engine.h"
#include "engine/sampling/sampler.h"
#include "engine/speculation/own_drafter.h"

namespace kvick::engine {
namespace {

struct WaitingRows {
  WaitingRows() {
    tools::Spec spec = *tools::made_family("glm4moe");
    spec.context = 128;
    spec.layers = 1;
    spec.features.dense_layers = 0;
    spec.features.draft_layers = 1;
    engine = engine_of(spec);
    const SpecOptions options = parse_spec_options("mtp:gain=off").value();
    own =
        std::move(DraftModel::make(*engine, DraftWeights::load(*engine, options).value(), nullptr))
            .value();
    for (uint32_t i = 0; i < 101; ++i) text.push_back(static_cast<Token>(5 + 7 * i % 100));
  }
  // Shows a drafter the states of all tokens but the last one.
  void show(OwnDrafter& by) const {
    std::vector<float> states((text.size() - 1) * engine->model().config().dim);
    for (size_t i = 0; i < states.size(); ++i) states[i] = std::sin(static_cast<float>(i));
    by.see({.text = std::span(text).first(text.size() - 1), .states = states.data()});
  }
  // Returns the first draft token; -1: there is none.
  Token drafted(OwnDrafter& by) const {
    const Sampler sampler({.temperature = 0}, engine->kernels());
    DraftTree tree;
    by.draft({.text = text, .most = 4, .depth = 4, .sampler = &sampler}, tree);
    return tree.nodes.empty() ? -1 : tree.nodes[0].token;
  }
  uint64_t rows() const {
    return own->store->usage().used_bytes / own->store->shape().token_bytes();
  }

  std::unique_ptr<Engine> engine;
  std::unique_ptr<DraftModel> own;
  Acceptance acceptance;
  std::vector<Token> text;
};

TEST(OwnDrafter, ComputesNoMoreWaitingRowsAtOnceThanAStepHasTokens) {
  const WaitingRows f;
  Token expected = -1;
  {
    OwnDrafter alone(*f.own, *f.engine, f.acceptance, false);
    f.show(alone);
    EXPECT_EQ(f.rows(), 0U);
    expected = f.drafted(alone);
    ASSERT_NE(expected, -1);
    EXPECT_EQ(f.rows(), 101U);
  }
  OwnDrafter first(*f.own, *f.engine, f.acceptance, false),
      second(*f.own, *f.engine, f.acceptance, false);
  f.show(first);
  f.show(second);
  f.own->may_read = 60;
  EXPECT_EQ(f.drafted(first), -1);
  EXPECT_EQ(f.drafted(second), -1);
  EXPECT_TRUE(first.is_behind() && second.is_behind());
  EXPECT_EQ(f.rows(), 60U);
  // 41 rows of the first one are left, more than are computed in any case.
  f.own->may_read = 50;
  EXPECT_EQ(f.drafted(first), expected);
  EXPECT_EQ(f.drafted(second), -1);
  EXPECT_EQ(f.rows(), 110U);
  f.own->may_read = 70;
  EXPECT_EQ(f.drafted(second), -1);
  f.own->may_read = 0;
  EXPECT_EQ(f.drafted(second), expected) << "a short rest is computed in any case";
  EXPECT_FALSE(first.is_behind() || second.is_behind());
  EXPECT_EQ(f.rows(), 202U);
}

}  // namespace
}  // namespace kvick::engine
