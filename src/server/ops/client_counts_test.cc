#include "server/ops/client_counts.h"

#include <gtest/gtest.h>
#include <thread>
#include <vector>

#include "server/testing/api.h"

namespace kvick::server {
namespace {

using Who = ClientCounts::Client;
using HeldReplies = std::vector<std::shared_ptr<Reply>>;

// Takes one more place for a client and returns the status.
unsigned status_of_one_more(ClientCounts& counts, const Who& client, HeldReplies& held) {
  static Seen seen;
  EXPECT_EQ(counts.check(client).ok(), true);
  auto reply = counts.count(client, std::make_shared<RecordedReply>(seen));
  if (!reply.ok()) return reply.error().status;
  held.push_back(*std::move(reply));
  return 200;
}

TEST(ClientCounts, RefuseWhatIsMoreThanAKeyOrAnAddressMayHave) {
  ClientCounts counts({.per_key = 2, .per_address = 3});
  HeldReplies held;
  const Who a = {.key = 1, .address = "10.0.0.1"}, b = {.key = 2, .address = "10.0.0.1"},
            elsewhere = {.key = 1, .address = "10.0.0.2"};
  EXPECT_EQ(status_of_one_more(counts, a, held), 200U);
  EXPECT_EQ(status_of_one_more(counts, a, held), 200U);
  const ApiStatus of_key = counts.check(elsewhere);
  ASSERT_FALSE(of_key.ok());
  EXPECT_EQ(of_key.error().status, 429U);
  EXPECT_EQ(of_key.error().headers, (Headers{{"Retry-After", "1"}}));
  EXPECT_NE(of_key.error().message.find("--max-requests-per-key"), std::string::npos);
  EXPECT_EQ(status_of_one_more(counts, b, held), 200U);
  const ApiStatus of_address = counts.check(b);
  ASSERT_FALSE(of_address.ok());
  EXPECT_NE(of_address.error().message.find("--max-requests-per-address"), std::string::npos);
  EXPECT_FALSE(counts.count(b, held.front()).ok());
  held.clear();
  EXPECT_EQ(status_of_one_more(counts, elsewhere, held), 200U);
  EXPECT_EQ(status_of_one_more(counts, b, held), 200U);
}

TEST(ClientCounts, HaveNoLimitUnlessOneIsAskedFor) {
  ClientCounts none({}), only_keys({.per_key = 1, .per_address = 0});
  HeldReplies held;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(status_of_one_more(none, {.key = 1, .address = "10.0.0.1"}, held), 200U);
    EXPECT_EQ(status_of_one_more(only_keys, {.key = 0, .address = "10.0.0.1"}, held),
              200U);  // the limit per key does not apply without a key
  }
}

TEST(ClientCounts, CountRightThoughManyThreadsComeAndGo) {
  ClientCounts counts({.per_key = 0, .per_address = 4});
  Seen seen;
  const auto reply = std::make_shared<RecordedReply>(seen);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i)
        EXPECT_TRUE(counts.count({.key = 0, .address = "::1"}, reply).ok());
    });
  for (std::thread& thread : threads) thread.join();
  HeldReplies held;
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(status_of_one_more(counts, {.key = 0, .address = "::1"}, held), 200U);
  EXPECT_FALSE(counts.check({.key = 0, .address = "::2"}).ok());  // the same network
}

TEST(ClientNetwork, IsTheAddressOrTheNetworkThatOneClientHasAllOf) {
  EXPECT_EQ(client_network("10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(client_network("::ffff:10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(client_network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
  EXPECT_EQ(client_network("2001:db8:1:2::9"), client_network("2001:db8:1:2:ffff::1"));
  EXPECT_NE(client_network("2001:db8:1:3::9"), client_network("2001:db8:1:2::9"));
  EXPECT_EQ(client_network("fe80::1%eth0"), "fe80::/64");
  EXPECT_EQ(client_network(""), "");
}

// A generation counts until its answer has ended; other routes do not count.
TEST_F(ApiTest, RefusesMoreRequestsAtOnceThanAClientMayHave) {
  make([](ApiOptions& options) { options.counts = {.per_key = 0, .per_address = 1}; });
  const auto copy = [&](const char* address = "10.0.0.1", const char* path = "/v1/completions") {
    return HttpRequest{.method = "POST",
                       .target = path,
                       .content_type = "application/json",
                       .body = R"({"prompt":"x"})",
                       .address = address};
  };
  Seen first, second, other, tokens, again;
  call(first, copy());
  const auto by_head = api_->refuses(copy());
  ASSERT_TRUE(by_head.has_value());
  EXPECT_EQ(by_head->status, 429U);
  call(second, copy());
  EXPECT_EQ(second.response.status, 429U);
  EXPECT_EQ(second.json()["error"]["code"], "too_many_requests");
  EXPECT_EQ(second.json()["error"]["type"], "rate_limit_error");
  call(other, copy("10.0.0.2"));
  call(tokens, copy("10.0.0.1", "/tokenize"));
  EXPECT_EQ(tokens.response.status, 200U);
  ASSERT_EQ(service_.jobs.size(), 2U);
  answer(0), end(0);
  EXPECT_EQ(first.response.status, 200U);
  call(again, copy());
  EXPECT_EQ(service_.jobs.size(), 3U);
}

TEST_F(ApiTest, RefusesBeforeItReadsATextWhereTheQueueIsFull) {
  service_.full = true;
  service_.refusal = {engine::Refusal::Why::kBusy, "full", "", 7.2};
  for (const char* path : {"/v1/completions", "/v1/embeddings"}) {
    // An invalid body, but it is refused before it is parsed.
    const Seen busy = posted(path, R"({"prompt":7})");
    EXPECT_EQ(busy.response.status, 503U);
    EXPECT_EQ(busy.response.headers, (Headers{{"Retry-After", "8"}}));
  }
  service_.refusal.retry_seconds = 1e9;
  EXPECT_EQ(posted("/v1/completions", "{}").response.headers.front().second, "60");
  EXPECT_TRUE(service_.jobs.empty());
}

}  // namespace
}  // namespace kvick::server
