#pragma once
// SentencePiece's precompiled map of characters: which ones a text's normalisation replaces, and by
// what. https://github.com/google/sentencepiece, src/normalizer.cc, and the double array of
// https://github.com/s-yata/darts-clone.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvick::text {

class Charsmap {
 public:
  // An empty map, which replaces nothing.
  Charsmap() = default;
  // bytes: the array's size in 4 bytes, the array, then texts that each end with a zero. Error: one
  // that is not of this form.
  static base::Result<Charsmap> read(std::string_view bytes);

  // What the start of a text becomes, and how many of its bytes that is; text: not empty. The
  // longest entry, else a character as it is; what is not UTF-8 becomes U+FFFD, byte by byte.
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
