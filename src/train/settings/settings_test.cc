#include "train/settings/settings.h"

#include <gtest/gtest.h>

#include "train/settings/test_mistake.h"

namespace kvick::train {
namespace {

Settings with(const std::vector<std::string>& arguments) {
  Options options(arguments);
  Settings settings = read_settings(options, {});
  settings.model.vocab = 257;
  options.done();
  complete(settings);
  return settings;
}

std::string mistake_of(const std::vector<std::string>& arguments) {
  return train::mistake_of([&] { with(arguments); });
}

TEST(Settings, WhatIsNotGivenFollowsFromTheRest) {
  const ModelSettings model = with({"--dim", "384", "--heads", "6"}).model;
  EXPECT_EQ(model.kv_heads, 6u);
  EXPECT_EQ(model.head_dim, 64u);
  EXPECT_EQ(model.ffn, 1024u);
}

TEST(Settings, SurviveTheirTextExactly) {
  const Settings settings =
      with({"--lr", "0.0007", "--update", "gated", "--seed", "18446744073709551615"});
  const Settings again = settings_from_text(to_text(settings));
  EXPECT_EQ(to_text(again), to_text(settings));
  EXPECT_EQ(again.run.lr, 0.0007);
  EXPECT_EQ(again.run.seed, UINT64_MAX);
  EXPECT_EQ(differing(settings, again), "");
}

TEST(Settings, DifferByNameButForTheLengthOfTheRun) {
  EXPECT_EQ(differing(with({"--steps", "3"}), with({"--steps", "4"})), "");
  EXPECT_EQ(differing(with({"--lr", "1"}), with({"--batch", "4"})), "--batch, --lr");
}

TEST(Settings, AreRefusedWhereTheEngineCouldNotLoadTheModel) {
  EXPECT_EQ(mistake_of({"--dim", "100"}),
            "--head-dim is 25, but must be a multiple of 32 up to 256");
  EXPECT_EQ(mistake_of({"--dim", "100", "--head-dim", "32"}),
            "--dim is 100, but must be a multiple of 32");
  EXPECT_EQ(mistake_of({"--heads", "8", "--kv-heads", "3"}),
            "--heads 8 is not a multiple of --kv-heads 3");
  EXPECT_EQ(mistake_of({"--update", "more"}),
            "--update is more; there are plain, step, gated, delta");
  EXPECT_EQ(mistake_of({"--address", "next"}), "--address is next; there are own, both");
  EXPECT_EQ(mistake_of({"--read", "mean"}), "--read is mean; there are plain, normed");
  EXPECT_EQ(mistake_of({"--shortest", "1"}),
            "--shortest and --longest must be above 1: a memory of 1 token keeps nothing");
  EXPECT_EQ(mistake_of({"--layers", "0"}), "--layers must be larger");
}

}  // namespace
}  // namespace kvick::train
