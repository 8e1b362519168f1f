#include "plan/machine/calibration_file.h"

#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace kvick::plan {
namespace {

namespace fs = std::filesystem;

class CalibrationFile : public testing::Test {
 protected:
  CalibrationFile() { fs::remove_all(folder_); }
  ~CalibrationFile() override { fs::remove_all(folder_); }

  fs::path folder_ = testing::TempDir() + "kvick_calibration_" + std::to_string(getpid());
  Calibration calibration_ = {
      .machine = {.cpu = "A \"B\" C", .cores = 4, .isa = "avx2", .threads = 3},
      .moment = {.at = 1795000000, .others = 0.25, .spread = 0.125},
      .read = {{1 << 20, 3.5e10}, {uint64_t{1} << 40, 0.1}},
      .int8_ops_s = 1e12 / 3,
      .f32_ops_s = 7,
      .bf16_ops_s = 3e12 / 7,
      .tile_ops_s = 2e12 / 3};
};

TEST_F(CalibrationFile, GivesBackWhatWasWritten) {
  ASSERT_TRUE(write_calibration(folder_ / "deep" / "er", calibration_).ok());
  EXPECT_EQ(read_calibration(folder_ / "deep" / "er", calibration_.machine), calibration_);
  calibration_.f32_ops_s = 8;
  calibration_.bf16_ops_s = calibration_.tile_ops_s = 0;  // a machine without these operations
  calibration_.moment.others.reset();
  calibration_.moment.raised_at = 1795000001;
  ASSERT_TRUE(write_calibration(folder_ / "deep" / "er", calibration_).ok());
  EXPECT_EQ(read_calibration(folder_ / "deep" / "er", calibration_.machine), calibration_);
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder_ / "deep" / "er"))
    ++files;
  EXPECT_EQ(files, 1u) << "something was left behind";
}

TEST_F(CalibrationFile, IsNotThatOfAnotherMachine) {
  ASSERT_TRUE(write_calibration(folder_, calibration_).ok());
  const std::string cpu = calibration_.machine.cpu;
  const Machine others[] = {
      {"another", 4, "avx2", 3}, {cpu, 8, "avx2", 3}, {cpu, 4, "avx512", 3}, {cpu, 4, "avx2", 4}};
  for (const Machine& other : others) {
    EXPECT_EQ(read_calibration(folder_, other), std::nullopt);
    Calibration theirs = calibration_;
    theirs.machine = other;
    ASSERT_TRUE(write_calibration(folder_, theirs).ok());
    EXPECT_EQ(read_calibration(folder_, other), theirs);
  }
  EXPECT_EQ(read_calibration(folder_, calibration_.machine), calibration_)
      << "machines with one home folder do not rewrite each other's";
  fs::rename(calibration_path(folder_, calibration_.machine), calibration_path(folder_, others[3]));
  EXPECT_EQ(read_calibration(folder_, others[3]), std::nullopt)
      << "what is in the file counts, not its name";
}

TEST_F(CalibrationFile, HasANameThatPeopleCanRead) {
  const Machine machine = {"Intel(R) Xeon(R), family 6, model 207, stepping 2", 8, "amx", 4};
  EXPECT_EQ(
      calibration_path("f", machine).string(),
      "f/calibration-intel-r-xeon-r-family-6-model-207-stepping-2-8-cores-amx-4-threads.json");
}

TEST_F(CalibrationFile, OfAnEarlierVersionIsMeasuredAgain) {
  EXPECT_EQ(parse_calibration(R"({"version": 2, "cpu": "x", "isa": "avx2", "threads": 2,
      "read": [{"bytes": 4194304, "bytes_s": 1e10}], "int8_ops_s": 1e9, "f32_ops_s": 1e9,
      "tile_ops_s": 0.0})"),
            std::nullopt);
}

TEST_F(CalibrationFile, IsNoneWhereItIsDamaged) {
  const std::string good = calibration_json(calibration_).dump();
  ASSERT_EQ(parse_calibration(good), calibration_);
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_EQ(parse_calibration(good.substr(0, length)), std::nullopt) << length;
  const auto without = [&](const char* key) {
    auto object = calibration_json(calibration_);
    object.erase(key);
    return parse_calibration(object.dump());
  };
  for (const char* key :
       {"version", "cpu", "cores", "isa", "threads", "measured_at", "others_share", "spread",
        "raised_at", "read", "int8_ops_s", "f32_ops_s", "bf16_ops_s", "tile_ops_s"})
    EXPECT_EQ(without(key), std::nullopt) << key;
}

TEST_F(CalibrationFile, IsNoneWhereANumberCannotBe) {
  const auto with = [&](const char* key, const nlohmann::ordered_json& value) {
    auto object = calibration_json(calibration_);
    object[key] = value;
    return parse_calibration(object.dump());
  };
  using nlohmann::ordered_json;
  EXPECT_EQ(with("version", kCalibrationVersion + 1), std::nullopt);
  EXPECT_EQ(with("threads", -1), std::nullopt);
  EXPECT_EQ(with("threads", uint64_t{1} << 40), std::nullopt);
  for (const ordered_json& value :
       {ordered_json(0), ordered_json(-5.0), ordered_json("fast"), ordered_json(nullptr)})
    EXPECT_EQ(with("f32_ops_s", value), std::nullopt) << value;
  for (const ordered_json& value :
       {ordered_json(-5.0), ordered_json("fast"), ordered_json(nullptr)})
    for (const char* key : {"bf16_ops_s", "tile_ops_s"})
      EXPECT_EQ(with(key, value), std::nullopt) << key << " " << value;
  for (const ordered_json& value :
       {ordered_json("yesterday"), ordered_json("2026-11-24T07:52:10"), ordered_json(5)})
    for (const char* key : {"measured_at", "raised_at"})
      EXPECT_EQ(with(key, value), std::nullopt) << value;
  for (const char* key : {"others_share", "spread"}) EXPECT_EQ(with(key, 1.5), std::nullopt) << key;
  for (const char* list :
       {"[]", "{}", "[1]", R"([{"bytes":1}])", R"([{"bytes":-1,"bytes_s":1}])",
        R"([{"bytes":1,"bytes_s":0}])", R"([{"bytes":2,"bytes_s":1},{"bytes":2,"bytes_s":1}])"})
    EXPECT_EQ(with("read", ordered_json::parse(list)), std::nullopt) << list;
  EXPECT_EQ(parse_calibration("[1]"), std::nullopt);
}

TEST_F(CalibrationFile, SaysWhyItCannotBeWritten) {
  std::ofstream(folder_.string()) << "a file where the folder should be";
  const auto status = write_calibration(folder_, calibration_);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find(folder_.string()), std::string::npos);
  EXPECT_EQ(read_calibration(folder_, calibration_.machine), std::nullopt);
}

}  // namespace
}  // namespace kvick::plan
