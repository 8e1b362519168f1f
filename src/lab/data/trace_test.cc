#include "lab/data/trace.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

namespace kvick::lab {
namespace {

class Trace : public testing::Test {
 protected:
  std::string file(const std::string& text) {
    std::ofstream(path_) << text;
    return path_;
  }
  ~Trace() override { std::filesystem::remove(path_); }

  const std::string path_ =
      std::filesystem::temp_directory_path() / ("kvick_trace_" + std::to_string(getpid()));
};

TEST_F(Trace, LengthsAreReadAndScaledUp) {
  const auto all =
      read_lengths(file("time,prompt,answer\n2023-11-16 18:15:46.68,374,44\nx,10,1\n"), 1000);
  ASSERT_TRUE(all.ok());
  ASSERT_EQ(all->size(), 2U);
  EXPECT_EQ((*all)[0].prompt, 374U);
  EXPECT_EQ((*all)[0].answer, 44U);
  const std::vector<TraceRequest> small = scaled(*all, 0.25);
  EXPECT_EQ(small[0].prompt, 94U);
  EXPECT_EQ(small[1].answer, 1U);
}

TEST(SpreadOver, TakesRequestsAtEvenDistances) {
  std::vector<TraceRequest> all;
  for (uint32_t i = 1; i <= 10; ++i) all.push_back({.prompt = i, .answer = 1});
  const std::vector<TraceRequest> some = spread_over(all, 4);
  ASSERT_EQ(some.size(), 4U);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(some[i].prompt, (std::array{1U, 3U, 6U, 8U}[i]));
  for (const size_t count : {size_t{0}, size_t{10}, size_t{11}})
    EXPECT_EQ(spread_over(all, count).size(), 10U);
}

TEST_F(Trace, ALineThatIsNoRequestIsNamed) {
  for (const auto& [text, error] : std::vector<std::pair<std::string, std::string>>{
           {"names\nx,10,1\nx,10\n", ":3: not a time and two numbers of tokens"},
           {"names\nx,0,1\n", ":2: not a time and two numbers of tokens"},
           {"names\nx,10,-1\n", ":2: not a time and two numbers of tokens"},
           {"names\nx,900,200\n", ":2: a request of more than 1000 tokens"},
           {"names\n", " holds no request"}}) {
    const auto all = read_lengths(file(text), 1000);
    ASSERT_FALSE(all.ok()) << text;
    EXPECT_EQ(all.error().message, path_ + error);
  }
  EXPECT_EQ(read_lengths("/nowhere/t.csv", 9).error().message, "cannot read /nowhere/t.csv");
  EXPECT_NE(read_lengths("", 9).error().message.find("--file TRACE.csv"), std::string::npos);
}

TEST_F(Trace, BlocksAreReadByTheirNames) {
  const auto all =
      read_blocks(file("{\"hash_ids\": [0, 7], \"timestamp\": 0}\n{\"hash_ids\":[1]}"));
  ASSERT_TRUE(all.ok());
  ASSERT_EQ(all->size(), 2U);
  EXPECT_EQ((*all)[0].blocks, (std::vector<uint64_t>{0, 7}));
  for (const char* text : {"{}", "nothing", "{\"hash_ids\": []}", "{\"hash_ids\": [-1]}", "[1]"}) {
    const auto none = read_blocks(file(text));
    ASSERT_FALSE(none.ok()) << text;
    EXPECT_EQ(none.error().message, path_ + ":1: not an object with hash_ids");
  }
  EXPECT_EQ(read_blocks(file("")).error().message, path_ + " holds no request");
}

}  // namespace
}  // namespace kvick::lab
