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

// Tokens between which a model fills in the middle of a text (fill_in.h).
struct FillInTokens {
  std::optional<Token> prefix, suffix, middle;  // before the text before, after, between
  std::optional<Token> repository, file;        // before a repository's or file's name
};

// Everything a tokenizer is made from, whichever file it came from (GGUF's tokenizer.ggml.*, or
// tokenizer.json).
struct Vocabulary {
  // "gpt2" (byte-level BPE), "llama" (SentencePiece with scores), "gemma4" (the same with merges),
  // "t5" (SentencePiece's Unigram) or "bert" (WordPiece).
  std::string model;
  std::string pre;  // pre-tokenizer: "gpt-2", "smollm", "llama-bpe", "qwen2", ... or "" (default)
  std::vector<std::string>
      pieces;  // byte-level pieces in GPT-2's printable alphabet, others with U+2581 for the space
  std::vector<TokenKind> kinds;
  std::vector<float> scores;        // "llama" and "t5"
  std::vector<std::string> merges;  // "gpt2" and "gemma4": "left right", by rank
  std::optional<Token> bos, eos, eot, unknown, pad;
  std::vector<Token> ends;  // further tokens that end a generation
  bool add_bos = false, add_eos = false, add_space_prefix = true;
  // "llama": the space goes before the whole text, unless one is there, and not behind special
  // tokens (Hugging Face's Metaspace with the scheme "first").
  bool space_prefix_once = false;
  std::vector<Token>
      strips_right;      // special tokens that swallow the white space behind them (Phi-3)
  FillInTokens fill_in;  // those that the file numbers; a tokenizer adds those it knows by name
  std::string chat_template;  // Jinja source, may be empty
  // "bert": what becomes of letters; accents go with the case as a rule.
  bool lowercase = true, strip_accents = true;
  // "t5": SentencePiece's precompiled map of characters, or empty; and whether runs of white space
  // are one space, and none at the ends.
  std::string charsmap;
  bool merge_spaces = true;
  // For pairs of texts (pair.h): the separator between them besides eos; and the prompt, with
  // {query} and {document}, of a reranker that is a chat model, or empty.
  std::optional<Token> separator;
  bool add_separator = false;
  std::string pair_template;
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
  // The bytes of all tokens. If encode() puts a space in front of the text, the first token's
  // leading space is left out.
  std::string decode(const std::vector<Token>& tokens, bool special = false) const;
  const Vocabulary& vocabulary() const { return vocabulary_; }
  // True for tokens that end a generation: eos, eot and the families' other end-of-turn tokens.
  bool ends_generation(Token token) const;
  // All tokens that end a generation, ascending.
  const std::vector<Token>& ends() const { return ends_; }
  // True for tokens such as <|im_start|> that structure a prompt and stand for no text.
  bool is_control(Token token) const {
    return vocabulary_.kinds[static_cast<size_t>(token)] == TokenKind::kControl;
  }

 protected:
  explicit Tokenizer(Vocabulary vocabulary);
  // A whole stretch of text between special tokens, appended. Not empty.
  virtual void encode_text(std::string_view text, std::vector<Token>& out) const = 0;
  // The same of a stretch that a special token comes before.
  virtual void encode_behind(std::string_view text, std::vector<Token>& out) const {
    encode_text(text, out);
  }
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

// Decodes a growing generation in whole UTF-8 characters. All that push() and finish() return is
// together what decode() returns for the same tokens, with bytes that are not UTF-8 replaced by
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
  bool first_;  // the next token is the first: drop its leading space
  bool special_;
};

}  // namespace kvick::text
