#include "server/ops/model_samples.h"

#include <gtest/gtest.h>

#include "server/ops/metrics_text.h"
#include "server/ops/vllm_metrics.h"

namespace kvick::server {
namespace {

TEST(ModelSamples, AreInOneFamilyWithALabelOfTheirModel) {
  const std::string head = "# HELP kvick_jobs Jobs.\n# TYPE kvick_jobs gauge\n";
  const std::string own = "# HELP vllm:x X.\n# TYPE vllm:x gauge\n";
  const ModelSamples models[] = {
      {.model = "a",
       .text = head + "kvick_jobs{state=\"waiting\"} 1\nkvick_jobs 2\n" + own +
               "vllm:x{model_name=\"a\"} 3\n"},
      {.model = "b\"", .text = own + "vllm:x{model_name=\"b\"} 4\n" + head + "kvick_jobs 5\n"}};
  EXPECT_EQ(merged_samples(models),
            head +
                "kvick_jobs{model=\"a\",state=\"waiting\"} 1\nkvick_jobs{model=\"a\"} 2\n"
                "kvick_jobs{model=\"b\\\"\"} 5\n" +
                own + "vllm:x{model_name=\"a\"} 3\nvllm:x{model_name=\"b\"} 4\n");
}

TEST(ModelSamples, AreAllThereAndEachFamilyOnce) {
  const engine::Metrics metrics = {.waiting = 1};
  const auto lines = [](const std::string& text, const std::string& with) {
    size_t count = 0;
    for (size_t at = 0; (at = text.find(with, at)) != std::string::npos; ++at) ++count;
    return count;
  };
  const std::string one = service_metrics_text(metrics) + vllm_metrics_text(metrics, "m");
  const ModelSamples models[] = {{.model = "m", .text = one}, {.model = "n", .text = one}};
  const std::string both = merged_samples(models);
  EXPECT_EQ(lines(both, "# HELP "), lines(one, "# HELP "));
  const size_t heads = 2 * lines(one, "# HELP ");
  EXPECT_EQ(lines(both, "\n") - heads, 2 * (lines(one, "\n") - heads));
}

}  // namespace
}  // namespace kvick::server
