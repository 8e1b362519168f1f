#pragma once
// A text for tests of experiments that read one.

#include <fstream>
#include <random>

#include "model/core/test_model.h"

namespace kvick::lab {

// Writes `words` words in sentences and returns the path; the caller removes the file.
inline std::string write_words(uint32_t words) {
  const std::string path = model::test_path("words.txt");
  std::ofstream out(path);
  std::mt19937 random(7);
  for (uint32_t i = 0; i < words; ++i) {
    for (uint32_t letters = 1 + random() % 6; letters > 0; --letters)
      out << static_cast<char>('a' + random() % 26);
    out << (i % 9 == 8 ? ". " : " ");
  }
  return path;
}

}  // namespace kvick::lab
