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

// Everything a tokenizer is made from, whichever file it came from (GGUF's tokenizer.ggml.*, or
// tokenizer.json).
struct Vocabulary {
  std::string model;  // "gpt2" (byte-level BPE) or "llama" (SentencePiece with scores)
  std::string pre;    // pre-tokenizer: "gpt-2", "smollm", "llama-bpe", "qwen2", ... or "" (default)
  std::vector<std::string>
      pieces;  // byte-level pieces in GPT-2's printable alphabet, SentencePiece ones with U+2581
  std::vector<TokenKind> kinds;
  std::vector<float> scores;        // "llama" only
  std::vector<std::string> merges;  // "gpt2" only: "left right", by rank
  std::optional<Token> bos, eos, eot, unknown, pad;
  std::vector<Token> ends;  // further tokens that end a generation
  bool add_bos = false, add_eos = false, add_space_prefix = true;
  std::vector<Token>
      strips_right;           // special tokens that swallow the white space behind them (Phi-3)
  std::string chat_template;  // Jinja source, may be empty
};

class PieceMap;
class SpecialTokens;

class Tokenizer {
 public:
  virtual ~Tokenizer();
  // Checks the vocabulary (sizes agree, ids in range, merges name known pieces, the pre-tokenizer
  // is known).
  static base::Result<std::unique_ptr<Tokenizer>> make(Vocabulary vocabulary);

  // special: add BOS/EOS as the vocabulary says. parse_special: text such as <|im_start|> becomes
  // its control token; otherwise it is plain text (user-defined tokens are always matched). Invalid
  // UTF-8 is kept byte by byte. A byte that the vocabulary has no piece for becomes the unknown
  // token, or is left out if there is none (as the models' own tokenizers do). Thread-safe, as are
  // the other const members.
  std::vector<Token> encode(std::string_view text, bool special, bool parse_special) const;
  // The bytes of one token, which must be one of the vocabulary; control, unknown and unused tokens
  // give their name if `special`, else nothing.
  std::string piece(Token token, bool special) const;
  // The bytes of all. Where encode() puts a space in front of the text, the first token's leading
  // space is left out.
  std::string decode(const std::vector<Token>& tokens, bool special = false) const;
  const Vocabulary& vocabulary() const { return vocabulary_; }
  // True for tokens that end a generation: eos, eot and the families' other end-of-turn tokens.
  bool ends_generation(Token token) const;
  // These, ascending.
  const std::vector<Token>& ends() const { return ends_; }
  // True for tokens such as <|im_start|> that structure a prompt and stand for no text.
  bool is_control(Token token) const {
    return vocabulary_.kinds[static_cast<size_t>(token)] == TokenKind::kControl;
  }

 protected:
  explicit Tokenizer(Vocabulary vocabulary);
  // A whole stretch of text between special tokens, appended. Not empty.
  virtual void encode_text(std::string_view text, std::vector<Token>& out) const = 0;
  // The bytes that a normal piece stands for.
  virtual std::string bytes_of(std::string_view piece) const = 0;
  // True if encode() puts a space in front of the text.
  virtual bool adds_space() const { return false; }
  Vocabulary vocabulary_;

 private:
  friend class StreamDecoder;
  std::unique_ptr<const SpecialTokens> special_tokens_;
  std::vector<Token> ends_;  // sorted
};

// Bytes of a growing generation, given out only in whole UTF-8 characters: all that push() and
// finish() give is what decode() gives for the same tokens, with what is not UTF-8 replaced by
// U+FFFD.
class StreamDecoder {
 public:
  // continues: the tokens go on a text, so that the first one's leading space is kept. special: as
  // in Tokenizer::piece.
  explicit StreamDecoder(const Tokenizer& tokenizer, bool continues = false, bool special = false);
  std::string push(
      Token token);      // what became complete; a byte that can never be completed becomes U+FFFD
  std::string finish();  // what is left, cut characters as U+FFFD

 private:
  const Tokenizer& tokenizer_;
  std::string pending_;
  bool first_;  // a leading space is still to be left out
  bool special_;
};

}  // namespace kvick::text
