#include "server/ops/client_limits.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <unistd.h>

#include "engine/artifacts/types_file.h"
#include "engine/prefix/test_conversation.h"
#include "server/testing/service.h"

namespace kvick::server {
namespace {

// Returns "PARAM: MESSAGE" of the refusal of a completion with these fields; empty: it is allowed.
std::string refusal(const std::string& fields, const ClientLimits& limits = {},
                    uint32_t context = 512) {
  const auto body = parse_json(fmt::format("{{\"prompt\":\"abc\"{}}}", fields));
  UnknownFields unknown(true);
  const auto request = parse_completion(*body, unknown);
  EXPECT_TRUE(request.ok()) << request.error().message;
  const MakeConstraint none = [](const Json&) { return base::fail("none"); };
  const std::function<uint64_t()> random = [] { return 1; };
  const auto plan = plan_completion(*request, {test_engine(), none, random});
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  const auto checked = check_limits(*plan, limits, {test_engine(), context});
  if (checked.ok()) return "";
  EXPECT_EQ(checked.error().status, 400U);
  return checked.error().param + ": " + checked.error().message;
}

std::string kv(std::string_view fields) { return fmt::format(R"(,"kv":{{{}}})", fields); }

ClientLimits limits_of(const std::vector<std::string>& names, std::string_view own = "",
                       std::string_view type = "") {
  ClientLimits limits = {.own_kv = engine::parse_kv_options(own, type).value()};
  EXPECT_TRUE(read_client_kv(names, limits).ok());
  return limits;
}

TEST(ClientLimits, LetARequestOnlyLowerItself) {
  EXPECT_EQ(refusal(""), "");
  EXPECT_EQ(refusal(R"(,"priority":0)"), "");
  EXPECT_EQ(refusal(R"(,"priority":-2147483648)"), "");
  EXPECT_EQ(refusal(R"(,"priority":1)"),
            "priority: priority is 1, but requests may have at most 0 here, which the server's "
            "--max-priority sets");
  EXPECT_NE(refusal(R"(,"priority":2147483647)", {.max_priority = 5}), "");
  EXPECT_EQ(refusal(R"(,"priority":5)", {.max_priority = 5}), "");
}

TEST(ClientLimits, LetARequestChooseTheServersOwnCacheAndSmallerTypes) {
  const ClientLimits own = limits_of({"own"}, "paged:block=16", "q8");
  for (const char* fields : {R"("strategy":"paged:block=16")", R"("type":"q8")", R"("type":"q4")",
                             R"("type":"k=q8,v=q4")", R"("select":"none")",
                             R"("strategy":"paged:block=16","type":"q4")"})
    EXPECT_EQ(refusal(kv(fields), own), "") << fields;
  EXPECT_EQ(refusal(kv(R"("strategy":"iterative")"), own),
            "kv: requests may not choose the cache strategy \"iterative\" here; the server's own "
            "is paged:block=16, and its --client-kv allows others");
  for (const char* fields : {R"("strategy":"upfront")", R"("strategy":"bmc:r=1")",
                             R"("strategy":"paged:block=1")", R"("type":"f16")", R"("type":"k=q8")",
                             R"("type":"f32")", R"("type":"kivi4")", R"("select":"quest")"})
    EXPECT_NE(refusal(kv(fields), own), "") << fields;
}

TEST(ClientLimits, CompareTypesWithThoseOfOldRowsWhereTheyChangeWithAge) {
  const ClientLimits aged = limits_of({"own"}, "", "mixed:window=64,old=q8");
  EXPECT_EQ(refusal(kv(R"("type":"mixed:window=64,old=q8")"), aged), "");
  EXPECT_EQ(refusal(kv(R"("type":"q8")"), aged), "");
  EXPECT_NE(refusal(kv(R"("type":"f16")"), aged), "");
  EXPECT_NE(refusal(kv(R"("type":"mixed:window=128,old=q8")"), aged), "");
}

TEST(ClientLimits, LetARequestChooseStatesThatAreNotLarger) {
  const ClientLimits exact = limits_of({"own"});
  const ClientLimits rounded = limits_of({"own"}, "", "mixed:window=64,old=q8,state=bf16");
  for (const char* type : {"state=bf16", "state=f32", "q8,state=bf16"})
    EXPECT_EQ(refusal(kv(fmt::format(R"("type":"{}")", type)), exact), "") << type;
  // A request that names only a type of rows has the server's states.
  for (const char* type : {"state=bf16", "mixed:window=64,old=q8", "q8", "q8,state=bf16"})
    EXPECT_EQ(refusal(kv(fmt::format(R"("type":"{}")", type)), rounded), "") << type;
  for (const char* type : {"state=f32", "q8,state=f32"})
    EXPECT_EQ(refusal(kv(fmt::format(R"("type":"{}")", type)), rounded),
              "kv: requests may not choose the cache type \"state=f32\" here; the server's own is "
              "state=bf16, and its --client-kv allows others")
        << type;
  EXPECT_EQ(refusal(kv(R"("type":"state=f32")"), limits_of({"any"}, "", "state=bf16")), "");
}

// With rounded states this file leads `auto` to rows of f32, otherwise to rows of f16.
TEST(ClientLimits, JudgeTheTypeThatIsChosenForTheStatesOfTheServer) {
  const auto engine = engine::test::engine_of_family("lfm2", 256);
  const std::string path = (std::filesystem::temp_directory_path() /
                            fmt::format("kvick-client-limits-{}.kvt", ::getpid()))
                               .string();
  const engine::TypesFile file = {
      .model = engine->identity(),
      .text = "a.txt",
      .types = {{.type = "f16", .bytes_per_token = 256},
                {.type = "f32,state=bf16", .bytes_per_token = 200, .kl_mean = 0.001}}};
  ASSERT_TRUE(engine::write_types(path, file).ok());
  Plan plan = {.jobs = std::vector<engine::Job>(1)};
  plan.jobs[0].prompt = {1, 2, 3};
  plan.jobs[0].kv = engine::parse_kv_options("", "auto:kl=0.5,file=" + path).value();
  EXPECT_TRUE(check_limits(plan, limits_of({"own"}, "", "f16"), {*engine, 256}).ok());
  const auto refused = check_limits(plan, limits_of({"own"}, "", "f16,state=bf16"), {*engine, 256});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message,
            "requests may not choose the cache type \"f32,state=bf16\" here; the server's own is "
            "f16,state=bf16, and its --client-kv allows others");
  std::filesystem::remove(path);
}

TEST(ClientLimits, LetARequestChooseWhatIsNamedOrAnything) {
  const ClientLimits named = limits_of({"own", "bmc", "f32", "mixed", "quest"});
  for (const char* fields : {R"("strategy":"bmc:r=1")", R"("type":"f32")", R"("select":"quest")",
                             R"("type":"mixed:window=64")", R"("strategy":"virtual")"})
    EXPECT_EQ(refusal(kv(fields), named), "") << fields;
  EXPECT_NE(refusal(kv(R"("strategy":"iterative")"), named), "");
  EXPECT_NE(refusal(kv(R"("select":"h2o")"), named), "");
  for (const char* fields : {R"("strategy":"iterative")", R"("type":"f32")", R"("select":"h2o")"})
    EXPECT_EQ(refusal(kv(fields), limits_of({"any"})), "") << fields;
}

// This model has no measurement, so the scheduler refuses the request later and says why.
TEST(ClientLimits, LetARequestHaveItsTypeChosenWhereThatIsNamed) {
  const ClientLimits small = limits_of({"own"}, "", "q8"), named = limits_of({"auto"}, "", "q8");
  EXPECT_NE(refusal(kv(R"("type":"auto")"), small), "");
  EXPECT_EQ(refusal(kv(R"("type":"auto:kl=0.5")"), named), "");
  EXPECT_NE(refusal(kv(R"("type":"f16")"), named), "");
}

TEST(ClientLimits, AreNamesThatExistWithoutOptions) {
  ClientLimits limits;
  for (const char* name : {"pagd", "", "paged:block=16", "k=q8,v=q4", "static8"}) {
    const auto read = read_client_kv({name}, limits);
    ASSERT_FALSE(read.ok()) << name;
    EXPECT_NE(read.error().message.find("--client-kv"), std::string::npos);
  }
  EXPECT_TRUE(limits.kv_names.empty());
}

TEST(ClientLimits, KeepAnswersToASizeThatFitsIntoMemory) {
  EXPECT_EQ(refusal(R"(,"n":64,"logprobs":20,"max_tokens":500,"echo":true)"), "");
  const std::string message = refusal(R"(,"n":64,"logprobs":20,"max_tokens":2000)", {}, 2048);
  EXPECT_TRUE(message.starts_with("logprobs: this asks for up to 2688000 logprobs")) << message;
  EXPECT_EQ(refusal(R"(,"n":64,"max_tokens":2000)", {}, 2048), "");
  EXPECT_EQ(refusal(R"(,"logprobs":20,"max_tokens":2000)", {}, 2048), "");
  // Without max_tokens an answer may fill the context.
  Plan plan;
  plan.logprobs = 20;
  plan.jobs.resize(2);
  for (engine::Job& job : plan.jobs) {
    job.prompt.assign(1000, 1);
    job.choices = 16;
    job.logprobs = 20;
  }
  EXPECT_FALSE(check_limits(plan, {}, {test_engine(), 8192}).ok());
  EXPECT_TRUE(check_limits(plan, {}, {test_engine(), 2048}).ok());
  for (engine::Job& job : plan.jobs) job.prompt_logprobs = true;
  EXPECT_TRUE(check_limits(plan, {}, {test_engine(), 2048}).ok());
  for (engine::Job& job : plan.jobs) job.prompt.assign(2'000'000, 1);
  EXPECT_FALSE(check_limits(plan, {}, {test_engine(), 2048}).ok());
}

// An answer may fill this context, as a chat's without max_tokens. Its tokens count only if they
// are reported.
TEST(ClientLimits, CountTheTokensThatAnAnswerReportsAndNameTheFieldThatAskedForThem) {
  constexpr uint32_t kContext = 131072;
  EXPECT_EQ(refusal(R"(,"max_tokens":-1,"prompt_logprobs":20)", {}, kContext), "");
  const std::string open = refusal(R"(,"max_tokens":-1,"logprobs":20)", {}, kContext);
  EXPECT_TRUE(open.starts_with("logprobs: ")) << open;
  EXPECT_NE(open.find("; set max_tokens, lower n or ask for fewer likeliest tokens"), open.npos);
  const std::string both =
      refusal(R"(,"max_tokens":130000,"logprobs":1,"prompt_logprobs":20)", {}, kContext);
  EXPECT_TRUE(both.starts_with("logprobs: ")) << both;
  EXPECT_NE(both.find("; lower max_tokens, "), both.npos) << both;
  Plan plan = {.jobs = std::vector<engine::Job>(1), .prompt_logprobs = 20};
  plan.jobs[0].prompt.assign(120'000, 1);
  plan.jobs[0].logprobs = 20;
  plan.jobs[0].prompt_logprobs = true;
  const auto long_prompt = check_limits(plan, {}, {test_engine(), kContext});
  ASSERT_FALSE(long_prompt.ok());
  EXPECT_EQ(long_prompt.error().param, "prompt_logprobs");
  EXPECT_NE(long_prompt.error().message.find("; shorten the prompt, "), std::string::npos);
}

TEST(ClientLimits, KeepRepeatedPromptsToASizeThatFitsIntoMemory) {
  Plan plan;
  plan.jobs.resize(1);
  plan.choices = 64;
  plan.echo = {std::string(500'000, 'x')};
  EXPECT_TRUE(check_limits(plan, {}, {test_engine(), 512}).ok());
  plan.echo = {std::string(600'000, 'x')};
  EXPECT_EQ(check_limits(plan, {}, {test_engine(), 512}).error().param, "echo");
}

}  // namespace
}  // namespace kvick::server
