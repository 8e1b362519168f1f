// Compares with what jinja2 made of the same templates and expressions, byte for byte (recorded by
// tests/reference/record_templates.py).
#include "text/template/chat_template.h"

#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "base/testing/source_folder.h"

namespace kvick::text {
namespace {

using nlohmann::ordered_json;

const std::string kFolder = base::source_folder() + "/tests/reference/";

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

const ordered_json& recorded() {
  static const ordered_json kRecorded = ordered_json::parse(read(kFolder + "templates.json"));
  return kRecorded;
}

// The time that the script uses: 2025-01-02 03:04:05, a Thursday.
RenderOptions options() {
  RenderOptions result;
  result.now = [] {
    std::tm t{};
    t.tm_year = 125;
    t.tm_mday = 2;
    t.tm_hour = 3;
    t.tm_min = 4;
    t.tm_sec = 5;
    t.tm_wday = 4;
    t.tm_yday = 1;
    return t;
  };
  return result;
}

base::Result<std::string> render(const std::string& source, const ordered_json& context) {
  auto parsed = ChatTemplate::parse(source);
  if (!parsed.ok()) return parsed.error();
  return parsed->render(context, options());
}

// The text must equal jinja2's. What jinja2 refused must give one line of error that names its
// place.
void expect_as_recorded(const ordered_json& record, const base::Result<std::string>& got) {
  if (record.contains("text")) {
    ASSERT_TRUE(got.ok()) << got.error().message;
    EXPECT_EQ(*got, record["text"].get<std::string>());
    return;
  }
  ASSERT_FALSE(got.ok()) << "jinja2 says " << record["error"] << ", we say " << *got;
  EXPECT_TRUE(got.error().message.starts_with("chat template, line ")) << got.error().message;
}

TEST(ChatTemplate, RendersTheTemplatesOfFamiliesAsJinja2Does) {
  ASSERT_GE(recorded()["renderings"].size(), 350u);
  for (const auto& record : recorded()["renderings"]) {
    SCOPED_TRACE(record["template"].get<std::string>() + ": " +
                 record["conversation"].get<std::string>());
    ordered_json context = recorded()["always"];
    context.update(recorded()["conversations"][record["conversation"].get<std::string>()]);
    expect_as_recorded(
        record,
        render(read(kFolder + "templates/" + record["template"].get<std::string>()), context));
  }
}

TEST(ChatTemplate, EvaluatesOneConstructAtATimeAsJinja2Does) {
  ASSERT_GE(recorded()["expressions"].size(), 250u);
  for (const auto& record : recorded()["expressions"]) {
    SCOPED_TRACE(record["source"].get<std::string>());
    expect_as_recorded(record, render(record["source"], recorded()["expression_context"]));
  }
}

TEST(ChatTemplate, SaysWhatIsWrongAndWhere) {
  auto message = [](const std::string& source, ordered_json context = ordered_json::object()) {
    auto result = render(source, context);
    return result.ok() ? "rendered " + *result : result.error().message;
  };
  EXPECT_EQ(message("a\nb\n{{ x.y }}"), "chat template, line 3: 'x' is undefined");
  EXPECT_EQ(message("\n{{ x['a'].b }}", {{"x", {{"c", 1}}}}),
            "chat template, line 2: 'dict object' has no attribute 'a'");
  EXPECT_EQ(message("{% if true %}\n{{ raise_exception('no\ntools') }}{% endif %}"),
            "chat template, line 2: no\ntools");
  EXPECT_EQ(message("\n\n{% include 'x' %}"),
            "chat template, line 3: the statement 'include' is not known here");
  EXPECT_EQ(message("{{ 1 | frobnicate }}"),
            "chat template, line 1: the filter 'frobnicate' is not known");
  EXPECT_EQ(message("x\n{% for a in [1] %}\n{{ a }}"),
            "chat template, line 2: {% for %} is not closed");
  EXPECT_EQ(message("{{ (1 + ) }}"), "chat template, line 1: an expression is expected, not ')'");
  EXPECT_EQ(message("{{ 'a' + 1 }}"), "chat template, line 1: + does not work between str and int");
}

TEST(ChatTemplate, RefusesAContextThatIsNoObject) {
  auto parsed = ChatTemplate::parse("x");
  ASSERT_TRUE(parsed.ok());
  EXPECT_FALSE(parsed->render(ordered_json::array()).ok());
}

TEST(ChatTemplate, LeavesTheTimeUndefinedWithoutAClock) {
  auto parsed = ChatTemplate::parse("{{ strftime_now is defined }}");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(*parsed->render(ordered_json::object()), "False");
  EXPECT_EQ(*parsed->render(ordered_json::object(), options()), "True");
}

TEST(ChatTemplate, ReadsJsonFromText) {
  const std::string source =
      "{%- set a = call | from_json -%}{{ a.x[1] }} {{ a.y is none }} {{ a }}";
  const auto text = [&](const char* json) { return render(source, {{"call", json}}); };
  EXPECT_EQ(*text(R"({"x": [1, 2.5], "y": null})"), "2.5 True {'x': [1, 2.5], 'y': None}");
  EXPECT_EQ(*render("{{ (call | fromjson)['x'] }}", {{"call", R"({"x": 3})"}}), "3");
  EXPECT_FALSE(text("{\"x\": ").ok());
  EXPECT_FALSE(text(std::string(100000, '[').c_str()).ok());
  EXPECT_FALSE(text((std::string(5000, '[') + std::string(5000, ']')).c_str()).ok());
  EXPECT_FALSE(render(source, {{"call", 1}}).ok());
}

TEST(ChatTemplate, ListsOfNamespacesGrowAndShrink) {
  const auto text = [](const std::string& source) {
    const auto got = render("{% set ns = namespace(ids=[]) %}" + source, ordered_json::object());
    return got.ok() ? *got : got.error().message;
  };
  const std::string fill = "{% for x in [1, 2, 3] %}{% set _ = ns.ids.append(x * 2) %}{% endfor %}";
  EXPECT_EQ(text(fill + "{{ ns.ids.pop(0) }} {{ ns.ids.pop() }} {{ ns.ids }}"), "2 6 [4]");
  EXPECT_EQ(text(fill + "{{ ns.ids.pop(-2) }} {{ ns.ids }} {{ ns.ids.append(7) }}"),
            "4 [2, 6] None");
  struct {
    const char* source;
    const char* expected;
  } const table[] = {
      {"{{ ns.ids.pop() }}", "pop() of a list of 0 items"},
      {"{{ ns.ids.append() }}", "lacks the argument 'object'"},
      {"{{ ns.ids.append(ns.ids) }}", "may not be given the same list"},
      // Here another variable, or the loop, would have to see the change.
      {"{% set a = ns.ids %}{{ ns.ids.append(1) }}", "would change it, which templates may not"},
      {"{% set ns.ids = [1] %}{% for x in ns.ids %}{{ ns.ids.append(x) }}{% endfor %}",
       "would change it, which templates may not"},
      {"{% set a = [] %}{{ a.append(1) }}", "would change it, which templates may not"},
  };
  for (const auto& [source, expected] : table)
    EXPECT_NE(text(source).find(expected), std::string::npos) << source << ": " << text(source);
}

TEST(ChatTemplate, RendersAgainWithoutRememberingTheFirstTime) {
  auto parsed = ChatTemplate::parse(
      "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ "
      "ns.n }}");
  ASSERT_TRUE(parsed.ok());
  const ordered_json context = {{"messages", {1, 2, 3}}};
  EXPECT_EQ(*parsed->render(context), "3");
  EXPECT_EQ(*parsed->render(context), "3");
}

TEST(ChatTemplate, KeepsBytesThatAreNotUtf8) {
  auto got = render("{{ x }}|{{ x | length }}|{{ x[1:] }}", {{"x", "a\xFF\xC3"}});
  ASSERT_TRUE(got.ok()) << got.error().message;
  EXPECT_EQ(*got, "a\xFF\xC3|3|\xFF\xC3");
}

}  // namespace
}  // namespace kvick::text
