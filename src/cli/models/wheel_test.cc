#include "cli/models/wheel.h"

#include <gtest/gtest.h>
#include <random>
#include <sstream>
#include <zip.h>

#include "cli/models/test_folder.h"
#include "cli/transfer/failure.h"
#include "cli/transfer/subprocess.h"

namespace kvick::cli {
namespace {

namespace fs = std::filesystem;

fs::path make_zip(const fs::path& path, const std::string& member, const std::string& text) {
  zip_t* zip = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
  zip_file_add(zip, member.c_str(), zip_source_buffer(zip, text.data(), text.size(), 0), 0);
  EXPECT_EQ(zip_close(zip), 0);
  return path;
}

class Wheel : public testing::Test {
 protected:
  // Returns the member's text, or the failure.
  std::string unpacked(const fs::path& zip, const std::string& member, uint64_t bytes) {
    std::ostringstream nowhere;
    Progress progress(nowhere, {}, [] { return 0.0; });
    PartFile part = PartFile::open(folder_.path / "out", [] {});
    try {
      unpack_member(zip, member, bytes, part, progress);
      return part.head(bytes);
    } catch (const Failure& failure) {
      return std::string("failure: ") + failure.what();
    }
  }
  TestFolder folder_;
};

TEST_F(Wheel, AMemberIsUnpackedWhole) {
  std::mt19937 random(3);
  std::string text(300'000, ' ');
  for (char& c : text) c = static_cast<char>('a' + random() % 4);
  const fs::path zip = make_zip(folder_.path / "x.zip", "pkg/m.gguf", text);
  EXPECT_LT(fs::file_size(zip), text.size()) << "the test is to inflate something";
  EXPECT_EQ(unpacked(zip, "pkg/m.gguf", text.size()), text);
}

TEST_F(Wheel, AnotherSizeOrNameIsRefusedBeforeUnpacking) {
  const fs::path zip = make_zip(folder_.path / "x.zip", "m", std::string(100'000, 'a'));
  EXPECT_NE(unpacked(zip, "m", 10).find("100000 bytes where 10"), std::string::npos);
  EXPECT_NE(unpacked(zip, "n", 10).find("has no member n"), std::string::npos);
  EXPECT_NE(unpacked(folder_.write("y.zip", "not a zip"), "m", 10).find("cannot unpack"),
            std::string::npos);
}

TEST_F(Wheel, DamagedBytesAreFound) {
  std::mt19937 random(4);
  std::string text(100'000, ' ');
  for (char& c : text) c = static_cast<char>(random());
  const fs::path zip = make_zip(folder_.path / "x.zip", "m", text);
  std::string bytes = TestFolder::read(zip);
  bytes[bytes.size() / 2] ^= 1;
  EXPECT_TRUE(unpacked(folder_.write("x.zip", bytes), "m", text.size())
                  .starts_with("failure: cannot unpack"));
}

TEST(RunProgram, GivesStatusAndTheEndOfTheOutput) {
  const Ended ended = run_program({"sh", "-c", "echo out; echo err >&2; exit 3"}, {}, [] {});
  EXPECT_EQ(ended.status, 3);
  EXPECT_EQ(ended.output_end, "out\nerr\n");
}

TEST(RunProgram, KeepsOnlyTheEndOfALongOutput) {
  const Ended ended = run_program({"sh", "-c", "seq 1 100000; echo last"}, {}, [] {});
  EXPECT_LE(ended.output_end.size(), 64u << 10);
  EXPECT_TRUE(ended.output_end.ends_with("\n100000\nlast\n"));
}

TEST(RunProgram, NeitherShellNorTerminalIsInvolved) {
  EXPECT_EQ(run_program({"echo", "$HOME; ls `ls`"}, {}, [] {}).output_end, "$HOME; ls `ls`\n");
  EXPECT_EQ(run_program({"cat"}, {}, [] {}).output_end, "") << "stdin is empty, not the user's";
}

TEST(RunProgram, ReplacesVariables) {
  EXPECT_EQ(run_program({"sh", "-c", "echo $KVICK_TEST_VALUE"}, {"KVICK_TEST_VALUE=42"}, [] {})
                .output_end,
            "42\n");
  EXPECT_EQ(run_program({"sh", "-c", "echo $HOME"}, {"HOME=/nowhere"}, [] {}).output_end,
            "/nowhere\n");
}

TEST(RunProgram, SaysThatAProgramIsMissingOrWasKilled) {
  EXPECT_FALSE(run_program({"kvick-no-such-program"}, {}, [] {}).found);
  EXPECT_EQ(run_program({"sh", "-c", "kill -9 $$"}, {}, [] {}).status, 128 + 9);
}

TEST(ReasonLine, PrefersTheLastError) {
  EXPECT_EQ(reason_line("Looking\nERROR: a\nERROR: b\nnotice\n\n"), "ERROR: b");
  EXPECT_EQ(reason_line("one\ntwo \r\n\n"), "two");
  EXPECT_EQ(reason_line(""), "");
}

}  // namespace
}  // namespace kvick::cli
