#include "server/watch/trace_context.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace kvick::server {
namespace {

constexpr const char* kTrace = "0af7651916cd43dd8448eb211c80319c";
constexpr const char* kParent = "b7ad6b7169203331";

TEST(TraceParent, IsReadAndWrittenAsTheW3cHasIt) {
  const std::string header = fmt::format("00-{}-{}-01", kTrace, kParent);
  const auto context = read_trace_parent(header);
  ASSERT_TRUE(context);
  EXPECT_EQ(context->trace, kTrace);
  EXPECT_EQ(context->parent, kParent);
  EXPECT_TRUE(context->sampled);
  EXPECT_EQ(trace_parent_text(*context), header);
  EXPECT_FALSE(read_trace_parent(fmt::format("00-{}-{}-02", kTrace, kParent))->sampled);
  EXPECT_TRUE(read_trace_parent(fmt::format("cc-{}-{}-01-later", kTrace, kParent)));
}

TEST(TraceParent, IsLeftAloneWhereItIsNone) {
  const std::string none(32, '0');
  for (const std::string& header :
       {std::string(), std::string("00"), fmt::format("00-{}-{}-01", none, kParent),
        fmt::format("00-{}-{}-01", kTrace, none.substr(16)),
        fmt::format("ff-{}-{}-01", kTrace, kParent), fmt::format("00-{}-{}-0g", kTrace, kParent),
        fmt::format("00-{}-{}-01-later", kTrace, kParent),
        fmt::format("00-{}+{}-01", kTrace, kParent)})
    EXPECT_FALSE(read_trace_parent(header)) << header;
}

}  // namespace
}  // namespace kvick::server
