#pragma once
// Pre-tokenizers: cut text into the stretches that merges of byte-level BPE do not cross. Published
// as regular expressions; here hand-written scanners that give the same cuts in one pass, whatever
// the text.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/function_ref.h"

namespace kvick::text {

// One regular expression of a pre-tokenizer; its matches and what lies between them are the
// stretches.
enum class Split : uint8_t {
  kNone,
  // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  kGpt2,
  // (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
  // ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
  kLlama3,
  kQwen2,              // kLlama3 with \p{N} for \p{N}{1,3}
  kNumber,             // \p{N}
  kNumbers,            // \p{N}+
  kThreeDigits,        // [0-9]{3}
  kPunctuation,        // [\p{P}$+<=>^~|]+
  kFalconPunctuation,  // [\p{P}$+<=>^~|`]+
};

struct PreTokenizer {
  std::string_view name;  // as tokenizer.ggml.pre has it
  std::array<Split, 4>
      splits;  // each within the stretches of the one before; kNone from the end of the list on
  bool whole_pieces =
      false;              // a stretch that is a piece becomes its token, whatever the merges say
  bool adds_bos = false;  // where the file does not say
};

// Null if there is none of this name. The names and what they stand for are llama.cpp's, less those
// whose splits are not in the list above; "gpt2" is one more.
const PreTokenizer* find_pre_tokenizer(std::string_view name);
// All names, for an error message.
std::string pre_tokenizer_names();

// Calls `stretch` for each, in order; together they are the text. Classes are Unicode 15's; a byte
// that is not part of valid UTF-8 is a character of its own that is neither letter, number nor
// white space.
void pre_tokenize(const PreTokenizer& pre, std::string_view text,
                  base::FunctionRef<void(std::string_view)> stretch);

// One split over a text; what pre_tokenize nests.
void split_text(Split split, std::string_view text,
                base::FunctionRef<void(std::string_view)> stretch);

}  // namespace kvick::text
