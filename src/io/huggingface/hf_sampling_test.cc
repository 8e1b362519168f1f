#include "io/huggingface/hf_sampling.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvick::io {
namespace {

using nlohmann::json;

TEST(HfSampling, TakesTheNumbersOfTheGenerationConfig) {
  const std::string text = json({{"do_sample", true},
                                 {"temperature", 0.5},
                                 {"top_k", 20},
                                 {"top_p", nullptr},
                                 {"repetition_penalty", 1.25}})
                               .dump();
  Metadata out;
  ASSERT_TRUE(map_sampling({"generation_config.json", text}, out).ok());
  EXPECT_EQ(out.size(), 3U);
  EXPECT_EQ(std::get<double>(out.at("general.sampling.temp").data), 0.5);
  EXPECT_EQ(std::get<int64_t>(out.at("general.sampling.top_k").data), 20);
  EXPECT_EQ(std::get<double>(out.at("general.sampling.penalty_repeat").data), 1.25);
}

TEST(HfSampling, NamesAFieldThatIsNoNumber) {
  Metadata out;
  const auto wrong = map_sampling({"generation_config.json", R"({"top_p": "high"})"}, out);
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message.find("top_p"), std::string::npos);
  EXPECT_TRUE(map_sampling({"generation_config.json", ""}, out).ok());
  EXPECT_TRUE(out.empty());
}

TEST(HfSampling, TakesTheTokensThatAnswersDoNotHave) {
  using Ints = std::vector<int64_t>;
  Metadata out;
  const std::string text = R"({"suppress_tokens": [7, 2], "begin_suppress_tokens": [5]})";
  ASSERT_TRUE(map_sampling({"generation_config.json", text}, out).ok());
  EXPECT_EQ(out.size(), 2U);
  EXPECT_EQ(std::get<Ints>(out.at("tokenizer.ggml.suppress_tokens").data), (Ints{7, 2}));
  EXPECT_EQ(std::get<Ints>(out.at("kvick.begin_suppress_tokens").data), Ints{5});
  out.clear();
  const std::string none = R"({"suppress_tokens": null, "begin_suppress_tokens": []})";
  EXPECT_TRUE(map_sampling({"generation_config.json", none}, out).ok());
  EXPECT_TRUE(out.empty());
  const auto wrong = map_sampling({"generation_config.json", R"({"suppress_tokens": ["a"]})"}, out);
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message.find("'suppress_tokens' must hold the numbers of tokens"),
            std::string::npos)
      << wrong.error().message;
}

}  // namespace
}  // namespace kvick::io
