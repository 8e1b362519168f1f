#include "server/request/json.h"

#include <gtest/gtest.h>

namespace kvick::server {
namespace {

std::string parsed(std::string_view text) {
  const auto json = parse_json(text);
  return json.ok() ? to_text(*json) : json.error().message;
}

TEST(RequestJson, KeepsValuesAndTheOrderOfFields) {
  for (const char* text :
       {R"({"b":1,"a":[true,null,-2,0.5,"é\u0001"],"c":{}})", "[]", "18446744073709551615", "\"\""})
    EXPECT_EQ(parsed(text), to_text(Json::parse(text)));
}

TEST(RequestJson, TakesTheLastOfFieldsWithOneName) {
  EXPECT_EQ(parsed(R"({"a":1,"b":2,"a":3,"a":4})"), R"({"b":2,"a":4})");
}

TEST(RequestJson, ReadsAnObjectOfManyFieldsWithoutComparingEachWithEach) {
  std::string text = "{";
  for (int i = 0; i < 300'000; ++i) text += fmt::format("\"{}\":0,", i);
  const auto json = parse_json(text + "\"last\":1}");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json->size(), 300'001U);
}

TEST(RequestJson, RefusesWhatIsNotJsonWithoutACrash) {
  const std::string deep(1'000'000, '[');
  EXPECT_EQ(parsed(deep), "it is nested more than 64 deep");
  EXPECT_EQ(parsed(""), "it is not valid JSON at byte 1");
  EXPECT_EQ(parsed("[1e999]"), "a number before byte 6 is too large");
  for (const char* text :
       {"{", "{\"a\":}", "[1,]", "\"\xff\"", "\"\xed\xa0\x80\"", "nul", "1 2", "\"\\ud80\""})
    EXPECT_TRUE(parsed(text).starts_with("it is not valid JSON at byte")) << parsed(text);
  EXPECT_FALSE(parse_json(std::string_view("\0", 1)).ok());
}

TEST(RequestJson, TakesAnEscapedSurrogateWithoutItsPartnerAsAReplacementCharacter) {
  EXPECT_EQ(parsed(R"({"a":"cut \ud83d"})"), "{\"a\":\"cut \xef\xbf\xbd\"}");
  EXPECT_EQ(parsed(R"({"\uDE00":"\ud83dx"})"), "{\"\xef\xbf\xbd\":\"\xef\xbf\xbdx\"}");
  // A lone surrogate next to a pair, another escape, and an escaped backslash.
  EXPECT_EQ(parsed(R"("\ud83d\ud83d\ude00")"), "\"\xef\xbf\xbd\xf0\x9f\x98\x80\"");
  EXPECT_EQ(parsed(R"("\ud83d\n\\ud83d")"), "\"\xef\xbf\xbd\\n\\\\ud83d\"");
}

TEST(RequestJson, FindsAMistakeBesideALoneSurrogateWhereItIs) {
  EXPECT_EQ(parsed(R"(["\ud83d",])"), "it is not valid JSON at byte 11");
  EXPECT_EQ(parsed(R"([,"\ud83d"])"), "it is not valid JSON at byte 2");
  EXPECT_EQ(parsed(R"([\ud83d])"), "it is not valid JSON at byte 2");
  EXPECT_EQ(parsed(R"(["\ud83d",1e999])"), "a number before byte 15 is too large");
}

TEST(RequestJson, WritesBytesThatAreNoUtf8AsReplacementCharacters) {
  EXPECT_EQ(to_text(Json("a\xff")), "\"a\xef\xbf\xbd\"");
}

}  // namespace
}  // namespace kvick::server
