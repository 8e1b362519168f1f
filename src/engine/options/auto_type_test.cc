#include "engine/options/auto_type.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <unistd.h>

#include "engine/core/test_engine.h"

namespace kvick::engine {
namespace {

namespace fs = std::filesystem;

class AutoType : public testing::Test {
 protected:
  AutoType()
      : engine_(wide_engine()),
        path_((fs::temp_directory_path() / fmt::format("kvick-auto-{}.kvt", getpid())).string()) {}
  ~AutoType() override { fs::remove(path_); }

  void measured(const std::vector<TypeMeasured>& types) const {
    const TypesFile file = {.model = engine_->identity(), .text = "a.txt", .types = types};
    ASSERT_TRUE(write_types(path_, file).ok());
  }
  KvOptions automatic(const std::string& kl, std::string_view strategy = "",
                      std::string_view select = "") const {
    return parse_kv_options(strategy, "auto:kl=" + kl + ",file=" + path_, "", select).value();
  }
  std::string chosen(const std::string& kl, std::string_view strategy = "",
                     std::string_view select = "") const {
    return kv_type_text(engine_->resolved(automatic(kl, strategy, select)));
  }

  std::unique_ptr<Engine> engine_;
  std::string path_;
};

const std::vector<TypeMeasured> kMeasured = {
    {.type = "f16", .bytes_per_token = 256},
    {.type = "q8", .bytes_per_token = 136, .kl_mean = 0.004},
    {.type = "kivi4:window=128", .bytes_per_token = 100, .kl_mean = 0.006},
    {.type = "q4", .bytes_per_token = 72, .kl_mean = 0.2},
    {.type = "q4:rotate=on", .bytes_per_token = 72, .kl_mean = 0.05}};

TEST_F(AutoType, FewestBytesWithinTheBoundAndTheNearerOfAsMany) {
  measured(kMeasured);
  EXPECT_EQ(chosen("0"), "f16");
  EXPECT_EQ(chosen("0.005"), "q8");
  // A margin of a quarter is kept for other texts.
  EXPECT_EQ(chosen("0.007"), "q8");
  EXPECT_EQ(chosen("0.0076"), "kivi4:window=128");
  EXPECT_EQ(chosen("0.06"), "kivi4:window=128");
  EXPECT_EQ(chosen("0.07"), "q4:rotate=on");
  EXPECT_EQ(chosen("1"), "q4:rotate=on");
}

// This model keeps no states, so none are rounded.
TEST_F(AutoType, NotWhatWasMeasuredWithOtherStates) {
  std::vector<TypeMeasured> types = kMeasured;
  types.push_back({.type = "q8,state=bf16", .bytes_per_token = 50, .kl_mean = 0.001});
  measured(types);
  EXPECT_EQ(chosen("0.01"), "kivi4:window=128");
  EXPECT_EQ(chosen("1"), "q4:rotate=on");
}

// Requests may name any number of bounds; the choices that are remembered have a limit.
TEST_F(AutoType, AnyNumberOfBoundsMayBeAskedFor) {
  measured(kMeasured);
  for (int kl = 1; kl < 700; ++kl)
    EXPECT_EQ(chosen(fmt::format("0.{:06}", kl * 100)), kl < 50    ? "f16"
                                                        : kl < 75  ? "q8"
                                                        : kl < 625 ? "kivi4:window=128"
                                                                   : "q4:rotate=on")
        << kl;
}

TEST_F(AutoType, OnlyTypesThatTheStrategyTakes) {
  measured(kMeasured);
  EXPECT_EQ(chosen("0.01", "paged"), "kivi4:window=128");
  EXPECT_EQ(chosen("0.01", "sliding"), "q8");  // its rows cannot change with age
  EXPECT_FALSE(engine_->check_kv(parse_kv_options("sliding", "kivi4").value()).ok());
}

TEST_F(AutoType, StoresAreOfTheChosenType) {
  measured(kMeasured);
  const auto store = engine_->make_store(automatic("0.07")).value();
  EXPECT_EQ(store->shape().k_type, kernels::DType::kQ4);
  EXPECT_TRUE(store->shape().hadamard.k);
  EXPECT_TRUE(engine_->check_kv(automatic("0.07")).ok());
}

TEST_F(AutoType, WhatIsMissingIsSaidAndRowsAreNotChosenBlindly) {
  const auto refusal = [&](const KvOptions& options) {
    return engine_->make_store(options).error().message;
  };
  const std::string head =
      "--kv-type auto: this model's types have not been measured: there is no ";
  const std::string tail = "; kvick train kvtypes -m MODEL -f TEXT writes it";
  EXPECT_EQ(refusal(automatic("0.01")), head + path_ + tail);
  // Without the folder, which clients need not know.
  const std::string beside = refusal(parse_kv_options("", "auto").value());
  EXPECT_EQ(beside.find('/'), std::string::npos) << beside;
  EXPECT_NE(beside.find(".kvt beside it" + tail), std::string::npos) << beside;
  EXPECT_FALSE(engine_->check_kv(automatic("0.01")).ok());
  measured({kMeasured.back()});
  EXPECT_EQ(
      refusal(automatic("0.01")),
      "--kv-type auto: of the types measured in " + path_ +
          " none fits the other options and stays within a KL of 0.01 of f16, with a quarter to "
          "spare: give a larger kl, or a type");
  EXPECT_EQ(chosen("0.07"), "q4:rotate=on");
}

TEST(AutoTypeOption, IsReadAndWritten) {
  const auto read = [](std::string_view text) { return parse_kv_options("", text).value(); };
  EXPECT_EQ(kv_type_text(read("auto")), "auto:kl=0.01");
  EXPECT_EQ(kv_type_text(read("auto:file=a/b.kvt,kl=0.5")), "auto:kl=0.5,file=a/b.kvt");
  EXPECT_TRUE(read("auto").names_types());
  EXPECT_FALSE(KvOptions{}.names_types());
  const auto refusal = [](std::string_view text) {
    return parse_kv_options("", text).error().message;
  };
  EXPECT_EQ(refusal("auto:loss=1"), "the type auto has no option 'loss'; it has kl, file");
  EXPECT_EQ(refusal("k=auto,v=q4"),
            "auto chooses the types of keys and values together: write it alone, --kv-type auto");
  EXPECT_NE(refusal("auto:kl=-1").find("kl='-1'"), std::string::npos);
}

}  // namespace
}  // namespace kvick::engine
