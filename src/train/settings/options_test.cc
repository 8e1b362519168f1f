#include "train/settings/options.h"

#include <gtest/gtest.h>

#include "train/settings/test_mistake.h"

namespace kvick::train {
namespace {

TEST(Options, AreTakenInAnyOrderAndForm) {
  Options options({"lm", "--dim", "64", "--lr=0.5", "--resume", "file", "--shift", "-1.5"});
  EXPECT_EQ(options.next("the command"), "lm");
  EXPECT_EQ(options.next("the file"), "file");
  EXPECT_EQ(options.count("--dim", 1, 1, 100), 64u);
  EXPECT_EQ(options.number("--lr", 1, 0, 1), 0.5);
  EXPECT_EQ(options.number("--shift", 1, -2, 1), -1.5);
  EXPECT_EQ(options.text("--name", "none"), "none");
  EXPECT_TRUE(options.flag("--resume"));
  EXPECT_FALSE(options.flag("--json"));
  options.done();
}

TEST(Options, SayWhatIsWrong) {
  const auto with = [](std::vector<std::string> arguments, auto&& use) {
    return mistake_of([&] {
      Options options(arguments);
      use(options);
      options.done();
    });
  };
  const auto nothing = [](Options&) {};
  const auto dim = [](Options& options) { options.count("--dim", 1, 1, 100); };
  EXPECT_EQ(with({"--dmi", "3"}, nothing),
            "there is no option --dmi; kvick train lm --help lists them");
  EXPECT_EQ(with({"left"}, nothing), "unexpected argument left");
  EXPECT_EQ(with({"--dim", "3", "--dim", "4"}, dim), "--dim is given twice");
  EXPECT_EQ(with({"--dim"}, dim), "--dim needs a value");
  EXPECT_EQ(with({"--dim", "3x"}, dim), "--dim is 3x, but must be a whole number from 1 to 100");
  EXPECT_EQ(with({"--dim", "101"}, dim), "--dim is 101, but must be a whole number from 1 to 100");
  EXPECT_EQ(with({"--resume=yes"}, [](Options& options) { options.flag("--resume"); }),
            "--resume takes no value");
  EXPECT_EQ(with({"--lr", "nan"}, [](Options& options) { options.number("--lr", 1, 0, 1); }),
            "--lr is nan, but must be a number from 0 to 1");
  EXPECT_EQ(with({}, [](Options& options) { options.next("the checkpoint"); }),
            "the checkpoint is missing; kvick train --help lists what there is");
}

}  // namespace
}  // namespace kvick::train
