#include "recorded_folder.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>

#include "base/testing/source_folder.h"

namespace kvick::parity {

namespace fs = std::filesystem;

fs::path recorded_kind(const std::string& kind) {
  return fs::path(base::source_folder()) / "tests/reference" / kind;
}

std::vector<std::string> recorded_names(const std::string& kind) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(recorded_kind(kind)))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<Token> recorded_tokens(uint32_t count) {
  std::vector<Token> tokens;
  for (uint32_t i = 0; i < count; ++i) tokens.push_back(static_cast<Token>(i * 7 % 64));
  return tokens;
}

std::vector<float> recorded_floats(const fs::path& file, size_t count) {
  std::vector<float> floats(count);
  std::ifstream in(file, std::ios::binary);
  in.read(reinterpret_cast<char*>(floats.data()),
          static_cast<std::streamsize>(count * sizeof(float)));
  EXPECT_TRUE(in.good()) << file;
  return floats;
}

double relative_error(const std::vector<float>& ours, const std::vector<float>& recorded) {
  EXPECT_EQ(ours.size(), recorded.size());
  if (ours.size() != recorded.size()) return std::numeric_limits<double>::infinity();
  double worst = 0, largest = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    worst = worse(worst, std::fabs(ours[i] - recorded[i]));
    largest = std::max<double>(largest, std::fabs(recorded[i]));
  }
  return worst / largest;
}

}  // namespace kvick::parity
