#include "cli/models/hub_name.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

#include "cli/models/hub_files.h"
#include "cli/transfer/failure.h"

namespace kvick::cli {
namespace {

TEST(HubName, IsARepositoryWithATagAndARevision) {
  const auto plain = parse_hub_name("hf:Qwen/Qwen3-0.6B-GGUF");
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(plain->repo, "Qwen/Qwen3-0.6B-GGUF");
  EXPECT_EQ(plain->tag + plain->revision, "");
  for (const char* text : {"hf:o/r:Q4_K_M@v1", "hf:o/r@v1:Q4_K_M"}) {
    const auto name = parse_hub_name(text);
    ASSERT_TRUE(name.has_value()) << text;
    EXPECT_EQ(name->repo, "o/r");
    EXPECT_EQ(name->tag, "Q4_K_M");
    EXPECT_EQ(name->revision, "v1");
  }
}

TEST(HubName, OtherTextsAreNone) {
  for (const char* text : {"", "o/r", "hf:", "hf:o", "hf:o/", "hf:/r", "hf::o/r", "hf:o/r/m.gguf",
                           "hf:o/r:", "hf:o/r@", "hf:o/r:a:b", "hf:o/r@a@b", "http://h/x"})
    EXPECT_FALSE(parse_hub_name(text).has_value()) << text;
}

TEST(HubName, NamesItsFilesAndItsFolder) {
  const HubName name{.repo = "o/r", .tag = "", .revision = "v1"};
  EXPECT_EQ(hub_file_name(name, "a/m.gguf"), "hf:o/r@v1/a/m.gguf");
  EXPECT_EQ(hub_folder(name).value(), "hf/o/r@v1");
  EXPECT_FALSE(hub_folder({.repo = "o/..", .tag = "", .revision = ""}).ok());
}

using Files = std::vector<std::string>;

// Returns the chosen files in order, or the error.
std::string chosen(const Files& files, const std::string& tag) {
  const auto choice = choose_hub_files(files, {.repo = "o/r", .tag = tag, .revision = ""});
  if (!choice.ok()) return "error: " + choice.error().message;
  std::string text = choice->folder ? "folder" : "";
  for (const std::string& file : choice->files) text += (text.empty() ? "" : " ") + file;
  return text;
}

const Files kMany = {"README.md",   "m-F16.gguf",  "m-Q8_0.gguf",          "m-q4_k_m.gguf",
                     "m-Q4_0.gguf", "m-Q2_K.gguf", "mmproj-m-Q4_K_M.gguf", "imatrix.gguf"};

TEST(HubChoice, ATagIsTheEndOfAName) {
  EXPECT_EQ(chosen(kMany, "Q4_K_M"), "m-q4_k_m.gguf");
  EXPECT_EQ(chosen(kMany, "q8_0"), "m-Q8_0.gguf");
  EXPECT_EQ(chosen(kMany, "f16"), "m-F16.gguf");
  EXPECT_EQ(chosen({"a.Q4_K_M.gguf"}, "q4_k_m"), "a.Q4_K_M.gguf");
  EXPECT_EQ(chosen({"Q4_K_M/m-UD-Q4_K_XL.gguf"}, "UD-Q4_K_XL"), "Q4_K_M/m-UD-Q4_K_XL.gguf");
}

TEST(HubChoice, ATagThatThereIsNotListsThoseThatThereAre) {
  EXPECT_EQ(chosen(kMany, "Q9"), "error: hf:o/r has no Q9; it has F16, Q2_K, Q4_0, Q4_K_M, Q8_0");
  EXPECT_NE(chosen(kMany, "K_M").find("has no K_M"), std::string::npos);
  EXPECT_NE(chosen({"config.json", "model.safetensors"}, "Q8_0").find("no GGUF file"),
            std::string::npos);
}

TEST(HubChoice, WithoutATagQ4KMIsTakenOrTheNearest) {
  EXPECT_EQ(chosen(kMany, ""), "m-q4_k_m.gguf");
  EXPECT_EQ(chosen({"m-Q8_0.gguf", "m-Q4_0.gguf", "m-F16.gguf"}, ""), "m-Q4_0.gguf");
  EXPECT_EQ(chosen({"m-Q3_K_M.gguf", "m-Q5_K_M.gguf"}, ""), "m-Q5_K_M.gguf");
  EXPECT_EQ(chosen({"m-Q8_0.gguf", "m-BF16.gguf"}, ""), "m-Q8_0.gguf");
  EXPECT_EQ(chosen({"m.gguf", "config.json", "model.safetensors"}, ""), "m.gguf");
}

TEST(HubChoice, AllPartsOfASplitFileAreTaken) {
  const Files parts = {"d/m-Q8_0-00002-of-00002.gguf", "d/m-Q8_0-00001-of-00002.gguf"};
  EXPECT_EQ(chosen(parts, "Q8_0"), "d/m-Q8_0-00001-of-00002.gguf d/m-Q8_0-00002-of-00002.gguf");
  EXPECT_NE(chosen({parts[1]}, "Q8_0").find("does not have d/m-Q8_0-00002-of-00002.gguf"),
            std::string::npos);
}

TEST(HubChoice, AFolderIsItsWeightsAndEndsWithItsConfiguration) {
  EXPECT_EQ(chosen({"config.json", "model.safetensors", "tokenizer.json", "README.md",
                    "consolidated.safetensors", "onnx/model.json", ".gitattributes"},
                   ""),
            "folder model.safetensors tokenizer.json config.json");
  EXPECT_NE(chosen({"README.md"}, "").find("neither a GGUF file nor"), std::string::npos);
}

// Any name with any list gives an error, or files of the list.
TEST(HubChoice, RandomTextChoosesFromTheListOrNothing) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const Files pieces = {"hf:",
                        "o/r",
                        ":",
                        "@",
                        "/",
                        ".gguf",
                        "-00001-of-00002",
                        "-00002-of-00002",
                        "Q4_K_M",
                        "q8_0",
                        "-",
                        "mmproj",
                        "config.json",
                        ".safetensors",
                        "m",
                        ""};
  const auto text = [&](unsigned most) {
    std::string out;
    for (unsigned n = random() % most; n > 0; --n) out += pieces[random() % pieces.size()];
    return out;
  };
  for (int i = 0; i < 5000; ++i) {
    const HubName name = parse_hub_name("hf:o/r" + text(5)).value_or(HubName{"o/r", "", ""});
    Files files;
    for (unsigned n = random() % 6; n > 0; --n) files.push_back(text(6));
    const auto choice = choose_hub_files(files, name);
    if (!choice.ok()) {
      EXPECT_FALSE(choice.error().message.empty());
      continue;
    }
    EXPECT_FALSE(choice->files.empty());
    for (const std::string& file : choice->files)
      EXPECT_NE(std::find(files.begin(), files.end(), file), files.end()) << file;
  }
}

TEST(HubFiles, AreReadFromTheHubsAnswer) {
  EXPECT_EQ(parse_hub_files(R"({"id": "o/r", "siblings": [{"rfilename": "a"}, {"x": 1}, 3,
                                {"rfilename": "b/c"}]})",
                            "hub"),
            (Files{"a", "b/c"}));
  for (const char* text : {"", "[]", "{", "{\"siblings\": 3}", "{}"})
    EXPECT_THROW(parse_hub_files(text, "hub"), Failure) << text;
}

}  // namespace
}  // namespace kvick::cli
