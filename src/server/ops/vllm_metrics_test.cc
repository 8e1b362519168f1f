#include "server/ops/vllm_metrics.h"

#include <gtest/gtest.h>

namespace kvick::server {
namespace {

bool has(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(VllmMetrics, HaveTheNamesThatRoutersRead) {
  engine::Metrics metrics = {.waiting = 2, .running = 3, .preempted = 1};
  metrics.kv_limit_bytes = 1000;
  metrics.kv.allocated_bytes = 600;
  metrics.kv.cached_bytes = 350;
  metrics.token_bytes = 5;
  metrics.block_tokens = 4;
  metrics.prompt_tokens = 70;
  metrics.cached_tokens = 40;
  metrics.generated_tokens = 9;
  metrics.swaps = 1;
  metrics.recomputations = 4;
  const std::string text = vllm_metrics_text(metrics, "m");
  const std::string label = R"({model_name="m",engine="0"})";
  EXPECT_TRUE(has(text, "vllm:num_requests_waiting" + label + " 3")) << text;
  EXPECT_TRUE(has(text, "vllm:num_requests_running" + label + " 3")) << text;
  EXPECT_TRUE(has(text, "vllm:kv_cache_usage_perc" + label + " 0.25")) << text;
  EXPECT_TRUE(has(text,
                  "vllm:cache_config_info"
                  R"({model_name="m",engine="0",block_size="4",num_gpu_blocks="50"} 1)"))
      << text;
  EXPECT_TRUE(has(text, "# TYPE vllm:prefix_cache_hits_total counter")) << text;
  EXPECT_TRUE(has(text, "vllm:prefix_cache_queries_total" + label + " 70")) << text;
  EXPECT_TRUE(has(text, "vllm:prefix_cache_hits_total" + label + " 40")) << text;
  EXPECT_TRUE(has(text, "vllm:prompt_tokens_total" + label + " 70")) << text;
  EXPECT_TRUE(has(text, "vllm:generation_tokens_total" + label + " 9")) << text;
  EXPECT_TRUE(has(text, "vllm:num_preemptions_total" + label + " 5")) << text;
}

TEST(VllmMetrics, AreNumbersWithoutACache) {
  const std::string text = vllm_metrics_text({}, "m");
  EXPECT_NE(text.find("kv_cache_usage_perc{model_name=\"m\",engine=\"0\"} 0\n"), std::string::npos);
  EXPECT_EQ(text.find("nan"), std::string::npos);
}

TEST(VllmMetrics, EscapeAModelsName) {
  EXPECT_NE(vllm_metrics_text({}, "a\"b\\c\nd").find(R"(model_name="a\"b\\c\nd")"),
            std::string::npos);
}

}  // namespace
}  // namespace kvick::server
