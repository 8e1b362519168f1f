#pragma once
// Pre-tokenizers: cut text into the stretches that merges of byte-level BPE do not cross. Published
// as regular expressions, which PCRE2 runs. The commonest have hand-written scanners that give the
// same cuts in one pass, whatever the text.

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
  kThrees,       // of a text of numbers alone, groups of three from the right
  kDigitThrees,  // the same of decimal digits alone
};

// One regular expression of a pre-tokenizer. Its matches and what lies between them are the
// stretches; an empty match cuts.
struct Split {
  std::string_view regex;
  Scanner scanner = Scanner::kNone;  // gives the same cuts
};

struct PreTokenizer {
  std::string_view name;          // as tokenizer.ggml.pre has it
  std::span<const Split> splits;  // each within the stretches of the one before
  bool whole_pieces = false;  // a stretch that is a piece becomes its token, whatever merges say
  bool adds_bos = false;      // where the file does not say
};

// Null: unknown name. Names and meanings are llama.cpp's, without those that are no byte-level BPE
// and with "gpt2" added.
const PreTokenizer* find_pre_tokenizer(std::string_view name);
std::span<const PreTokenizer> pre_tokenizers();
// All names, for an error message.
std::string pre_tokenizer_names();

class RegexSplit;

// A pre-tokenizer that is ready to run, on any number of threads.
class PreTokenizerRun {
 public:
  explicit PreTokenizerRun(const PreTokenizer& pre);
  PreTokenizerRun(PreTokenizerRun&&) noexcept;
  ~PreTokenizerRun();

  // Calls `stretch` for each, in order; together they are the text. Classes are Unicode 15's (of
  // regular expressions, PCRE2's); a byte that is not part of valid UTF-8 is a character of its own
  // that is neither letter, number nor white space. Throws std::runtime_error if a regular
  // expression exceeds PCRE2's limits on this text.
  void operator()(std::string_view text, base::FunctionRef<void(std::string_view)> stretch) const;

 private:
  std::span<const Split> splits_;
  std::vector<std::unique_ptr<RegexSplit>> regexes_;  // of each split; null: it has a scanner
};

// One scanner over a text.
void scan_text(Scanner scanner, std::string_view text,
               base::FunctionRef<void(std::string_view)> stretch);

}  // namespace kvick::text
