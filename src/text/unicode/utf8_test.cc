#include "text/unicode/utf8.h"

#include <gtest/gtest.h>
#include <random>

#include "text/unicode/classes.h"

namespace kvick::text {
namespace {

// The definition: a character is valid if encoding its bits again gives the same bytes.
uint32_t naive_length(std::string_view text) {
  for (size_t length = 1; length <= 4 && length <= text.size(); ++length) {
    const auto first = static_cast<uint8_t>(text[0]);
    uint32_t code = length == 1 ? first : first & (0xFF >> (length + 1));
    for (size_t i = 1; i < length; ++i) code = code << 6 | (static_cast<uint8_t>(text[i]) & 0x3F);
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) continue;
    std::string again;
    append_utf8(code, again);
    if (again == text.substr(0, length)) return length;
  }
  return 0;
}

TEST(Utf8, DecodesJustWhatEncodingGives) {
  std::mt19937 random(1);
  for (uint32_t code = 0; code <= 0x10FFFF; code += code < 0x3000 ? 1 : 1 + random() % 61) {
    if (code >= 0xD800 && code < 0xE000) continue;
    std::string text;
    append_utf8(code, text);
    const Utf8 got = decode_utf8(text);
    ASSERT_TRUE(got.valid && got.code == code && got.bytes == text.size()) << code;
  }
}

TEST(Utf8, RefusesWhatIsNotUtf8) {
  std::mt19937 random(2);
  const std::string bytes =
      "\x41\x7F\x80\x8F\x90\x9F\xA0\xBF\xC0\xC1\xC2\xDF\xE0\xE1\xED\xEF\xF0\xF1\xF4\xF5\xFF";
  for (int round = 0; round < 200000; ++round) {
    std::string text;
    for (size_t n = 1 + random() % 4; n > 0; --n) text += bytes[random() % bytes.size()];
    const Utf8 got = decode_utf8(text);
    ASSERT_EQ(got.valid ? got.bytes : 0u, naive_length(text)) << round;
    ASSERT_TRUE(got.bytes >= 1 && got.bytes <= text.size());
    ASSERT_TRUE(!got.cut || got.bytes == text.size());
  }
}

TEST(Utf8, DrainsWholeCharactersAndKeepsTheStartOfOne) {
  std::string bytes = "a\xC3\xA9\xE2\x82", out;
  drain_utf8(bytes, false, out);
  EXPECT_EQ(out, "a\xC3\xA9");
  EXPECT_EQ(bytes, "\xE2\x82");
  drain_utf8(bytes, true, out);
  EXPECT_EQ(out, "a\xC3\xA9\xEF\xBF\xBD");
  EXPECT_TRUE(bytes.empty());
}

// Unicode 15, section 3.9, table 3-8.
TEST(Utf8, ReplacesEachLongestStartOfACharacterOnce) {
  std::string bytes = "\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64", out;
  drain_utf8(bytes, false, out);
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(out, "a" + r + r + r + "b" + r + "c" + r + r + "d");
}

TEST(Classes, WordsAreLettersMarksDigitsAndWhatJoinsThem) {
  for (const uint32_t code : {0x61u, 0xE9u, 0x4E2Du, 0x301u, 0x93Fu, 0x30u, 0x663u, 0x2160u, 0x5Fu,
                              0x203Fu, 0x200Du, 0x24B6u})
    EXPECT_TRUE(is_word_character(code)) << std::hex << code;
  for (const uint32_t code : {0x20u, 0x2Du, 0x3Cu, 0xBDu, 0xB2u, 0x2460u, 0x3002u, 0x1F600u})
    EXPECT_FALSE(is_word_character(code)) << std::hex << code;
}

TEST(Classes, TheLastCharacterIsWholeOrAStrayByte) {
  EXPECT_EQ(last_character_bytes("xa"), 1u);
  EXPECT_EQ(last_character_bytes("a\u00e9"), 2u);
  EXPECT_EQ(last_character_bytes("\u3000"), 3u);
  EXPECT_EQ(last_character_bytes("\U0001F600"), 4u);
  EXPECT_EQ(last_character_bytes("\u3000\x80"), 1u);
  EXPECT_EQ(last_character_bytes("\x80"), 1u);
}

}  // namespace
}  // namespace kvick::text
