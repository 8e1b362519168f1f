#include "plan/forecast/predict.h"

#include <gtest/gtest.h>

#include "plan/forecast/test_attention.h"

namespace kvick::plan {
namespace {

double g_now = 0;
double ticking() { return g_now += 1; }

// Predictors with a clock that advances one second per reading, so that all measurements are known.
struct Planned {
  explicit Planned(const std::string& spec) : m(spec, 1) {
    size = parse_shape(
               "layers=2,heads=4,kv_heads=2,head_dim=32,dim=64,ffn=96,vocab=40,context=1000000")
               .value();
    m.setup.shape.max_tokens = 48;
  }
  Predictor::Setting setting(const char* measured = "upfront") const {
    return {.model = size,
            .spec = *kv::parse_spec(measured),
            .setup = m.setup,
            .rates = {.copy_bytes_s = 1e6, .growth_s = 0, .attention_bytes_s = 0},
            .tokens = 32,
            .prefill_chunk = 16};
  }
  Predictor predictor(uint32_t batch = 1, uint64_t most_bytes = 1 << 30,
                      const char* measured = "upfront", double most_products = 1e11) {
    Predictor::Setting wanted = setting(measured);
    wanted.batch = batch, wanted.most_bytes = most_bytes, wanted.most_products = most_products;
    return Predictor::measure(wanted, {m.pool, m.workspace.kernels}, ticking).value();
  }
  Machinery m;
  ModelSize size;
};

TEST(Predictor, TakesASampleOfTheLayersAsManyTimesAsThereAreMore) {
  Planned planned("upfront");
  EXPECT_NEAR(planned.predictor().token(32).layers, 1, 1e-9);  // both layers, in one second
  EXPECT_NEAR(planned.predictor(1, 40 << 10).token(32).layers, 2, 0.1);
  EXPECT_EQ(planned.predictor().token(32).attention, 0);
}

TEST(Predictor, TakesFewerLayersIfAttentionTakesLong) {
  Planned planned("upfront");
  // A chunk of 16 tokens behind 32 rows: 4 heads, 32 + 32 multiplications a row.
  const double layer = 16 * 32 * 4 * (32 + 32);
  EXPECT_NEAR(planned.predictor(1, 1 << 30, "upfront", 2.5 * layer).token(32).layers, 1, 1e-9);
  EXPECT_NEAR(planned.predictor(1, 1 << 30, "upfront", 1.5 * layer).token(32).layers, 2, 0.1);
  EXPECT_NEAR(planned.predictor(1, 1 << 30, "upfront", 1).token(32).layers, 2, 0.1);
  // A step of one token for each of eight sequences counts as ten such steps, so as 80 tokens: five
  // chunks.
  EXPECT_NEAR(planned.predictor(8, 1 << 30, "upfront", 9 * layer).token(32).layers, 2, 0.1);
  EXPECT_NEAR(planned.predictor(8, 1 << 30, "upfront", 11 * layer).token(32).layers, 1, 1e-9);
}

decltype(kernels::Table::attend_chunk) g_attend = nullptr;
uint32_t g_most_rows = 0;

// Returns behind how many rows a chunk of a prompt of 32 tokens is measured at most.
uint32_t measured_rows(double most_products, uint32_t prompt_rows) {
  Planned planned("upfront");
  kernels::Table table = planned.m.workspace.kernels;
  g_attend = table.attend_chunk, g_most_rows = 0;
  table.attend_chunk = [](const kernels::View& view, const kernels::Queries& queries,
                          uint32_t chunk, kernels::Partial out, float* probs) {
    if (queries.tokens > 1) {
      uint32_t rows = 0;
      for (const kernels::Segment& segment : view.past) rows += kernels::rows_of(segment);
      g_most_rows = std::max(g_most_rows, rows);
    }
    g_attend(view, queries, chunk, out, probs);
  };
  Predictor::Setting setting = planned.setting();
  setting.most_products = most_products, setting.prompt_rows = prompt_rows;
  const auto predictor = Predictor::measure(setting, {planned.m.pool, table}, ticking);
  EXPECT_TRUE(predictor.ok());
  return g_most_rows;
}

TEST(Predictor, MeasuresPromptsBehindFewerRowsIfAttentionTakesLong) {
  const double layer = 16 * 32 * 4 * (32 + 32);  // of a chunk behind 32 rows
  EXPECT_EQ(measured_rows(1e11, 4), 32u);
  EXPECT_EQ(measured_rows(0.6 * layer, 4), 16u);
  EXPECT_EQ(measured_rows(0.3 * layer, 4), 8u);
  EXPECT_EQ(measured_rows(1, 4), 4u);
  EXPECT_EQ(measured_rows(1, 64), 32u);
}

TEST(Predictor, AddsWhatAStrategyCopiesForAToken) {
  Planned planned("upfront");
  const Predictor predictor = planned.predictor();
  const double token_bytes = static_cast<double>(planned.m.setup.shape.token_bytes());
  EXPECT_EQ(predictor.token(32).copies, 0);
  // The next 64 tokens copy 32, 33, ... 95 rows.
  EXPECT_NEAR(predictor.token(32, *kv::parse_spec("iterative")).copies, 63.5 * token_bytes / 1e6,
              1e-9);
}

TEST(Predictor, TakesTheCopiesOfAStrategyThatAlwaysCopiesFromItsSteps) {
  Planned planned("upfront");
  const double token_bytes = static_cast<double>(planned.m.setup.shape.token_bytes());
  const Predictor predictor = planned.predictor(1, 1 << 30, "iterative");
  EXPECT_NEAR(predictor.token(32).copies, 1, 1e-9);  // making room took a second in every step
  EXPECT_EQ(predictor.token(32, *kv::parse_spec("upfront")).copies, 0);
  // By formula: the next 64 tokens copy 64 rows once.
  EXPECT_NEAR(predictor.token(32, *kv::parse_spec("bmc:r=64")).copies, token_bytes / 1e6, 1e-9);
  // A sample of half of the layers; 128 sequences, of which 64 are measured.
  EXPECT_NEAR(planned.predictor(1, 40 << 10, "iterative").token(32).copies, 2, 1e-9);
  EXPECT_NEAR(planned.predictor(128, 1 << 30, "iterative").token(32).copies, 2, 1e-9);
}

TEST(Predictor, TakesTheCopiesOfAStrategyThatSometimesCopiesByFormula) {
  Planned planned("upfront");
  const double token_bytes = static_cast<double>(planned.m.setup.shape.token_bytes());
  const Predictor predictor = planned.predictor(1, 1 << 30, "bmc:r=64");
  EXPECT_NEAR(predictor.token(32).copies, token_bytes / 1e6, 1e-9);
}

TEST(Predictor, MeasuresAFewOfManySequencesAndTokensAndTakesTheRestFromThere) {
  Planned planned("upfront");
  // 2^20 sequences of 2^24 tokens would be 2^55 bytes of rows.
  planned.m.setup.shape.max_tokens = 1 << 24;
  const auto measure = [&] {
    return Predictor::measure(
        {.model = planned.size,
         .spec = *kv::parse_spec("virtual"),
         .setup = planned.m.setup,
         .rates = {.copy_bytes_s = 1e6, .growth_s = 0, .attention_bytes_s = 0},
         .batch = 1 << 20,
         .tokens = 1 << 24,
         .prefill_chunk = 16,
         .most_bytes = 1 << 20},
        {planned.m.pool, planned.m.workspace.kernels});
  };
  double at_most = 0, at_fewer = 0;
  // A sample this short is measured again if another process hid what the rows cost.
  for (int i = 0; i < 50 && at_most == 0; ++i) {
    const auto predictor = measure();
    ASSERT_TRUE(predictor.ok()) << predictor.error().message;
    at_most = predictor->token(1 << 24).attention;
    at_fewer = predictor->token(1 << 20).attention;
  }
  EXPECT_GT(at_most, at_fewer);
}

// Layers with windows read no more rows than their window has.
TEST(Predictor, TakesForEachLayerTheRowsThatItSees) {
  Planned planned("upfront");
  planned.size = mixed_size();
  model::set_layers(planned.size.config, planned.m.setup);
  ASSERT_EQ(planned.m.setup.layers.size(), 9u);
  for (const uint64_t most_bytes : {uint64_t{1} << 30, uint64_t{100} << 10}) {
    const Predictor predictor = planned.predictor(1, most_bytes);
    EXPECT_GT(predictor.token(32).layers, 0);
    EXPECT_EQ(predictor.token(32).attention, 0);  // each forward takes one second
    EXPECT_GT(predictor.prefill_s(32), predictor.prefill_s(16));
  }
  EXPECT_NEAR(planned.predictor().token(32).layers, 1, 1e-9);
  const auto rates = measure_growth(planned.size.config, planned.m.setup, planned.m.workspace);
  ASSERT_TRUE(rates.ok()) << rates.error().message;
  EXPECT_GT(rates->copy_bytes_s, 0);
}

TEST(Predictor, TakesLongerForALongerPrompt) {
  Planned planned("upfront");
  const Predictor predictor = planned.predictor(3);
  EXPECT_GT(predictor.prefill_s(16), 0);
  EXPECT_GT(predictor.prefill_s(32), predictor.prefill_s(16));
  EXPECT_EQ(predictor.prefill_s(0), 0);
}

uint64_t g_products = 0;

TEST(Predictor, MeasuresPromptsByTheirArithmetic) {
  Planned planned("upfront");
  kernels::Table table = planned.m.workspace.kernels;
  table.round_tile = [](kernels::PromptActivations&, uint32_t) {};
  table.matmul_prompt = [](const kernels::Matrix&, const kernels::PromptActivations&, float*,
                           size_t, uint32_t, uint32_t) { ++g_products; };
  table.matmul_prompt_gated = nullptr;
  for (const model::Role role : {model::Role::kAnswer, model::Role::kPromptLayers}) {
    g_products = 0;
    Predictor::Setting setting = planned.setting();
    setting.prompt_role = role;
    const auto predictor = Predictor::measure(setting, {planned.m.pool, table}, ticking);
    ASSERT_TRUE(predictor.ok()) << predictor.error().message;
    EXPECT_EQ(g_products > 0, role == model::Role::kPromptLayers);
  }
}

}  // namespace
}  // namespace kvick::plan
