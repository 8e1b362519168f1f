// The short texts that go over the wire: events, heads, errors, paths, metrics, keys.

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

#include "server/net/sse.h"
#include "server/ops/api_keys.h"
#include "server/ops/cache_json.h"
#include "server/ops/metrics_text.h"
#include "server/request/error.h"
#include "server/request/target.h"

namespace kvick::server {
namespace {

TEST(Sse, FramesEventsAsChunks) {
  EXPECT_EQ(sse_event("{}"), "data: {}\n\n");
  EXPECT_EQ(stream_chunk("0123456789abcdef!", {}), "11\r\n0123456789abcdef!\r\n");
  EXPECT_EQ(stream_end({}), "0\r\n\r\n");
  EXPECT_NE(stream_head({}).find("Transfer-Encoding: chunked\r\n"), std::string::npos);
}

TEST(Sse, SendsNoChunksToHttp10) {
  const Framing old = {.http_1_1 = false, .keep_alive = false};
  EXPECT_EQ(stream_chunk("x", old), "x");
  EXPECT_EQ(stream_end(old), "");
  EXPECT_EQ(stream_head(old).find("Transfer-Encoding"), std::string::npos);
}

TEST(Sse, HasFurtherHeadersBeforeItsEvents) {
  const std::string head = stream_head({}, {.headers = {{"X-A", "b"}}});
  EXPECT_NE(head.find("\r\nX-A: b\r\n"), std::string::npos);
  EXPECT_TRUE(head.ends_with("\r\n\r\n"));
}

TEST(Framing, LeavesTheBodyOutOfAnAnswerToHead) {
  const HttpResponse response = {.body = "12345", .headers = {{"Allow", "GET"}}};
  const std::string whole = framed(response, {});
  EXPECT_TRUE(whole.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_NE(whole.find("\r\nContent-Length: 5\r\n"), std::string::npos);
  EXPECT_NE(whole.find("\r\nAllow: GET\r\n"), std::string::npos);
  EXPECT_TRUE(whole.ends_with("\r\n\r\n12345"));
  EXPECT_TRUE(framed(response, {.without_body = true}).ends_with("\r\n\r\n"));
}

TEST(Framing, SaysOnceWhoMayKeepAnAnswer) {
  EXPECT_NE(framed({}, {}).find("\r\nCache-Control: no-store\r\n"), std::string::npos);
  const std::string own = framed({.headers = {{"Cache-Control", "no-cache"}}}, {});
  EXPECT_NE(own.find("\r\nCache-Control: no-cache\r\n"), std::string::npos);
  EXPECT_EQ(own.find("no-store"), std::string::npos);
}

TEST(ApiErrors, HaveOpenAisForm) {
  const ApiError error = bad_field("n", "n is {}", 3);
  EXPECT_EQ(
      error_response(error).body,
      R"({"error":{"message":"n is 3","type":"invalid_request_error","param":"n","code":null}})");
  const HttpResponse busy = error_response({.status = 429, .message = "m", .code = "busy"});
  EXPECT_EQ(busy.status, 429U);
  EXPECT_EQ(busy.body,
            R"({"error":{"message":"m","type":"rate_limit_error","param":null,"code":"busy"}})");
}

TEST(Targets, AreDecodedAndLoseTheirQuery) {
  EXPECT_EQ(path_of("/v1/models?x=/y"), "/v1/models");
  EXPECT_EQ(path_of("http://host:80/a%2Fb%20c"), "/a/b c");
  EXPECT_EQ(path_of("http://host"), "/");
  EXPECT_EQ(path_of("/a?u=http://b/"), "/a");
  for (const char* wrong : {"", "*", "x", "/%", "/%2", "/%zz", "?/"}) EXPECT_EQ(path_of(wrong), "");
}

TEST(Targets, HaveAQueryWhoseFieldsAreFound) {
  EXPECT_EQ(query_of("/a?limit=2&after=x%20y#z", "limit"), "2");
  EXPECT_EQ(query_of("/a?limit=2&after=x%20y#z", "after"), "x y");
  EXPECT_EQ(query_of("/a?mylimit=3&limits=4&limit", "limit"), "");
  for (const char* none : {"", "/a", "/a?", "/a?&&", "/a#?limit=1", "/a?limit=%2"})
    EXPECT_EQ(query_of(none, "limit"), "");
}

constexpr RouteName kRoutes[] = {{"GET", "/a"},          {"POST", "/a"},     {"GET", "/m"},
                                 {"GET", "/m/{id}/all"}, {"GET", "/m/{id}"}, {"POST", "/p"}};

TEST(Routes, AreFoundByMethodAndPath) {
  EXPECT_EQ(match(kRoutes, "GET", "/a")->route, 0U);
  EXPECT_EQ(match(kRoutes, "HEAD", "/a")->route, 0U);
  EXPECT_EQ(match(kRoutes, "POST", "/a")->route, 1U);
  EXPECT_EQ(match(kRoutes, "GET", "/m")->route, 2U);
  EXPECT_EQ(match(kRoutes, "GET", "/m/org/name")->route, 4U);
  EXPECT_EQ(match(kRoutes, "GET", "/m/org/name")->argument, "org/name");
  EXPECT_EQ(match(kRoutes, "GET", "/m/org/name/all")->route, 3U);
  EXPECT_EQ(match(kRoutes, "GET", "/m/org/name/all")->argument, "org/name");
  EXPECT_EQ(match(kRoutes, "GET", "/m/all")->argument, "all");
}

TEST(Routes, SayWhatThereIsInstead) {
  EXPECT_EQ(match(kRoutes, "GET", "/b").error().status, 404U);
  EXPECT_EQ(match(kRoutes, "GET", "/m/").error().status, 404U);
  EXPECT_EQ(match(kRoutes, "GET", "").error().status, 404U);
  const ApiError error = match(kRoutes, "PUT", "/a").error();
  EXPECT_EQ(error.status, 405U);
  EXPECT_EQ(error.headers.front(), std::pair(std::string("Allow"), std::string("GET, HEAD, POST")));
  EXPECT_EQ(match(kRoutes, "HEAD", "/p").error().status, 405U);
}

TEST(Routes, SayWhereTheClientsBaseUrlIsWrong) {
  constexpr RouteName kVersions[] = {{"POST", "/v1/chat"}, {"GET", "/v1/m/{id}"}};
  const auto said = [&](const char* path) {
    const ApiError error = match(kVersions, "POST", path).error();
    EXPECT_EQ(error.status, 404U) << path;
    return error.message;
  };
  EXPECT_EQ(said("/chat"),
            "there is nothing at \"/chat\", but at \"/v1/chat\"; add /v1 to the client's base URL");
  EXPECT_EQ(said("/v1/v1/m/a"),
            "there is nothing at \"/v1/v1/m/a\", but at \"/v1/m/a\"; leave /v1 out of the client's "
            "base URL");
  EXPECT_EQ(
      said("//v1/chat"),
      "there is nothing at \"//v1/chat\", but at \"/v1/chat\"; take the extra slash out of the "
      "client's URL");
  for (const char* extra : {"/v1//chat", "/v1/chat/", "//v1///chat//"})
    EXPECT_NE(said(extra).find("but at \"/v1/chat\"; take"), std::string::npos) << extra;
  for (const char* none : {"//x", "/x/"})
    EXPECT_EQ(said(none).find("extra slash"), std::string::npos) << none;
  for (const char* none : {"/x", "/v1/v1/x", "/v1/x", ""})
    EXPECT_EQ(said(none).find("base URL"), std::string::npos) << none;
}

TEST(MetricsText, CountsInBucketsAllThatIsBelowTheirBound) {
  engine::Metrics metrics;
  metrics.finished = 3;
  for (const double seconds : {0.0005, 0.002, 0.002, 1000.0}) metrics.first_token.add(seconds);
  const std::string text = service_metrics_text(metrics) + network_metrics_text({.slow = 2});
  for (const char* line :
       {"# TYPE kvick_first_token_seconds histogram\n",
        "\nkvick_first_token_seconds_bucket{le=\"0.001\"} 1\n",
        "\nkvick_first_token_seconds_bucket{le=\"0.0025\"} 3\n",
        "\nkvick_first_token_seconds_bucket{le=\"250\"} 3\n",
        "\nkvick_first_token_seconds_bucket{le=\"1000\"} 4\n",
        "\nkvick_first_token_seconds_bucket{le=\"+Inf\"} 4\n",
        "\nkvick_first_token_seconds_count 4\n", "\nkvick_jobs_total{end=\"finished\"} 3\n",
        "\nkvick_http_dropped_total{why=\"slow_reader\"} 2\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line;
}

TEST(MetricsText, TellsWhyFilesWereOfNoUse) {
  engine::Metrics metrics;
  metrics.files = {.missing = 2, .failed_writes = 3, .dropped_writes = 4};
  const std::string text = service_metrics_text(metrics);
  for (const char* line :
       {"{event=\"missing\"} 2\n", "{event=\"failed_write\"} 3\n", "{event=\"dropped_write\"} 4\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line;
}

TEST(MetricsText, ShowsWhatPoliciesMiss) {
  EXPECT_EQ(service_metrics_text({}).find("lost_mass"), std::string::npos);
  engine::Metrics metrics;
  metrics.checks["quest"] = {.count = 8, .lost_mass = 0.25};
  const std::string text = service_metrics_text(metrics);
  for (const char* line : {"# TYPE kvick_kv_select_lost_mass summary\n",
                           "\nkvick_kv_select_lost_mass_sum{policy=\"quest\"} 0.25\n",
                           "\nkvick_kv_select_lost_mass_count{policy=\"quest\"} 8\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line;
}

TEST(MetricsText, SaysWhereExpertsWere) {
  EXPECT_EQ(service_metrics_text({}).find("expert"), std::string::npos);
  engine::Metrics metrics;
  metrics.experts = {.limit_bytes = 900,
                     .resident_bytes = 800,
                     .all_bytes = 1600,
                     .resident = 8,
                     .all = 16,
                     .hits = 3,
                     .misses = 1,
                     .read_bytes = 1000};
  const std::string text = service_metrics_text(metrics);
  for (const char* line :
       {"\nkvick_expert_limit_bytes 900\n", "\nkvick_expert_bytes 800\n", "\nkvick_experts 8\n",
        "\nkvick_experts_on_disk 8\n", "\nkvick_expert_uses_total{found=\"memory\"} 3\n",
        "\nkvick_expert_uses_total{found=\"disk\"} 1\n", "\nkvick_expert_hit_rate 0.75\n",
        "\nkvick_expert_read_bytes_total 1000\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
}

TEST(MetricsText, ShowsInstancesWhereThereAreSeveral) {
  EXPECT_EQ(service_metrics_text({}).find("instance"), std::string::npos);
  std::vector<engine::Metrics> instances(2);
  instances[1].running = 5;
  instances[1].kv.used_bytes = 6;
  const std::string text = service_metrics_text({}, instances);
  for (const char* line : {"\nkvick_instance_jobs{instance=\"0\",state=\"running\"} 0\n",
                           "\nkvick_instance_jobs{instance=\"1\",state=\"running\"} 5\n",
                           "\nkvick_instance_kv_bytes{instance=\"1\",what=\"used\"} 6\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line;
}

TEST(MetricsText, NamesEachFamilyOnceAndEndsEveryLine) {
  const std::string text = service_metrics_text({}, std::vector<engine::Metrics>(2));
  std::vector<std::string> types;
  std::string line;
  for (std::istringstream in(text); std::getline(in, line);)
    if (line.starts_with("# TYPE ")) types.push_back(line);
  std::sort(types.begin(), types.end());
  EXPECT_EQ(std::adjacent_find(types.begin(), types.end()), types.end());
  EXPECT_TRUE(text.ends_with('\n'));
}

TEST(CacheJson, ShowsStoresPiecesAndSequences) {
  engine::CacheState state = {.limit_bytes = 9};
  state.stores.push_back(
      {.instance = 1, .strategy = "paged", .type = "q8", .pieces = {{.bytes = 5, .users = 2}}});
  state.sequences.push_back({.job = 3, .state = engine::JobState::kSwapped});
  const Json json = cache_json(state);
  EXPECT_EQ(json["limit_bytes"], 9);
  EXPECT_EQ(json["stores"][0]["strategy"], "paged");
  EXPECT_EQ(json["stores"][0]["instance"], 1);
  EXPECT_EQ(json["stores"][0]["pieces"][0]["users"], 2);
  EXPECT_EQ(json["sequences"][0]["state"], "swapped");
}

TEST(ApiKeys, AdmitOnlyTheWholeKey) {
  const ApiKeys keys({"secret", "other"});
  EXPECT_TRUE(keys.admit("Bearer secret"));
  EXPECT_TRUE(keys.admit("bearer other"));
  for (const char* wrong : {"", "Bearer", "Bearer ", "Bearer secre", "Bearer secret1",
                            "Bearer  secret", "Basic secret", "secret", "Bearer Secret"})
    EXPECT_FALSE(keys.admit(wrong)) << wrong;
  EXPECT_TRUE(ApiKeys().admit(""));
}

TEST(ApiKeys, AreReadFromAFileOneALine) {
  const std::string path = testing::TempDir() + fmt::format("kvick_keys_{}", getpid());
  const auto read = [&](const char* text) {
    std::ofstream(path) << text;
    const auto keys = read_api_keys(path);
    std::filesystem::remove(path);
    return keys;
  };
  const auto keys = read("# mine\n\nabc\r\ndef\n");
  ASSERT_TRUE(keys.ok());
  EXPECT_TRUE(keys->admit("Bearer abc") && keys->admit("Bearer def"));
  EXPECT_FALSE(keys->admit("Bearer # mine"));
  EXPECT_FALSE(read("\n#x\n").ok());
  EXPECT_FALSE(read("a b\n").ok());
  EXPECT_FALSE(read_api_keys(path).ok());
}

}  // namespace
}  // namespace kvick::server
