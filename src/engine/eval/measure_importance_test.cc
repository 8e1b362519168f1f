#include "engine/eval/measure_importance.h"

#include <gtest/gtest.h>

#include "engine/core/test_engine.h"

namespace kvick::engine {
namespace {

std::vector<Token> text_of(size_t n) {
  std::vector<Token> text;
  for (size_t i = 0; i < n; ++i) text.push_back(static_cast<Token>((i * i * 7 + i * 3) % 500));
  return text;
}

TEST(Importance, counts_the_tokens_of_each_layer_and_sums_their_squares) {
  const auto engine = tiny_engine(128);
  uint64_t last = 0;
  const auto found = measure_importance(
      *engine, text_of(100),
      {.window = 40, .text = "t", .progress = [&](uint64_t done, uint64_t) { last = done; }});
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(last, 100u);
  EXPECT_EQ(found->chunks, 3u);
  const model::Config& config = engine->model().config();
  for (uint32_t layer = 0; layer < config.layer_count(); ++layer) {
    const auto of = [&](const char* name) {
      return found->tensors.at(fmt::format("blk.{}.{}.weight", layer, name));
    };
    for (const char* name :
         {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"})
      EXPECT_EQ(of(name).tokens, std::vector<float>{100}) << name;
    // These layers have the same inputs.
    EXPECT_EQ(of("attn_q").squares, of("attn_v").squares);
    EXPECT_EQ(of("ffn_gate").squares, of("ffn_up").squares);
    EXPECT_NE(of("ffn_gate").squares, of("attn_q").squares);
    EXPECT_EQ(of("ffn_down").squares.size(), config.layers[layer].ffn);
    // The output of a norm with weights of 1 has a mean square of about 1 over the columns.
    double sum = 0;
    for (const float square : of("attn_q").squares) sum += square;
    EXPECT_GT(sum / (100.0 * config.dim), 0.2);
    EXPECT_LT(sum / (100.0 * config.dim), 5.0);
  }
}

TEST(Importance, is_the_same_however_the_text_is_cut_where_no_row_is_lost) {
  const auto engine = tiny_engine(128);
  const auto whole = measure_importance(*engine, text_of(64), {.window = 64});
  const auto again = measure_importance(*engine, text_of(64), {.window = 128});
  ASSERT_TRUE(whole.ok() && again.ok());
  for (const auto& [name, sums] : whole->tensors)
    EXPECT_EQ(sums.squares, again->tensors.at(name).squares) << name;
}

TEST(Importance, refuses_nothing_to_read) {
  const auto engine = tiny_engine(128);
  EXPECT_FALSE(measure_importance(*engine, {}, {}).ok());
  EXPECT_FALSE(measure_importance(*engine, text_of(4), {.window = 0}).ok());
}

}  // namespace
}  // namespace kvick::engine
