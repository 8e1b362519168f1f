#include "server/openai/answer_forms.h"

#include <cmath>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace kvick::server
