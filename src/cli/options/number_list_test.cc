#include "cli/options/number_list.h"

#include <gtest/gtest.h>

namespace kvick::cli {
namespace {

using Numbers = std::vector<uint32_t>;

std::string refusal(std::string_view text, const NumberRange& range = {}) {
  const auto numbers = parse_numbers("-p", text, range);
  return numbers.ok() ? "" : numbers.error().message;
}

TEST(ParseNumbers, TakesOneOrMoreInTheirOrder) {
  EXPECT_EQ(parse_numbers("-p", "512", {}).value(), Numbers{512});
  EXPECT_EQ(parse_numbers("-p", "512,0,4294967295", {}).value(), (Numbers{512, 0, 4294967295}));
  EXPECT_EQ(parse_numbers("-p", "0", {.zero_means_none = true}).value(), Numbers{0});
}

TEST(ParseNumbers, RefusesWhatIsNoListOfNumbers) {
  for (const char* text :
       {"", ",", "1,", ",1", "1,,2", "1 ,2", "1, 2", "x", "1x", "-1", "+1", "1.5", "0x10", "1;2"})
    EXPECT_NE(refusal(text).find("is no number"), std::string::npos) << text;
  EXPECT_EQ(refusal("4,x"),
            "-p '4,x': 'x' is no number; give numbers with commas between them, as in 1,2");
}

TEST(ParseNumbers, RefusesNumbersOutOfRange) {
  EXPECT_EQ(refusal("1,0", {.low = 1, .high = 8}), "-p '1,0': 0 is not from 1 to 8");
  EXPECT_EQ(refusal("9", {.low = 1, .high = 8}), "-p '9': 9 is not from 1 to 8");
  EXPECT_NE(refusal("99999999999999999999").find("is not from 0 to 4294967295"), std::string::npos);
}

TEST(ParseNumbers, RefusesListsThatContradictThemselves) {
  EXPECT_NE(refusal("7,8,7").find("7 is there twice"), std::string::npos);
  EXPECT_NE(refusal("0,8", {.zero_means_none = true}).find("0 means none"), std::string::npos);
}

TEST(ParseNumbers, RefusesEndlessLists) {
  std::string text = "0";
  for (size_t i = 1; i < kMostNumbers; ++i) text += "," + std::to_string(i);
  EXPECT_EQ(parse_numbers("-p", text, {}).value().size(), kMostNumbers);
  EXPECT_NE(refusal(text + ",1000").find("more than 64"), std::string::npos);
}

}  // namespace
}  // namespace kvick::cli
