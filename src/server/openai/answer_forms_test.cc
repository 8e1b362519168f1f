#include "server/openai/answer_forms.h"

#include <cmath>
#include <gtest/gtest.h>

#include "server/testing/api.h"
#include "text/tokenizer/test_vocabulary.h"

namespace kvick::server {
namespace {

class AnswerForms : public testing::Test {
 protected:
  AnswerForms() {
    text::Vocabulary v = text::byte_vocabulary({});
    text::add_piece(v, "</s>", text::TokenKind::kControl);
    v.eos = 256;
    tokenizer_ = text::make(std::move(v));
    forms_ = answer_forms(*tokenizer_);
  }

  bool takes(const Json& format, std::string_view answer) {
    const auto made = forms_(format);
    EXPECT_TRUE(made.ok()) << format;
    const auto form = (*made)->clone();
    for (const char byte : answer) {
      std::vector<float> logits(257, 1.0F);
      form->mask(logits);
      if (std::isinf(logits[static_cast<uint8_t>(byte)])) return false;
      form->accept(static_cast<uint8_t>(byte));
    }
    return form->complete();
  }

  std::unique_ptr<text::Tokenizer> tokenizer_;
  MakeConstraint forms_;
};

TEST_F(AnswerForms, AreMadeOfEachFormat) {
  EXPECT_TRUE(takes({{"type", "json_object"}}, "{}"));
  EXPECT_TRUE(takes({{"type", "json_schema"}, {"json_schema", {{"schema", {{"const", 1}}}}}}, "1"));
  EXPECT_TRUE(takes({{"type", "regex"}, {"value", "a+b"}}, "aab"));
  EXPECT_FALSE(takes({{"type", "regex"}, {"value", "a+b"}}, "b"));
  EXPECT_TRUE(takes({{"type", "grammar"}, {"grammar", "root ::= [xy]+"}}, "xyx"));
  EXPECT_TRUE(takes({{"type", "choice"}, {"choice", {"no", "yes"}}}, "yes"));
  EXPECT_FALSE(takes({{"type", "choice"}, {"choice", {"no", "yes"}}}, "ye"));
}

TEST_F(AnswerForms, KeepTheLastOnes) {
  const auto format = [](int i) {
    return Json({{"type", "regex"}, {"value", fmt::format("{}", i)}});
  };
  const auto first = forms_(format(0)).value();
  EXPECT_EQ(forms_(format(0)).value(), first);
  for (int i = 1; i < 8; ++i) ASSERT_TRUE(forms_(format(i)).ok());
  EXPECT_EQ(forms_(format(0)).value(), first);
  for (int i = 1; i < 9; ++i) ASSERT_TRUE(forms_(format(i)).ok());
  EXPECT_NE(forms_(format(0)).value(), first);
}

TEST_F(AnswerForms, SayWhatIsWrongWithAText) {
  const auto made = forms_({{"type", "grammar"}, {"grammar", "root ::= ("}});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().message,
            "the grammar cannot be read: line 1, column 10: a group is not closed");
}

TEST_F(ApiTest, AllowsOnlyTheTokensOfAList) {
  constexpr const char* kPath = "/v1/completions";
  posted(kPath, R"({"prompt":"x","allowed_token_ids":[5,7]})");
  posted("/v1/chat/completions",
         R"({"messages":[{"role":"user","content":"Hi"}],"allowed_token_ids":[7,5,5]})");
  ASSERT_EQ(service_.jobs.size(), 2U);
  for (const engine::Job& job : service_.jobs) {
    ASSERT_NE(job.constraint, nullptr);
    std::vector<float> logits(512, 1.0F);
    job.constraint->clone()->mask(logits);
    for (size_t i = 0; i < logits.size(); ++i)
      EXPECT_EQ(std::isinf(logits[i]), i != 5 && i != 7) << i;
  }
  const auto wrong = [&](const char* more) {
    return posted(kPath, fmt::format(R"({{"prompt":"x",{}}})", more).c_str()).json()["error"];
  };
  EXPECT_EQ(wrong(R"("allowed_token_ids":[511,512])")["param"], "allowed_token_ids");
  EXPECT_EQ(wrong(R"("allowed_token_ids":[5],"guided_regex":"a")")["param"], "allowed_token_ids");
  EXPECT_EQ(wrong(R"("allowed_token_ids":[5],"min_tokens":2)")["param"], "min_tokens");
  EXPECT_EQ(wrong(R"("allowed_token_ids":[5],"ignore_eos":true)")["param"], "ignore_eos");
  EXPECT_EQ(wrong(R"("allowed_token_ids":[5],"bad_words":["a"])")["param"], "bad_words");
  std::string many = "5";
  for (int i = 0; i < 512; ++i) many += ",5";
  EXPECT_EQ(wrong(fmt::format(R"("allowed_token_ids":[{}])", many).c_str())["param"],
            "allowed_token_ids");
  EXPECT_EQ(service_.jobs.size(), 2U);
}

TEST_F(ApiTest, RefusesFieldsThatExcludeEachOtherByTheirNamesInTheRequest) {
  const auto wrong = [&](const char* path, const char* fields) {
    const Json error = posted(path, fields).json()["error"];
    EXPECT_NE(error["message"].get<std::string>().find("leave"), std::string::npos) << error;
    return error["param"];
  };
  constexpr const char* kTexts = "/v1/completions";
  EXPECT_EQ(wrong(kTexts, R"({"prompt":"x","use_beam_search":true,"n":2,"logprobs":1})"),
            "logprobs");
  EXPECT_EQ(wrong(kTexts, R"({"prompt":"x","use_beam_search":true,"n":2,
                              "response_format":{"type":"json_object"}})"),
            "response_format");
  EXPECT_EQ(wrong(kTexts, R"({"prompt":"x","ignore_eos":true,
                              "response_format":{"type":"json_object"}})"),
            "ignore_eos");
  EXPECT_EQ(wrong("/v1/chat/completions",
                  R"({"messages":[{"role":"user","content":"Hi"}],"use_beam_search":true,"n":2,
                      "tools":[{"type":"function","function":{"name":"f"}}],
                      "tool_choice":"required"})"),
            "tools");
  EXPECT_TRUE(service_.jobs.empty());
}

// Ends a job that reports the first three tokens of its prompt, and one token of its answer.
void report_and_end(const engine::Job& job) {
  const engine::Token third = job.prompt.at(2);
  engine::AnswerPiece reports = {.choice = 0, .of_prompt = true};
  reports.tokens = {{.chosen = {job.prompt[0], NAN}, .top = {}},
                    {.chosen = {job.prompt[1], -3}, .top = {{300, -1}, {301, -2}}},
                    {.chosen = {third, -1}, .top = {{third, -1}, {300, -INFINITY}}}};
  job.on_piece(reports);
  job.on_piece({.text = "c",
                .tokens = {{.chosen = {302, -2}, .top = {{302, -2}, {303, -3}}}},
                .finish = engine::Finish::kLength});
  job.on_end({});
}

TEST_F(ApiTest, ReportsThePromptsLogprobsInVllmsForm) {
  Seen seen;
  post(seen, "/v1/completions", R"({"prompt":[1,2,3],"prompt_logprobs":2,"logprobs":1})");
  ASSERT_EQ(service_.jobs.size(), 1U);
  EXPECT_TRUE(service_.jobs[0].prompt_logprobs);
  EXPECT_EQ(service_.jobs[0].logprobs, 2U);
  report_and_end(service_.jobs[0]);
  const Json choice = seen.json()["choices"][0];
  const Json& prompt = choice["prompt_logprobs"];
  ASSERT_EQ(prompt.size(), 3U);
  EXPECT_TRUE(prompt[0].is_null());
  ASSERT_EQ(prompt[1].size(), 3U);
  EXPECT_EQ(prompt[1]["2"]["logprob"], -3.0);
  EXPECT_TRUE(prompt[1]["2"]["rank"].is_null());  // not among the two likeliest
  EXPECT_EQ(prompt[1]["2"]["decoded_token"], test_engine().tokenizer().piece(2, true));
  EXPECT_EQ(prompt[1]["300"]["rank"], 1);
  EXPECT_EQ(prompt[1]["301"]["rank"], 2);
  EXPECT_EQ(prompt[1]["301"]["logprob"], -2.0);
  ASSERT_EQ(prompt[2].size(), 2U);
  EXPECT_EQ(prompt[2]["3"]["rank"], 1);
  EXPECT_EQ(prompt[2]["300"]["logprob"], -9999.0);
  // The answer's own are as without the field.
  EXPECT_EQ(choice["logprobs"]["token_logprobs"], Json::parse("[-2.0]"));
  EXPECT_EQ(choice["logprobs"]["top_logprobs"][0].size(), 1U);
  EXPECT_EQ(choice["text"], "c");
}

TEST_F(ApiTest, ReportsTheLogprobsOfAChatsPromptBesideItsChoices) {
  Seen seen, plain;
  post(seen, "/v1/chat/completions",
       R"({"messages":[{"role":"user","content":"Hi"}],"prompt_logprobs":0})");
  ASSERT_EQ(service_.jobs.size(), 1U);
  report_and_end(service_.jobs[0]);
  const Json prompt = seen.json()["prompt_logprobs"];
  ASSERT_EQ(prompt.size(), 3U);
  EXPECT_EQ(prompt[1].size(), 1U);  // the token itself
  EXPECT_TRUE(seen.json()["choices"][0]["logprobs"].is_null());
  post(plain, "/v1/chat/completions", kHello);
  answer(1), end(1);
  EXPECT_FALSE(plain.json().contains("prompt_logprobs"));
  EXPECT_FALSE(service_.jobs[1].prompt_logprobs);
}

}  // namespace
}  // namespace kvick::server
