#pragma once
// Pre-tokenizers cut text into stretches; merges of byte-level BPE do not cross their boundaries.
// They are published as regular expressions, which PCRE2 runs. The most common ones have
// hand-written scanners that cut equally, in one pass over any text.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"

namespace kvick::text {

// Hand-written scanners, each for one regular expression.
enum class Scanner : uint8_t {
  kNone,
  kGpt2,
  kLlama3,
  kQwen2,
  kNumber,
  kNumbers,
  kThreeDigits,
  kPunctuation,
  kFalconPunctuation,
  kThrees,       // cuts a text of numbers alone into groups of three from the right
  kDigitThrees,  // the same for a text of decimal digits alone
};

// One regular expression of a pre-tokenizer. Its matches and the texts between them are the
// stretches; an empty match only cuts.
struct Split {
  std::string_view regex;
  Scanner scanner = Scanner::kNone;  // if not kNone: gives the same cuts
};

struct PreTokenizer {
  std::string_view name;          // as in tokenizer.ggml.pre
  std::span<const Split> splits;  // each splits the stretches of the one before
  bool whole_pieces = false;      // a stretch that is a piece becomes its token without merging
  bool adds_bos = false;          // the default if the file does not say
};

// Returns nullptr for an unknown name. Names and meanings are llama.cpp's, without those that are
// not byte-level BPE, and with "gpt2" and "deepseek-v2" added.
const PreTokenizer* find_pre_tokenizer(std::string_view name);
std::span<const PreTokenizer> pre_tokenizers();
// Returns all names, for an error message.
std::string pre_tokenizer_names();

class RegexSplit;

// A pre-tokenizer that is ready to run, on any number of threads.
class PreTokenizerRun {
 public:
  explicit PreTokenizerRun(const PreTokenizer& pre);
  PreTokenizerRun(PreTokenizerRun&&) noexcept;
  ~PreTokenizerRun();

  // Calls `stretch` for each stretch, in order; together they are the whole text. Character classes
  // are those of Unicode 15 (in regular expressions, of PCRE2). A byte that is not part of valid
  // UTF-8 is a character of its own, and neither letter, number nor white space. Throws
  // std::runtime_error if a regular expression exceeds PCRE2's limits on this text.
  void operator()(std::string_view text, base::FunctionRef<void(std::string_view)> stretch) const;

 private:
  std::span<const Split> splits_;
  std::vector<std::unique_ptr<RegexSplit>> regexes_;  // [splits_] null if the split has a scanner
};

// Runs one scanner over a text.
void scan_text(Scanner scanner, std::string_view text,
               base::FunctionRef<void(std::string_view)> stretch);

}  // namespace kvick::text
