#include "lab/measure/selections.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "kv/registry/policies.h"
#include "lab/core/test_bench.h"

namespace kvick::lab {
namespace {

constexpr const char* kTwo[] = {"0.5", "0.125"};
constexpr std::string_view kWithFiles[] = {"duo", "kvzap", "kvzip", "loki", "maple"};

std::string error_of(const Bench& bench) {
  const auto found = selections(bench, {}, kTwo);
  return found.ok() ? "" : found.error().message;
}

TEST(Selections, AreAllPoliciesThatNeedNoFileAtEachBudget) {
  TestBench t;
  const auto all = selections(t.bench, {}, kTwo);
  ASSERT_TRUE(all.ok()) << all.error().message;
  ASSERT_EQ(all->size(), 2 * (kv::policies().size() - std::size(kWithFiles)));
  EXPECT_EQ((*all)[0].label(), "quest 50 %");
  EXPECT_EQ((*all)[1].label(), "quest 12.5 %");
  EXPECT_EQ((*all)[1].spec.options.at("budget"), "0.125");
  for (const Selected& one : *all)
    EXPECT_EQ(std::count(std::begin(kWithFiles), std::end(kWithFiles), one.policy), 0);
}

TEST(Selections, TakeFilesForThePoliciesThatNeedThem) {
  TestBench t;
  t.bench.select.predictor = "folder/r16.kvp";
  t.bench.select.components = "folder/pca.kvp";
  t.bench.select.scores = "folder/zap.kvp";
  t.bench.select.heads = "folder/heads.kvp";
  const auto all = selections(t.bench, {}, kTwo);
  ASSERT_TRUE(all.ok()) << all.error().message;
  ASSERT_EQ(all->size(), 2 * (kv::policies().size() - 1)) << "all but kvzip";
  EXPECT_EQ(all->back().policy, "maple file=r16");
  EXPECT_EQ(all->back().spec.options.at("file"), "folder/r16.kvp");
  for (const char* policy : {"loki file=pca", "kvzap file=zap", "duo file=heads"})
    EXPECT_TRUE(std::any_of(all->begin(), all->end(), [&](const Selected& one) {
      return one.policy == policy;
    })) << policy;
}

TEST(Selections, AreThoseThatWereAskedFor) {
  TestBench t;
  t.bench.select.policies = {"quest:page=8", "h2o"};
  t.bench.select.budgets = {"64"};
  const auto all = selections(t.bench, {}, kTwo);
  ASSERT_TRUE(all.ok()) << all.error().message;
  ASSERT_EQ(all->size(), 2U);
  EXPECT_EQ((*all)[0].label(), "quest page=8, 64 rows");
  EXPECT_DOUBLE_EQ(percent_of("64", 256), 25);
  EXPECT_DOUBLE_EQ(percent_of("0.125", 256), 12.5);
}

TEST(Selections, SayWhatTheyCannotBe) {
  TestBench t;
  t.bench.select.policies = {"quest:budget=0.5"};
  EXPECT_EQ(error_of(t.bench),
            "quest:budget=0.5: leave budget= out of --kv-select and give --budget");
  t.bench.select.policies = {"none"};
  EXPECT_EQ(error_of(t.bench),
            "none reads all rows, which is measured beside the policies anyway: name one");
  t.bench.select.policies = {"maple"};
  EXPECT_EQ(error_of(t.bench), "maple needs a file: --predictor FILE.kvp");
  t.bench.select.policies = {"loki"};
  EXPECT_EQ(error_of(t.bench), "loki needs a file: --components FILE.kvp");
  t.bench.select.policies = {"duo"};
  EXPECT_EQ(error_of(t.bench), "duo needs a file: --heads FILE.kvp");
  t.bench.select.policies = {"kvzip"};
  EXPECT_EQ(error_of(t.bench), "kvzip needs a file: --kv-select kvzip:file=FILE.kvp");
  t.bench.select.policies = {"kvzap:file=a/zap.kvp", "kvzap:file=b/zap.kvp"};
  EXPECT_EQ(error_of(t.bench),
            "two policies are called kvzap file=zap 50 %: give each policy and budget once, and "
            "files with different names");
  t.bench.select.policies = {"h2o"};
  t.bench.select.budgets = {"0.25", "0.250"};
  EXPECT_NE(error_of(t.bench).find("two policies are called h2o 25 %"), std::string::npos)
      << error_of(t.bench);
  t.bench.select.budgets = {};
  t.bench.select.policies = {"nonsense"};
  EXPECT_NE(error_of(t.bench).find("unknown policy \"nonsense\""), std::string::npos);
}

}  // namespace
}  // namespace kvick::lab
