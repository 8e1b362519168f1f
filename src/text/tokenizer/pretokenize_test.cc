#include "text/tokenizer/pretokenize.h"

#include <fstream>
#include <gtest/gtest.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <utf8proc.h>
#include <vector>

#include "base/testing/source_folder.h"
#include "text/unicode/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace kvick::text {
namespace {

// The oracle: the published expressions, run by PCRE2.
constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";

class Regex {
 public:
  explicit Regex(const char* pattern) {
    int error = 0;
    size_t at = 0;
    code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                          PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr);
    match_ = pcre2_match_data_create_from_pattern(code_, nullptr);
  }
  ~Regex() {
    pcre2_match_data_free(match_);
    pcre2_code_free(code_);
  }
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

  bool matches(const std::string& text) const {
    return pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0, match_,
                       nullptr) > 0;
  }

  // Returns the matches and the texts between them.
  std::vector<std::string> split(const std::string& text) const {
    std::vector<std::string> out;
    size_t at = 0;
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    while (at < text.size()) {
      const int found = pcre2_match(code_, subject, text.size(), at, 0, match_, nullptr);
      const size_t* ends = pcre2_get_ovector_pointer(match_);
      const size_t begin = found > 0 ? ends[0] : text.size();
      if (begin > at) out.push_back(text.substr(at, begin - at));
      if (found > 0) out.push_back(text.substr(begin, ends[1] - begin));
      at = found > 0 ? ends[1] : text.size();
    }
    return out;
  }

 private:
  pcre2_code* code_;
  pcre2_match_data* match_;
};

struct Case {
  const char* name;                   // name of the pre-tokenizer
  std::vector<const char*> patterns;  // each splits the stretches of the one before
};
const std::vector<Case> kCases = {
    {"gpt-2", {kGpt2Pattern}},
    {"smollm", {R"(\p{N})", kGpt2Pattern}},
    {"llama-bpe", {kLlama3Pattern}},
    {"qwen2", {kQwen2Pattern}},
    {"default", {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2Pattern, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
    {"falcon", {R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2Pattern, "[0-9][0-9][0-9]"}},
};

std::vector<std::string> oracle(const std::vector<std::unique_ptr<Regex>>& regexes,
                                const std::string& text) {
  std::vector<std::string> parts = {text};
  for (const auto& regex : regexes) {
    std::vector<std::string> next;
    for (const std::string& part : parts)
      for (std::string& piece : regex->split(part)) next.push_back(std::move(piece));
    parts = std::move(next);
  }
  return parts;
}

std::vector<std::string> scan(const char* name, std::string_view text) {
  std::vector<std::string> out;
  const PreTokenizerRun run(*find_pre_tokenizer(name));
  run(text, [&](std::string_view stretch) { out.emplace_back(stretch); });
  return out;
}

// PCRE2's \s includes U+180E, as Perl once did; no other engine here does. PCRE2 has Unicode 14, so
// the letters of Unicode 15 are unassigned to it.
bool differs_by_design(uint32_t code) {
  static const Regex unassigned(R"(\p{Cn})");
  std::string c;
  append_utf8(code, c);
  return code == 0x180E ||
         (utf8proc_category(static_cast<utf8proc_int32_t>(code)) != UTF8PROC_CATEGORY_CN &&
          unassigned.matches(c));
}

// Draws from characters that the rules treat together, and one of each class in several UTF-8
// lengths.
std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> kParts = {
      " ",      " ",      " ",      "  ",         "\n",         "\r",     "\r\n",   "\t",
      "\v",     "'",      "'s",     "'S",         "'ll",        "'Re",    "'vE",    "'d",
      "'M",     "'t",     "'x",     "'l",         "'\u017F",    "a",      "Zz",     "\u00E9",
      "\u0436", "\u4E2D", "\u0E01", "\U0001D400", "\u0301",     "1",      "12",     "3456",
      "\u0663", "\u00BD", "\u2167", "\U0001D7D9", ".",          ",",      "!?",     "$",
      "+",      "<",      "=",      "^",          "~",          "|",      "`",      "-",
      "_",      "\u00BF", "\u3002", "\u20AC",     "\U0001F600", "\u200D", "\u00A0", "\u2003",
      "\u2028", "\u3000", "\u0085", "\u200B",     "\uFEFF",     "\u0007", "\u007F", "\U000E0001",
      "\u0378"};
  std::string text;
  for (size_t n = 1 + random() % 24; n > 0; --n) {
    if (random() % 8 > 0) {
      text += kParts[random() % kParts.size()];
      continue;
    }
    uint32_t code = random() % (random() % 2 ? 0x3000 : 0x20000);
    if ((code >= 0xD800 && code < 0xE000) || differs_by_design(code)) code = 'x';
    append_utf8(code, text);
  }
  return text;
}

TEST(PreTokenize, CutsAsThePublishedExpressionsDo) {
  for (const Case& c : kCases) {
    std::vector<std::unique_ptr<Regex>> regexes;
    for (const char* pattern : c.patterns) regexes.push_back(std::make_unique<Regex>(pattern));
    for (uint32_t seed = 0; seed < 3000; ++seed) {
      std::mt19937 random(seed);
      const std::string text = random_text(random);
      ASSERT_EQ(scan(c.name, text), oracle(regexes, text)) << c.name << ", seed " << seed;
    }
  }
}

TEST(PreTokenize, ClassesOfAllCodePointsAreTheOnesOfPcre2) {
  const Regex letter(R"(\p{L})"), number(R"(\p{N})"), other(R"([^\s\p{L}\p{N}])"),
      punctuation(R"([\p{P}\$\+<=>\^~\|])");
  size_t letters = 0;
  for (uint32_t code = 1; code <= 0x10FFFF; code += code < 0x3400 ? 1 : code < 0x32000 ? 5 : 997) {
    if ((code >= 0xD800 && code < 0xE000) || differs_by_design(code)) continue;
    std::string c;
    append_utf8(code, c);
    // The text is one stretch if, and only if, the character is of its neighbours' class.
    ASSERT_EQ(scan("gpt-2", "x" + c + "x").size() == 1, letter.matches(c)) << std::hex << code;
    ASSERT_EQ(scan("gpt-2", "1" + c + "1").size() == 1, number.matches(c)) << std::hex << code;
    ASSERT_EQ(scan("gpt-2", "!" + c + "!").size() == 1, other.matches(c)) << std::hex << code;
    ASSERT_EQ(scan("default", "!" + c + "!").size() == 1, punctuation.matches(c))
        << std::hex << code;
    letters += letter.matches(c);
  }
  EXPECT_GT(letters, 20000u);
}

TEST(PreTokenize, StretchesOfAnyBytesAreTheText) {
  for (const PreTokenizer& pre : pre_tokenizers()) {
    const PreTokenizerRun run(pre);
    for (uint32_t seed = 0; seed < 1000; ++seed) {
      std::mt19937 random(seed);
      std::string text = random_text(random);
      for (int n = 0; n < 4; ++n) text[random() % text.size()] = static_cast<char>(random());
      std::string joined;
      run(text, [&](std::string_view stretch) {
        EXPECT_FALSE(stretch.empty());
        joined += stretch;
      });
      ASSERT_EQ(joined, text) << pre.name << ", seed " << seed;
    }
  }
}

// The expected cuts are those of Hugging Face's tokenizers, recorded by
// tests/reference/record_pretokenizers.py.
TEST(PreTokenize, CutsAsTheTokenizersLibraryDoes) {
  std::ifstream file(base::source_folder() + "/tests/reference/pretokenizers.json");
  const nlohmann::json recorded = nlohmann::json::parse(file);
  size_t names = 0;
  for (const auto& [name, texts] : recorded.items()) {
    ++names;
    ASSERT_NE(find_pre_tokenizer(name), nullptr) << name;
    for (const nlohmann::json& stretches : texts) {
      const auto expected = stretches.get<std::vector<std::string>>();
      std::string text;
      for (const std::string& stretch : expected) text += stretch;
      ASSERT_EQ(scan(name.c_str(), text), expected) << name;
    }
  }
  EXPECT_GT(names, 10u);
}

// The expected cuts follow from the expressions by hand.
TEST(PreTokenize, LineEndsDigitsAndApostrophesAreCutAsEachModelCutsThem) {
  using Parts = std::vector<std::string>;
  const char* const text = "a 1234.b\r\n\n c!!\n\u4E2D\u6587a";
  EXPECT_EQ(scan("spark2_5", text), (Parts{"a", " ", "1", "2", "3", "4", ".b", "\r", "\n", "\n",
                                           " c", "!!", "\n", "\u4E2D\u6587", "a"}));
  EXPECT_EQ(scan("hy_v4", text),
            (Parts{"a", " ", "123", "4", ".b", "\r\n\n", " c", "!!\n", "\u4E2D\u6587", "a"}));
  EXPECT_EQ(scan("ufakzeka", "\u0130zmir'de 12'si, x's\n\n y"),
            (Parts{"\u0130zmir", "'de", " ", "1", "2", "'si", ",", " x", "'s", "\n\n", " y"}));
}

TEST(PreTokenize, AStrayByteIsACharacterThatIsNoLetter) {
  const std::vector<std::string> expected = {"a", "\xFF\xE2\x82", "b"};
  EXPECT_EQ(scan("gpt-2",
                 "a\xFF\xE2\x82"
                 "b"),
            expected);
}

TEST(PreTokenize, LongRunsTakeLinearTime) {
  for (const char* unit : {"a", " ", "\n", "1", "!", " \n", "'s", "\u00A0", "\xFF"}) {
    std::string text;
    while (text.size() < 1 << 16) text += unit;
    for (const PreTokenizer& pre : pre_tokenizers()) {
      size_t bytes = 0;
      PreTokenizerRun{pre}(text, [&](std::string_view stretch) { bytes += stretch.size(); });
      ASSERT_EQ(bytes, text.size());
    }
  }
}

TEST(PreTokenize, KnowsItsNamesAndNoOthers) {
  EXPECT_NE(find_pre_tokenizer("smollm"), nullptr);
  EXPECT_NE(find_pre_tokenizer(""), nullptr);
  EXPECT_EQ(find_pre_tokenizer("smol"), nullptr);
  EXPECT_NE(pre_tokenizer_names().find("llama-bpe, "), std::string::npos);
}

}  // namespace
}  // namespace kvick::text
