#include "text/grammar/number_grammar.h"

#include <gtest/gtest.h>
#include <random>

#include "text/schema/test_schema.h"

namespace kvick::text {
namespace {

TEST(NumberGrammar, BoundsOfIntegersAreExact) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    const int size = round % 2 == 0 ? 40 : 2500;
    const int a = static_cast<int>(random() % size) - size / 2,
              b = a + static_cast<int>(random() % size);
    const bool low_strict = random() % 2 != 0, high_strict = random() % 2 != 0;
    const Json schema = {{"type", "integer"},
                         {low_strict ? "exclusiveMinimum" : "minimum", a},
                         {high_strict ? "exclusiveMaximum" : "maximum", b}};
    if (b - a <= low_strict + high_strict) continue;
    SchemaTexts texts(schema.dump());
    for (int n = -size - 5; n <= 2 * size + 5; ++n)
      ASSERT_EQ(texts.takes(std::to_string(n)),
                n >= a + static_cast<int>(low_strict) && n <= b - static_cast<int>(high_strict))
          << schema << ": " << n;
  }
}

// Numbers of a few digits, compared with the bounds as doubles, which are exact enough for three
// decimal places.
TEST(NumberGrammar, BoundsOfFractionsAreExact) {
  std::mt19937 random(3);
  const auto draw = [&] { return (static_cast<int>(random() % 40000) - 20000) / 1000.0; };
  for (int round = 0; round < 100; ++round) {
    double a = draw(), b = draw();
    if (a > b) std::swap(a, b);
    if (b - a < 0.01) continue;
    const bool low_strict = random() % 2 != 0, high_strict = random() % 2 != 0;
    const Json schema = {{"type", "number"},
                         {low_strict ? "exclusiveMinimum" : "minimum", a},
                         {high_strict ? "exclusiveMaximum" : "maximum", b}};
    SchemaTexts texts(schema.dump());
    const auto check = [&](double n, int places) {
      const std::string text = fmt::format("{:.{}f}", n, places);
      const double value = std::stod(text);
      if (value == 0 && text[0] == '-') return;
      ASSERT_EQ(texts.takes(text),
                (low_strict ? value > a : value >= a) && (high_strict ? value < b : value <= b))
          << schema << ": " << text;
    };
    for (int i = 0; i < 300; ++i) check(draw(), static_cast<int>(random() % 5));
    for (const double edge : {a, b, 0.0})
      for (const double step : {0.0, 0.001, -0.001, 0.0001, -0.0001, 1.0, -1.0})
        for (const int places : {0, 3, 4, 6}) check(edge + step, places);
  }
}

TEST(NumberGrammar, OneSidedBoundsLeaveTheOtherSideOpen) {
  expect_texts(R"({"type": "number", "minimum": 0})", {"0", "0.5", "99999999"},
               {"-1", "-0.5", "-0", "1e3"});
  expect_texts(R"({"type": "number", "exclusiveMinimum": 0})", {"0.001", "1"}, {"0", "0.0", "-1"});
  expect_texts(R"({"type": "number", "maximum": -1.5})", {"-1.5", "-1.50", "-2", "-99"},
               {"-1", "-1.49", "0", "1"});
  expect_texts(R"({"type": "integer", "minimum": -5})", {"-5", "0", "7", "123456"},
               {"-6", "-10", "-0"});
  expect_texts(R"({"type": "integer", "minimum": 0.5, "maximum": 2.5})", {"1", "2"}, {"0", "3"});
}

TEST(NumberGrammar, OlderFormsAndSeveralBoundsAreTheNarrowest) {
  expect_texts(
      R"({"type": "integer", "minimum": 3, "exclusiveMinimum": true, "maximum": 5, "exclusiveMaximum": false})",
      {"4", "5"}, {"3", "6"});
  expect_texts(
      R"({"type": "integer", "minimum": 3, "exclusiveMinimum": 3, "maximum": 9, "exclusiveMaximum": 6})",
      {"4", "5"}, {"3", "6"});
  expect_texts(R"({"type": "integer", "minimum": 3, "exclusiveMinimum": 1})", {"3"}, {"2"});
}

TEST(NumberGrammar, BoundsBeyondTheDigitsThatAreWrittenSayNothingOrAreRefused) {
  expect_texts(
      R"({"type": "integer", "maximum": 9223372036854775807, "minimum": -9223372036854775808})",
      {"999999999999999999", "-999999999999999999"}, {"1000000000000000000"});
  expect_texts(R"({"type": "number", "maximum": 1e300})", {"5"}, {});
  EXPECT_EQ(schema_error(R"({"type": "integer", "minimum": 9223372036854775807})"),
            "the schema at #: minimum leaves only numbers of more than 18 digits");
  EXPECT_EQ(schema_error(R"({"type": "number", "minimum": 1e-300})"),
            "the schema at #: minimum: 1e-300 has more than 17 digits behind the point");
  expect_texts(R"({"type": "number", "minimum": 1e-7, "maximum": 1e2})", {"0.0000001", "100", "1"},
               {"0", "0.00000009", "100.1"});
}

TEST(NumberGrammar, MultiplesOfPowersOfTenAreDecimalPlaces) {
  expect_texts(R"({"type": "number", "multipleOf": 0.01})", {"1", "1.5", "1.25"}, {"1.255", "1e2"});
  expect_texts(R"({"type": "number", "multipleOf": 1})", {"7", "-7"}, {"7.5"});
}

TEST(NumberGrammar, MultiplesAreExactWithinTheirBounds) {
  for (const int step : {2, 3, 5, 7, 10, 12, 60, 100, 125, 1000}) {
    for (const auto& [least, most] : {std::pair(-130, 2600), {1, 999}, {-4000, -17}}) {
      const Json schema = {
          {"type", "integer"}, {"multipleOf", step}, {"minimum", least}, {"maximum", most}};
      if (step == 1000 && most == 999) continue;  // no number is in the range
      SchemaTexts texts(schema.dump());
      for (int n = -4100; n <= 4100; ++n)
        ASSERT_EQ(texts.takes(std::to_string(n)), n >= least && n <= most && n % step == 0)
            << schema << ": " << n;
    }
  }
  expect_texts(R"({"type": "integer", "multipleOf": 3600})", {"0", "3600", "-7200", "36000000"},
               {"360", "3601", "-3600.0"});
}

TEST(NumberGrammar, MultiplesOfFractionsAreDigits) {
  expect_texts(R"({"type": "number", "multipleOf": 0.5})", {"0", "1", "2.5", "-0.5", "12.0"},
               {"0.1", "2.55", "2.50", "-0.6", "1e2"});
  expect_texts(R"({"type": "number", "multipleOf": 0.25, "minimum": -0.3, "maximum": 10.3})",
               {"-0.25", "0", "0.75", "9.5", "10.25"}, {"-0.5", "0.3", "0.7", "10.5", "9.55"});
  expect_texts(R"({"type": "number", "multipleOf": 2.5, "exclusiveMinimum": 0})",
               {"2.5", "5", "5.0", "17.5"}, {"0", "1", "2", "4.5"});
  expect_texts(R"({"type": "integer", "multipleOf": 0.5})", {"1", "-3"}, {"0.5"});
  expect_texts(R"({"type": "integer", "multipleOf": 2.5})", {"5", "-10", "0"}, {"2", "7", "2.5"});
  expect_texts(R"({"type": ["integer", "null"], "multipleOf": 7, "minimum": 1, "maximum": 6})",
               {"null"}, {"0", "1", "6", "7"});
}

TEST(NumberGrammar, MultiplesOfTwoNumbersAreThoseOfTheirLeastCommonMultiple) {
  const auto both = [](const char* a, const char* b, const char* type) {
    return fmt::format(R"({{"allOf": [{{"type": "{}", "multipleOf": {}}}, {{"multipleOf": {}}}]}})",
                       type, a, b);
  };
  for (const auto& [a, b] : {std::pair("4", "6"), {"6", "4"}, {"12", "2.0"}, {"0.4", "1.2e1"}})
    expect_texts(both(a, b, "integer"), {"0", "12", "-24", "120"}, {"4", "6", "8", "18", "13"});
  expect_texts(both("0.1", "0.25", "number"), {"0.5", "1", "-2.5"}, {"0.1", "0.25", "0.75"});
  expect_texts(both("0.01", "0.01", "number"), {"0.25"}, {"0.255"});
  EXPECT_EQ(schema_error(both("999999937", "999999929", "integer")),
            "the schema at #: multipleOf 999999937 and 999999929: the least common multiple has "
            "more than 15 digits");
  EXPECT_EQ(
      schema_error(both("1e-17", "99999999999999999", "number")),
      "the schema at #: multipleOf 1e-17 and 99999999999999999: the least common multiple has "
      "more than 15 digits");
  EXPECT_EQ(schema_error(both("2", "0", "integer")),
            "the schema at #: multipleOf 2 and 0: it is not more than 0");
}

TEST(NumberGrammar, MultipleOfChoosesAmongListedValues) {
  expect_texts(
      R"({"enum": [0, 3, 4, -6, 7.5, 3000000000000000000000, "a", null], "multipleOf": 3})",
      {"0", "3", "-6", "\"a\"", "null"}, {"4", "7.5"});
  expect_texts(R"({"enum": [0.1, 0.25, 0.3, 1, 1.25], "multipleOf": 0.05})",
               {"0.1", "0.25", "0.3", "1", "1.25"}, {"0.2"});
  expect_texts(R"({"enum": [0.1, 0.25, 0.3, 1, 1.25], "multipleOf": 0.1})", {"0.1", "0.3", "1"},
               {"0.25", "1.25"});
  EXPECT_EQ(schema_error(R"({"const": 4, "multipleOf": 0})"),
            "the schema at #: multipleOf: it is not more than 0");
  EXPECT_EQ(schema_error(R"({"const": 4, "multipleOf": 3})"),
            "the schema cannot be used: no JSON value matches it, within 64 levels of nesting");
}

}  // namespace
}  // namespace kvick::text
