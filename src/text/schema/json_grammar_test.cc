#include "text/schema/json_grammar.h"

#include <gtest/gtest.h>

#include "text/schema/test_schema.h"

namespace kvick::text {
namespace {

TEST(JsonGrammar, TypesAreThatTypeOnly) {
  expect_texts(R"({"type": "null"})", {"null", " null"}, {"nul", "true", "null ", "  null"});
  expect_texts(R"({"type": "boolean"})", {"true", "false"}, {"null", "True"});
  expect_texts(R"({"type": ["integer", "null"]})", {"12", "null", "-3"}, {"1.5", "\"\""});
  expect_texts(R"({"type": "string", "nullable": true})", {"null", "\"a\""}, {"1"});
  expect_texts(R"({"type": "number"})", {"0", "-1.5", "1e9", "2.50E-3", "123456789012345678"},
               {"01", "1.", ".5", "+1", "-", "1e", "1e999", "-0", "1234567890123456789"});
  expect_texts("true", {"1", "{}", "[[]]", "\"a\"", "null", R"({"a":{"b":[1,2.5]}})"},
               {"", "{", "a"});
}

TEST(JsonGrammar, AnyObjectIsAnObject) {
  expect_texts(R"({"type": "object"})", {"{}", R"({"a":1,"b":[true,null]})", R"({"":""})"},
               {"[]", "1", R"({"a"})", R"({"a":1,})", R"({a:1})", "{}{}"});
}

TEST(JsonGrammar, StringsAreUtf8WithJsonsEscapes) {
  expect_texts(
      R"({"type": "string"})",
      {"\"\"", "\"a é€😀\"", R"("\"\\\/\b\f\n\r\t")", R"("\u00e9\uD83D\uDE00\ud7FF")", "\"\x7F\""},
      {"\"\n\"", "\"\t\"", R"("\a")", R"("\u12")", R"("\uD83D")", R"("\uD83Dx")", R"("\uDE00")",
       "\"\xC0\x80\"", "\"\xED\xA0\x80\"", "\"\xE9\"", "\"\xF4\x90\x80\x80\"", "\"a"});
}

TEST(JsonGrammar, LengthsCountCharacters) {
  expect_texts(R"({"minLength": 2, "maxLength": 3})",
               {"\"ab\"", "\"é€😀\"", R"("\n\uD83D\uDE00\u00e9")"},
               {"\"a\"", "\"😀\"", "\"abcd\"", "1"});
  expect_texts(R"({"type": "string", "maxLength": 0})", {"\"\""}, {"\"a\""});
  expect_texts(R"({"type": "string", "minLength": 2})", {"\"ab\"", "\"abcdefg\""}, {"\"a\""});
}

TEST(JsonGrammar, WhiteSpaceIsBounded) {
  SchemaTexts texts(R"({"type": "object"})");
  EXPECT_TRUE(texts.takes("{ }"));
  EXPECT_TRUE(texts.takes("{\n}"));
  EXPECT_TRUE(texts.takes("{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": { \"c\": 1 }\n}"));
  EXPECT_FALSE(texts.begins("{  "));
  EXPECT_FALSE(texts.begins("{\n\n"));
  EXPECT_TRUE(texts.begins("{\n" + std::string(32, ' ')));
  EXPECT_FALSE(texts.begins("{\n" + std::string(33, ' ')));
  EXPECT_FALSE(texts.begins("{\"a\":\n"));
  EXPECT_FALSE(texts.begins("{\"a\" "));
  EXPECT_FALSE(texts.begins("{} "));
  SchemaTexts compact(R"({"type": "object"})",
                      {.spaces = false, .most_indent = 0, .leading_space = false});
  EXPECT_TRUE(compact.takes(R"({"a":[1,2]})"));
  for (const char* text : {" ", "{ ", "{\n", "{\"a\": ", "{\"a\":1, "})
    EXPECT_FALSE(compact.begins(text));
}

TEST(JsonGrammar, PropertiesComeInTheOrderOfTheirDeclaration) {
  expect_texts(
      R"({"type": "object", "properties": {"b": {"type": "integer"}, "a": true, "c": {"type": "null"}},
          "required": ["b", "c"]})",
      {R"({"b":1,"c":null})", R"({"b":1,"a":{},"c":null})"},
      {"{}", R"({"b":1})", R"({"a":1,"b":1,"c":null})", R"({"b":1,"c":null,"a":1})",
       R"({"b":1,"c":null,"d":1})", R"({"b":1,"c":null,})", R"({"b":1,"b":1,"c":null})"});
  expect_texts(R"({"properties": {"a": true, "b": true}})",
               {"{}", R"({"a":1})", R"({"b":1})", R"({"a":1,"b":1})"},
               {R"({"b":1,"a":1})", R"({,"b":1})", "1"});
}

TEST(JsonGrammar, RequiredPropertiesNeedNoDeclaration) {
  expect_texts(R"({"type": "object", "required": ["x"]})", {R"({"x":1})", R"({"x":1,"y":2})"},
               {"{}", R"({"y":2})"});
}

TEST(JsonGrammar, AdditionalPropertiesComeBehindAndHaveOtherNames) {
  expect_texts(
      R"({"properties": {"ab": {"type": "null"}, "é": true}, "additionalProperties": {"type": "integer"}})",
      {"{}", R"({"ab":null,"x":1})", R"({"a":1,"abc":2,"è":3,"":4})"},
      {R"({"x":1,"ab":null})", R"({"ab":1})", R"({"x":null})", R"({"\u0061b":1})", R"({"a\n":1})"});
  expect_texts(R"({"properties": {"a": true}, "additionalProperties": false})",
               {"{}", R"({"a":1})"}, {R"({"b":1})"});
  expect_texts(R"({"type": "object", "additionalProperties": false})", {"{}"}, {R"({"b":1})"});
}

TEST(JsonGrammar, PropertiesMayHaveTheirNamesFromAList) {
  // Pydantic writes dict[Literal["a", "b"], int] and a dict keyed by an enum like this.
  const std::string of_integers =
      R"({"type": "object", "additionalProperties": {"type": "integer"}, "propertyNames": )";
  for (const char* names :
       {R"({"enum": ["a", "b"]}})", R"({"type": "string", "enum": ["a", "b"]}})",
        R"({"$ref": "#/$defs/n"}, "$defs": {"n": {"enum": ["a", "b"]}}})",
        R"({"anyOf": [{"const": "a"}, {"const": "b"}]}})"})
    expect_texts(of_integers + names, {"{}", R"({"a":1})", R"({"a":1,"b":2})"},
                 {R"({"c":1})", R"({"a":null})"});
  expect_texts(
      R"({"propertyNames": {"enum": ["a", "b"]}, "properties": {"a": {"type": "null"}, "c": true}, "required": ["b"]})",
      {R"({"b":1})", R"({"a":null,"b":"x"})"}, {R"({"a":1,"b":1})", R"({"b":1,"c":1})", "{}"});
  expect_texts(R"({"type": "object", "propertyNames": false})", {"{}"}, {R"({"a":1})"});
}

TEST(JsonGrammar, NamesOfPropertiesMayHaveASchema) {
  // Pydantic's dicts of dates, and of strings with a pattern; Zod's z.record(z.string().min(2), T).
  expect_texts(R"({"additionalProperties": {"type": "null"}, "propertyNames": {"format": "date"}})",
               {"{}", R"({"2024-02-29":null})"}, {R"({"2024-02-30":null})", R"({"2024-02-29":1})"});
  expect_texts(R"({"type": "object", "patternProperties": {"^[a-z]+$": {"type": "integer"}}})",
               {"{}", R"({"a":1,"bc":2})"}, {R"({"A":1})", R"({"a":null})"});
  expect_texts(
      R"({"allOf": [{"propertyNames": {"minLength": 2}}, {"propertyNames": {"pattern": "^a"}}]})",
      {R"({"ab":1})", R"({"abc":{}})"}, {R"({"a":1})", R"({"bc":1})", "1"});
  expect_texts(
      R"({"propertyNames": {"enum": ["a", "bc", 1], "minLength": 2}, "additionalProperties": {"type": "null"}})",
      {"{}", R"({"bc":null})"}, {R"({"a":null})", R"({"1":null})"});
}

TEST(JsonGrammar, PropertiesAreCounted) {
  expect_texts(R"({"type": "object", "minProperties": 1, "maxProperties": 2})",
               {R"({"a":1})", R"({"a":1,"b":1})"}, {"{}", R"({"a":1,"b":1,"c":1})"});
  expect_texts(R"({"properties": {"a": true, "b": true, "c": true}, "minProperties": 2})",
               {R"({"a":1,"c":1})", R"({"a":1,"b":1,"c":1})"}, {"{}", R"({"b":1})"});
}

TEST(JsonGrammar, ItemsAreCounted) {
  const std::string some = R"({"items": {"type": "integer"}, )";
  expect_texts(some + R"("minItems": 2, "maxItems": 3})", {"[1,2]", "[1, 2, 3]"},
               {"[]", "[1]", "[1,2,3,4]"});
  expect_texts(some + R"("minItems": 2})", {"[1,2]", "[1,2,3,4,5]"}, {"[]", "[1]", "[1,2,]"});
  expect_texts(some + R"("minItems": 1})", {"[1]", "[1,2,3]"}, {"[]"});
  expect_texts(some + R"("maxItems": 1})", {"[]", "[1]"}, {"[1,2]", "[null]"});
  expect_texts(some + R"("maxItems": 0})", {"[]", "[ ]"}, {"[1]"});
  expect_texts(R"({"items": {"type": "integer"}})", {"[]", "[1]", "[1,2,3]"},
               {"[,1]", "[1,]", "[1,,2]"});
}

TEST(JsonGrammar, TheFirstItemsMayHaveSchemasOfTheirOwn) {
  const std::string prefix = R"({"prefixItems": [{"type": "null"}, {"type": "boolean"}])";
  expect_texts(prefix + "}", {"[]", "[null]", "[null,true,7,8]"}, {"[true]", "[null,7]"});
  expect_texts(prefix + R"(, "items": false})", {"[]", "[null,true]"}, {"[null,true,7]"});
  expect_texts(prefix + R"(, "items": {"type": "integer"}, "minItems": 3, "maxItems": 4})",
               {"[null,true,7]", "[null,true,7,8]"},
               {"[null,true]", "[null,true,7,8,9]", "[null,true,null]"});
  expect_texts(R"({"items": [{"type": "null"}], "additionalItems": false})", {"[]", "[null]"},
               {"[null,1]"});
}

TEST(JsonGrammar, EnumsAndConstantsAreTheirValues) {
  expect_texts(R"({"enum": ["a", "ab", 1, 12, null, true, "\n\"é"]})",
               {"\"a\"", "\"ab\"", "1", "12", "null", "true", R"("\n\"é")"},
               {"\"abc\"", "2", "false", "\"\""});
  expect_texts(R"({"type": ["string", "integer"], "enum": ["a", 1, 2.5, null]})", {"\"a\"", "1"},
               {"2.5", "null"});
  expect_texts(R"({"const": {"a": [1, {"b": "c"}], "d": {}}})",
               {R"({"a":[1,{"b":"c"}],"d":{}})", R"({"a": [1, {"b": "c"}], "d": { }})"},
               {R"({"a":[1]})", R"({"d":{},"a":[1,{"b":"c"}]})"});
  expect_texts(
      R"({"enum": ["a", "é€", 3, 5, [1], []], "minLength": 2, "minimum": 4, "maxItems": 0})",
      {"\"é€\"", "5", "[]"}, {"\"a\"", "3", "[1]"});
  expect_texts(R"({"const": "x", "enum": ["x", "y"]})", {"\"x\""}, {"\"y\""});
}

TEST(JsonGrammar, AlternativesAreAnyOfThem) {
  for (const char* name : {"anyOf", "oneOf"})
    expect_texts(std::string(R"({")") + name +
                     R"(": [{"type": "integer"}, {"type": "array", "items": {"type": "null"}}]})",
                 {"1", "[null]"}, {"null", "[1]"});
  expect_texts(R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": true},
                   "anyOf": [{"required": ["a"]}, {"required": ["b"]}]})",
               {R"({"a":1})", R"({"b":1})", R"({"a":1,"b":1})"}, {"{}", R"({"a":null})"});
  expect_texts(
      R"({"type": ["string", "integer"], "anyOf": [{"type": "integer"}, {"type": "null"}]})", {"1"},
      {"null", "\"\""});
  // Zod writes z.union([z.null(), z.undefined()]) and z.never() like this.
  expect_texts(R"({"anyOf": [{"type": "null"}, {"not": {}}]})", {"null"}, {"1", "\"\""});
  expect_texts(R"({"properties": {"a": {"not": true, "type": "null"}, "b": {"not": false}}})",
               {"{}", R"({"b":1})"}, {R"({"a":null})"});
}

TEST(JsonGrammar, AllOfIsAllOfThem) {
  expect_texts(R"({"allOf": [{"properties": {"a": {"type": "number"}}, "required": ["a"]},
                             {"properties": {"a": {"minimum": 3}, "b": {"type": "null"}}}]})",
               {R"({"a":3})", R"({"a":4.5,"b":null})"}, {"{}", R"({"a":2})", R"({"a":4,"b":1})"});
  expect_texts(
      R"({"allOf": [{"type": "number", "minimum": 2}, {"type": "integer", "minimum": 3, "maximum": 9}, {"maximum": 5}]})",
      {"3", "5"}, {"2", "6", "3.5"});
  expect_texts(R"({"allOf": [{"enum": ["a", "b"]}, {"enum": ["b", "c"]}]})", {"\"b\""},
               {"\"a\"", "\"c\""});
  expect_texts(R"({"allOf": [{"items": {"type": "number"}, "minItems": 1},
                             {"prefixItems": [{"maximum": 1}], "maxItems": 2}]})",
               {"[1]", "[0,5.5]"}, {"[]", "[2]", "[1,null]", "[1,1,1]"});
  expect_texts(
      R"({"allOf": [{"properties": {"a": true}, "additionalProperties": false}, {"properties": {"a": {"type": "null"}, "b": true}}]})",
      {"{}", R"({"a":null})"}, {R"({"b":1})", R"({"a":1})"});
  expect_texts(
      R"({"description": "d", "allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"type": "null"}}})",
      {"null"}, {"1"});
}

TEST(JsonGrammar, ReferencesMayGoRound) {
  const char* list = R"({"$ref": "#/$defs/list", "$defs": {"list": {"type": "object",
      "properties": {"value": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/list"}, {"type": "null"}]}},
      "required": ["value", "next"]}}})";
  expect_texts(list,
               {R"({"value":1,"next":null})", R"({"value":1,"next":{"value":2,"next":null}})"},
               {R"({"value":1})", R"({"value":1,"next":{}})"});
  expect_texts(R"({"type": "array", "items": {"$ref": "#"}})", {"[]", "[[],[[]]]"}, {"[1]"});
  expect_texts(
      R"({"definitions": {"a/b~c d": {"type": "null"}}, "$ref": "#/definitions/a~1b~0c%20d"})",
      {"null"}, {"1"});
  expect_texts(R"({"properties": {"a": {"type": "null"}, "b": {"$ref": "#/properties/a"}}})",
               {R"({"b":null})"}, {R"({"b":1})"});
  expect_texts(R"({"anyOf": [{"type": "null"}, {"$ref": "#/anyOf/0"}]})", {"null"}, {"1"});
}

TEST(JsonGrammar, NestingEndsWithinTheLimitAndEveryBeginningCanBeCompleted) {
  SchemaTexts texts("true");
  std::string open;
  while (texts.begins(open + "[")) open += "[";
  EXPECT_GT(open.size(), 50U);
  EXPECT_LT(open.size(), 80U);
  EXPECT_TRUE(texts.takes(open + std::string(open.size(), ']')));
  EXPECT_TRUE(texts.takes(open + "1" + std::string(open.size(), ']')));
}

TEST(JsonGrammar, ItemsOfFewValuesMayHaveToDiffer) {  // pydantic's set[Literal["a", "b"]]
  expect_texts(R"({"uniqueItems": true, "minItems": 1, "items": {"$ref": "#/$defs/a"},
                   "$defs": {"a": {"enum": ["a", "b", null]}}})",
               {R"(["a"])", R"([null,"b","a"])"}, {"[]", R"(["a","a"])", R"(["a",null,"a"])"});
  expect_texts(R"({"uniqueItems": true, "items": {"type": "boolean"}, "maxItems": 1})", {"[true]"},
               {"[true,false]"});
}

TEST(JsonGrammar, FormatsAreChecked) {
  const auto format = [](const std::string& name) {
    return R"({"type": "string", "format": ")" + name + "\"}";
  };
  expect_texts(format("date"),
               {"\"2024-02-29\"", "\"2000-02-29\"", "\"2023-12-31\"", "\"2023-04-30\""},
               {"\"2023-02-29\"", "\"1900-02-29\"", "\"2023-04-31\"", "\"2023-13-01\"",
                "\"23-01-01\"", "\"\""});
  expect_texts(format("time"), {"\"23:59:59Z\"", "\"00:00:00.123+01:30\""},
               {"\"24:00:00Z\"", "\"10:00:00\"", "\"10:60:00Z\""});
  expect_texts(format("date-time"), {"\"2024-01-02T03:04:05Z\""},
               {"\"2024-01-02\"", "\"2024-01-02 03:04:05Z\""});
  expect_texts(format("uuid"), {"\"123e4567-e89b-12d3-a456-426614174000\""},
               {"\"123e4567e89b12d3a456426614174000\"", "\"\""});
  expect_texts(format("email"), {"\"a.b+c@example.co.uk\""},
               {"\"a\"", "\"a@b\"", "\".a@b.cd\"", "\"a@b.cd.\""});
  expect_texts(format("ipv4"), {"\"255.0.19.1\""}, {"\"256.0.0.1\"", "\"1.2.3\"", "\"01.2.3.4\""});
  expect_texts(format("hostname"), {"\"example.com\"", "\"a\""},
               {"\"-a.com\"", "\"a..b\"", "\"\""});
  expect_texts(format("color"), {"\"anything\""}, {"1"});
}

TEST(JsonGrammar, PatternsGoTogetherWithEachOtherAndWithFormats) {
  const std::string three =
      R"({"allOf": [{"pattern": "^[a-c]+$"}, {"pattern": "b"}, {"pattern": "c$"}]})";
  expect_texts(three, {"\"bc\"", "\"abac\""}, {"\"ac\"", "\"b\"", "\"bxc\"", "\"\""});
  expect_texts(R"({"pattern": "^2024", "format": "date"})", {"\"2024-02-29\""},
               {"\"2023-01-01\"", "\"2024\"", "\"2024-02-30\""});
  // Zod's z.iso.date(), z.uuid() and, without an offset, z.iso.time().
  expect_texts(
      R"({"type": "string", "format": "date", "pattern": "^(?:(?:\\d\\d[2468][048]|\\d\\d[13579][26]|\\d\\d0[48]|[02468][048]00|[13579][26]00)-02-29|\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|(?:02)-(?:0[1-9]|1\\d|2[0-8])))$"})",
      {"\"2024-02-29\"", "\"2023-12-31\""}, {"\"2023-02-29\"", "\"2023-1-1\""});
  expect_texts(
      R"({"type": "string", "format": "uuid", "pattern": "^([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-8][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}|00000000-0000-0000-0000-000000000000)$"})",
      {"\"123e4567-e89b-12d3-a456-426614174000\"", "\"00000000-0000-0000-0000-000000000000\""},
      {"\"123e4567-e89b-02d3-a456-426614174000\""});
  expect_texts(
      R"({"format": "time", "pattern": "^(?:[01]\\d|2[0-3]):[0-5]\\d(?::[0-5]\\d(?:\\.\\d+)?)?$"})",
      {"\"23:59\"", "\"23:59:01.5\""}, {"\"24:00\"", "\"23:59:01Z\""});
}

TEST(JsonGrammar, PatternsMayBeginWithLookAheads) {
  // Pydantic's Decimal, condecimal(max_digits=5, decimal_places=2), and Zod's z.email().
  expect_texts(
      R"_({"pattern": "^(?!^[-+.]*$)[+-]?0*(?:\\d{0,3}|(?=[\\d.]{1,6}0*$)\\d{0,3}\\.\\d{0,2}0*$)"})_",
      {"\"1.25\"", "\"-123\""}, {"\"\"", "\"-.\"", "\"+\""});
  expect_texts(
      R"({"anyOf": [{"type": "number"}, {"type": "string", "pattern": "^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$"}]})",
      {"1.5", "\"1.5\"", "\"-0.25\"", "\"007\""}, {"\"\"", "\"-\"", "\"-.\"", "\"1e5\"", "null"});
  expect_texts(
      R"({"type": "string", "format": "email", "pattern": "^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$"})",
      {"\"a.b+c@example.co.uk\""},
      {"\".a@b.cd\"", "\"a..b@c.de\"", "\"a\"", "\"a@b\"", "\"a.@b.cd\""});
}

TEST(JsonGrammar, WhatIsNotSupportedIsSaidWithItsPlace) {
  EXPECT_EQ(schema_error(R"({"properties": {"a": {"not": {"type": "null"}}}})"),
            "the schema at #/properties/a: not is not supported; leave it out");
  for (const char* keyword :
       {"if", "then", "else", "contains", "patternProperties", "dependentRequired",
        "dependentSchemas", "unevaluatedProperties", "$dynamicRef"})
    EXPECT_EQ(schema_error(std::string(R"({")") + keyword + R"(": {}})"),
              std::string("the schema at #: ") + keyword + " is not supported; leave it out");
  EXPECT_EQ(schema_error(R"({"uniqueItems": true})"),
            "the schema at #: uniqueItems is supported for items of at most about 10 values only, "
            "of an enum, const, boolean, null or a range of integers; leave it out");
  EXPECT_EQ(schema_error(R"({"uniqueItems": false})"), "no error");
  EXPECT_EQ(schema_error(R"({"propertyNames": {"pattern": "^a"}, "required": ["b"]})"),
            "the schema at #: propertyNames beside properties or required is supported for a list "
            "of names only");
  for (const char* all :
       {"true", "{}", R"({"type": "string"})", R"({"type": "string", "title": "t"})"})
    EXPECT_EQ(schema_error(std::string(R"({"propertyNames": )") + all + "}"), "no error");
  EXPECT_EQ(schema_error(R"({"type": "integer", "multipleOf": 999983})"),
            "the schema at #: multipleOf takes more than 10000 states; bring minimum and maximum "
            "closer together, or leave it out");
  EXPECT_EQ(schema_error(R"({"type": "number", "multipleOf": 0})"),
            "the schema at #: multipleOf: it is not more than 0");
  EXPECT_EQ(schema_error(R"({"allOf": [{"format": "date"}, {"format": "time"}]})"),
            "the schema at #: two different values of format cannot be combined");
}

TEST(JsonGrammar, WhatIsMalformedIsSaidWithItsPlace) {
  EXPECT_EQ(schema_error("3"), "the schema at # is neither an object nor true or false");
  EXPECT_EQ(schema_error(R"({"type": "text"})"),
            "the schema at #: type is one or a list of null, boolean, object, array, string, "
            "number, integer");
  EXPECT_EQ(schema_error(R"({"items": 3})"), "the schema at #: items is a schema");
  EXPECT_EQ(schema_error(R"({"required": "a"})"), "the schema at #: required is a list of strings");
  EXPECT_EQ(schema_error(R"({"minLength": -1})"),
            "the schema at #: minLength is a whole number, zero or more");
  EXPECT_EQ(schema_error(R"({"minimum": "1"})"), "the schema at #: minimum is a number");
  EXPECT_EQ(schema_error(R"({"anyOf": {}})"), "the schema at #: anyOf is a list of schemas");
  EXPECT_EQ(schema_error(R"({"pattern": "(a"})"),
            "the schema at #: pattern: a group is not closed at byte 2 of '(a'");
  EXPECT_EQ(schema_error(R"({"$ref": "#/a"})"),
            "the schema at #: $ref '#/a' leads nowhere; references are #/... within the schema");
  EXPECT_EQ(
      schema_error(R"({"$ref": "other.json"})"),
      "the schema at #: $ref 'other.json' leads nowhere; references are #/... within the schema");
}

TEST(JsonGrammar, WhatNothingFitsIsSaid) {
  const std::string nothing =
      "the schema cannot be used: no JSON value matches it, within 64 levels of nesting";
  for (const char* schema :
       {"false", R"({"enum": []})", R"({"not": {}})", R"({"minimum": 3, "maximum": 2})",
        R"({"$ref": "#"})", R"({"type": "array", "items": {"$ref": "#"}, "minItems": 1})",
        R"({"required": ["a"], "additionalProperties": false})",
        R"({"allOf": [{"type": "null"}, {"type": "string"}]})",
        R"({"type": "string", "pattern": "^a$", "minLength": 2})",
        R"({"type": "string", "allOf": [{"pattern": "^a"}, {"pattern": "^b"}]})"})
    EXPECT_EQ(schema_error(schema), nothing) << schema;
  EXPECT_EQ(schema_error(R"({"minItems": 3, "maxItems": 2})"),
            "the schema at #: maxItems is below minItems, so nothing fits");
}

TEST(JsonGrammar, WhatWouldGrowWithoutEndIsRefused) {
  EXPECT_EQ(schema_error(R"({"anyOf": [{"type": "null"}, {"$ref": "#"}]})"),
            "the schema cannot be used: it refers to itself with nothing in between; put a "
            "property or an item there");
  EXPECT_NE(
      schema_error(R"({"type": "object", "allOf": [{"$ref": "#"}]})").find("refers to itself"),
      std::string::npos);
  EXPECT_EQ(schema_error(R"({"type": "string", "maxLength": 100000})"),
            "the schema at #: maxLength is more than 8192; lower it or leave it out");
  EXPECT_EQ(schema_error(std::string(70, '[') + std::string(70, ']')),
            "the schema is nested deeper than 64");
  EXPECT_EQ(schema_error("\"" + std::string(2 << 20, 'a') + "\""),
            "the schema is larger than 1048576 bytes; use a smaller one");
  std::string doubling = R"({"allOf": [)";
  for (int i = 0; i < 10; ++i) doubling += R"({"anyOf": [{"minLength": 1}, {"maxLength": 9}]},)";
  EXPECT_EQ(schema_error(doubling + "true]}"),
            "the schema at #: more than 64 combinations of alternatives; use fewer");
  EXPECT_NE(schema_error(R"({"pattern": "((a{1000}){1000}){1000}"})").find("becomes too large"),
            std::string::npos);
  EXPECT_NE(
      schema_error(R"({"pattern": "((((((((((a*)*)*)*)*)*)*)*)*)*){900}"})").find("too large"),
      std::string::npos);
  EXPECT_NE(
      schema_error(
          R"({"type": "object", "minProperties": 8000, "required": ["a","b","c","d","e","f","g","h","i","j","k","l","m","n","o","p","q","r","s","t","u","v","w","x","y","z"]})")
          .find("too large"),
      std::string::npos);
  std::string looks = R"({"properties": {"a": true)";
  for (int i = 0; i < 65; ++i)
    looks += fmt::format(R"(, "p{0}": {{"pattern": "^(?!a)b{{{0}}}"}})", i);
  EXPECT_EQ(schema_error(looks + "}}"),
            "the schema at #/properties/p64: pattern: it is combined with others in more than 64 "
            "strings; use fewer");
  std::string patterns = R"({"allOf": [)";
  for (int i = 0; i < 9; ++i) patterns += fmt::format(R"({{"pattern": "a{{{}}}"}},)", i);
  EXPECT_EQ(schema_error(patterns + "true]}"),
            "the schema at #: more than 8 patterns cannot be combined");
  std::string names = R"({"type": "object", "propertyNames": {"enum": [)";
  for (int i = 0; i < 900; ++i) names += "\"" + std::to_string(i) + "\",";
  names += R"("a"]}, "additionalProperties": {"enum": [")" + std::string(99999, 'a') + "\"]}}";
  EXPECT_NE(schema_error(names).find("becomes too large"), std::string::npos);
  std::string wide = R"({"anyOf": [)";
  for (int i = 0; i < 600; ++i) wide += R"({"required": ["p)" + std::to_string(i) + "\"]},";
  EXPECT_NE(schema_error(wide + "true]}").find("alternatives in one place"), std::string::npos);
}

}  // namespace
}  // namespace kvick::text
