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

// The tokens by which a model fills in the middle of a text (fill_in.h).
struct FillInTokens {
  // Precede the text before the gap, the text after it, and the answer.
  std::optional<Token> prefix, suffix, middle;
  std::optional<Token> repository, file;  // precede the name of a repository or a file
};

// Everything that a tokenizer is made from. It comes from GGUF's tokenizer.ggml.* or from a
// tokenizer.json.
struct Vocabulary {
  // "gpt2" (byte-level BPE), "llama" (SentencePiece with scores), "gemma4" (the same with merges),
  // "t5" (SentencePiece's Unigram) or "bert" (WordPiece).
  std::string model;
  std::string pre;  // pre-tokenizer: "gpt-2", "smollm", "llama-bpe", "qwen2", ... or "" (default)
  std::vector<std::string> pieces;  // "gpt2": GPT-2's alphabet; others: U+2581 for the space
  std::vector<TokenKind> kinds;
  std::vector<float> scores;        // "llama" and "t5"
  std::vector<std::string> merges;  // "gpt2" and "gemma4": "left right", by rank
  std::optional<Token> bos, eos, eot, unknown, pad;
  std::vector<Token> ends;                          // further tokens that end a generation
  std::vector<Token> suppressed, suppressed_first;  // in no answer; at the beginning of none
  bool add_bos = false, add_eos = false, add_space_prefix = true;
  // Added around a text in place of BOS and EOS, if not empty (older GLM: [gMASK]<sop> before it).
  std::vector<Token> before, behind;
  // "llama": no space is put before a space (Hugging Face's Metaspace), and with `once` only before
  // the whole text, not after special tokens (its scheme "first").
  bool space_prefix_spared = false, space_prefix_once = false;
  // Special tokens that remove the white space before or after them (Phi-3), and those that are
  // matched only where no letter or digit is next to them.
  std::vector<Token> strips_left, strips_right, whole_words;
  // Of overlapping special tokens the leftmost wins, then the longest (Hugging Face's folders);
  // otherwise the longest, then the leftmost (llama.cpp).
  bool leftmost_wins = false;
  // Whether texts are put into Unicode's form NFC once the special tokens are found, all but these,
  // which are then found in the result.
  bool nfc = false;
  std::vector<Token> normalized;
  FillInTokens fill_in;       // those that the file gives; a tokenizer adds those it knows by name
  std::string chat_template;  // Jinja source; may be empty
  // "bert": how letters are normalised. Models that lower-case letters usually strip accents too.
  bool lowercase = true, strip_accents = true;
  // "t5": SentencePiece's precompiled map of characters, or empty; and whether runs of white space
  // become one space, and are removed at both ends of the text.
  std::string charsmap;
  bool merge_spaces = true;
  // For pairs of texts (engine/answer/pair.h): a separator between them in addition to eos; and the
  // prompt of a reranker that is a chat model, with {query} and {document}, or empty.
  std::optional<Token> separator;
  bool add_separator = false;
  std::string pair_template;
};

class PieceMap;
class SpecialTokens;

class Tokenizer {
 public:
  virtual ~Tokenizer();
  // Checks the vocabulary: sizes agree, ids are in range, merges name known pieces, and the
  // pre-tokenizer is known.
  static base::Result<std::unique_ptr<Tokenizer>> make(Vocabulary vocabulary);

  // Tokenizes a text. special: adds before() and behind(). parse_special: names such
  // as <|im_start|> become their control tokens; otherwise they are plain text (user-defined tokens
  // are always matched). Invalid UTF-8 is kept byte by byte. A byte without a piece becomes the
  // unknown token, or is omitted if there is none (as in the models' own tokenizers). All const
  // members are thread-safe.
  std::vector<Token> encode(std::string_view text, bool special, bool parse_special) const;
  // Returns the bytes of a token, which must be in the vocabulary. Control, unknown and unused
  // tokens give their name if `special`, else nothing.
  std::string piece(Token token, bool special) const;
  // Returns the bytes of all tokens. If encode() puts a space before the text, one leading space is
  // removed.
  std::string decode(const std::vector<Token>& tokens, bool special = false) const;
  const Vocabulary& vocabulary() const { return vocabulary_; }
  // The tokens that the vocabulary adds around a text: BOS and EOS, others, or none.
  const std::vector<Token>& before() const { return before_; }
  const std::vector<Token>& behind() const { return behind_; }
  // Returns true for tokens that end a generation: eos, eot and other end-of-turn tokens of known
  // families.
  bool ends_generation(Token token) const;
  // All tokens that end a generation, ascending.
  const std::vector<Token>& ends() const { return ends_; }
  // Returns true for tokens such as <|im_start|>, which structure a prompt and stand for no text.
  bool is_control(Token token) const {
    return vocabulary_.kinds[static_cast<size_t>(token)] == TokenKind::kControl;
  }

 protected:
  explicit Tokenizer(Vocabulary vocabulary);
  // Appends the tokens of a whole stretch of text between special tokens. text: not empty.
  virtual void encode_text(std::string_view text, std::vector<Token>& out) const = 0;
  // Does the same for a stretch that follows a special token.
  virtual void encode_behind(std::string_view text, std::vector<Token>& out) const {
    encode_text(text, out);
  }
  // Returns the bytes that a normal piece stands for.
  virtual std::string bytes_of(std::string_view piece) const = 0;
  // Returns true if encode() puts a space before the text.
  virtual bool adds_space() const { return false; }
  Vocabulary vocabulary_;

 private:
  friend class StreamDecoder;
  // Appends the tokens of a text in which only the vocabulary's `normalized` tokens may be left.
  void encode_rest(std::string_view text, bool follows, bool parse_special,
                   std::vector<Token>& out) const;
  std::unique_ptr<const SpecialTokens> special_tokens_;
  std::vector<Token> before_, behind_;
  std::vector<Token> ends_;  // sorted
};

// Decodes a growing generation into whole UTF-8 characters. The results of all push() and finish()
// calls together equal decode() of the same tokens, with bytes that are not UTF-8 replaced by
// U+FFFD.
class StreamDecoder {
 public:
  // continues: the tokens continue a text, so the leading space of the first one is kept. special:
  // as in Tokenizer::piece.
  explicit StreamDecoder(const Tokenizer& tokenizer, bool continues = false, bool special = false);
  std::string push(
      Token token);  // returns completed characters; bytes that can never complete become U+FFFD
  std::string finish();  // returns the rest; incomplete characters become U+FFFD

 private:
  const Tokenizer& tokenizer_;
  std::string pending_;
  bool first_;  // no text yet: drop the leading space of the next token
  bool special_;
};

}  // namespace kvick::text
