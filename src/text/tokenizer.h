#pragma once
// Text to token ids and back.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvick::text {

using Token = int32_t;

enum class TokenKind : uint8_t { kNormal, kUnknown, kControl, kUserDefined, kUnused, kByte };

// Everything a tokenizer is made from, whichever file it came from (GGUF's tokenizer.ggml.*, or tokenizer.json).
struct Vocabulary {
  std::string model;                // "gpt2" (byte-level BPE) or "llama" (SentencePiece with scores)
  std::string pre;                  // pre-tokenizer: "gpt-2", "smollm", "llama-bpe", "qwen2", ... or "" (default)
  std::vector<std::string> pieces;  // byte-level pieces in GPT-2's printable alphabet, SentencePiece ones with U+2581
  std::vector<TokenKind> kinds;
  std::vector<float> scores;        // "llama" only
  std::vector<std::string> merges;  // "gpt2" only: "left right", by rank
  std::optional<Token> bos, eos, eot, unknown, pad;
  bool add_bos = false, add_eos = false, add_space_prefix = true;
  std::string chat_template;        // Jinja source, may be empty
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // Checks the vocabulary (sizes agree, ids in range, merges name known pieces, the pre-tokenizer is known).
  static base::Result<std::unique_ptr<Tokenizer>> make(Vocabulary vocabulary);

  // special: add BOS/EOS as the vocabulary says. parse_special: text such as <|im_start|> becomes its control token;
  // otherwise it is plain text (user-defined tokens are always matched). Invalid UTF-8 is kept byte by byte.
  std::vector<Token> encode(std::string_view text, bool special, bool parse_special) const;
  // The bytes of one token; control tokens give their name if `special`, else nothing.
  std::string piece(Token token, bool special) const;
  std::string decode(const std::vector<Token>& tokens, bool special = false) const;
  const Vocabulary& vocabulary() const { return vocabulary_; }
  // True for tokens that end a generation: eos, eot and the families' other end-of-turn tokens.
  bool ends_generation(Token token) const;

 protected:
  explicit Tokenizer(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  // Plain text without special tokens, appended.
  virtual void encode_text(std::string_view text, bool first, std::vector<Token>& out) const = 0;
  Vocabulary vocabulary_;
};

// Bytes of a growing generation, given out only in whole UTF-8 characters.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  std::string push(Token token);  // what became complete; a byte that can never be completed becomes U+FFFD
  std::string finish();           // what is left, cut characters as U+FFFD

 private:
  const Tokenizer& tokenizer_;
  std::string pending_;
  bool first_ = true;
};

}  // namespace kvick::text
