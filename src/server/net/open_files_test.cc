#include "server/net/open_files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace kvick::server {
namespace {

rlimit limit_now() {
  rlimit limit = {};
  EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  return limit;
}

TEST(OpenFiles, MayBeAsManyAsTheSystemAllowsAndNeverFewerThanBefore) {
  const rlimit before = limit_now();
  ASSERT_GE(before.rlim_max, 200U);
  rlimit low = before;
  low.rlim_cur = 100;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(allow_open_files(150), 150U);
  EXPECT_EQ(limit_now().rlim_cur, 150U);
  EXPECT_EQ(allow_open_files(120), 150U);
  EXPECT_EQ(limit_now().rlim_cur, 150U);
  EXPECT_EQ(limit_now().rlim_max, before.rlim_max);
  if (before.rlim_max != RLIM_INFINITY) {
    EXPECT_EQ(allow_open_files(uint64_t{before.rlim_max} + 1), before.rlim_max);
    EXPECT_EQ(limit_now().rlim_cur, before.rlim_max);
  }
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace kvick::server
