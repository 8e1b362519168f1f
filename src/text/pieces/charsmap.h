#pragma once
// SentencePiece's precompiled map of characters, by which normalisation replaces parts of a text.
// https://github.com/google/sentencepiece, src/normalizer.cc, and the double array of
// https://github.com/s-yata/darts-clone.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvick::text {

class Charsmap {
 public:
  // Makes an empty map, which leaves texts unchanged.
  Charsmap() = default;
  // Reads a map. bytes: the size of the array in bytes (4 bytes), the array, then the texts, each
  // followed by a zero byte. Error: the bytes do not have this form.
  static base::Result<Charsmap> read(std::string_view bytes);

  // Replaces the start of a text, which is not empty: by the longest entry that matches, else the
  // character itself. Bytes that are not UTF-8 become U+FFFD, one each. bytes: how many bytes of
  // the text are replaced.
  struct Replaced {
    std::string_view by;
    size_t bytes = 0;
  };
  Replaced replace(std::string_view text) const;

 private:
  std::vector<uint32_t> units_;
  std::string texts_;  // with a zero at the end
};

}  // namespace kvick::text
