#include "text/unicode/nfc.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <utf8proc.h>
#include <vector>

#include "text/unicode/utf8.h"

namespace kvick::text {
namespace {

// The definition, for valid UTF-8.
std::string defined(const std::string& text) {
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> form(
      utf8proc_NFC(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str())), &std::free);
  return reinterpret_cast<const char*>(form.get());
}

std::string form_of(const std::string& text) { return to_nfc(text).value_or(text); }

std::string text_of(std::initializer_list<uint32_t> codes) {
  std::string out;
  for (const uint32_t code : codes) append_utf8(code, out);
  return out;
}

TEST(Nfc, ComposesWhatHasAComposedForm) {
  EXPECT_EQ(to_nfc("cafe\u0301!"), "caf\u00e9!");
  EXPECT_EQ(to_nfc("\u1112\u1161\u11ab"), "\ud55c");    // letters of Hangul
  EXPECT_EQ(to_nfc("\ud558\u11ab"), "\ud55c");          // a syllable and a letter
  EXPECT_EQ(to_nfc("\u304b\u3099"), "\u304c");          // kana with a voiced mark
  EXPECT_EQ(to_nfc("\u212b \u2126"), "\u00c5 \u03a9");  // signs that are letters
  EXPECT_EQ(to_nfc("\u0958"), "\u0915\u093c");          // excluded from composition
  EXPECT_EQ(to_nfc("a\u0301\u0316"), "\u00e1\u0316");   // marks are sorted
  EXPECT_EQ(to_nfc("\u09c7\u09be"), "\u09cb");          // a mark of class 0
}

TEST(Nfc, LeavesATextInThatForm) {
  for (const char* text :
       {"", "plain text, longer than eight bytes", "d\u00e9j\u00e0 vu", "\u0439\u0451",
        "\u65e5\u672c\u8a9e\u304c", "\ud55c\uad6d\uc5b4", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
        "\u1ec7", "x\u0301", "\xff\xe2\x82"})
    EXPECT_FALSE(to_nfc(text).has_value()) << text;
}

TEST(Nfc, KeepsBytesThatAreNotUtf8AndComposesNothingAcrossThem) {
  EXPECT_EQ(to_nfc("\xff"
                   "e\u0301\xe2\x82"),
            "\xff\u00e9\xe2\x82");
  EXPECT_FALSE(to_nfc("e\xff\u0301").has_value());
}

TEST(Nfc, EachCharacterHasTheFormOfTheDefinition) {
  for (uint32_t code = 1; code <= 0x10FFFF; code += code < 0x3400 ? 1 : code < 0x20000 ? 3 : 97) {
    if (code >= 0xD800 && code < 0xE000) continue;
    for (const std::string& text :
         {text_of({code}), text_of({'e', code, 0x301}), text_of({code, 0x327, 0x301}),
          text_of({0x9C7, code}), text_of({0x1100, code, 0x11A8})})
      ASSERT_EQ(form_of(text), defined(text)) << std::hex << code;
  }
}

TEST(Nfc, RandomTextsHaveTheFormOfTheDefinition) {
  const std::vector<uint32_t> codes = {
      'a',    'e',    ' ',    0xE9,   0x300,  0x301,  0x308,  0x316,   0x323,   0x327,
      0x345,  0x3B1,  0x1F00, 0x439,  0x915,  0x93C,  0x958,  0x9C7,   0x9BE,   0x9D7,
      0xDD9,  0xDCA,  0xDCF,  0xE31,  0x1100, 0x1161, 0x11A8, 0xAC00,  0xAC01,  0x304B,
      0x3099, 0x4E2D, 0x212B, 0xFB1D, 0xF900, 0x2ADC, 0x1EC7, 0x1D15E, 0x11131, 0x11127};
  for (uint32_t seed = 0; seed < 5000; ++seed) {
    std::mt19937 random(seed);
    std::string text;
    for (size_t n = 1 + random() % 12; n > 0; --n)
      append_utf8(codes[random() % codes.size()], text);
    ASSERT_EQ(form_of(text), defined(text)) << "seed " << seed;
  }
}

TEST(Nfc, ManyMarksBehindOneLetterAreNotQuadratic) {
  constexpr size_t kPairs = 1 << 17;
  std::string text = "e";
  for (size_t i = 0; i < kPairs; ++i) text += "\u0301\u0316";
  const std::string form = form_of(text);
  EXPECT_TRUE(form.starts_with("\u00e9\u0316\u0316"));
  EXPECT_EQ(form.size(), text.size() - 1);  // "e" and the first U+0301 became two bytes
  EXPECT_TRUE(form.ends_with("\u0301\u0301"));
}

}  // namespace
}  // namespace kvick::text
