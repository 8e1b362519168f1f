#include "text/tokenizer/wordpiece.h"

#include <array>
#include <utf8proc.h>

#include "text/pieces/piece_map.h"
#include "text/unicode/utf8.h"

namespace kvick::text {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581
constexpr size_t kMostCharacters = 100;              // in a word; longer words are unknown
constexpr uint32_t kReplacement = 0xFFFD;

utf8proc_category_t category(uint32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

// Returns whether the character is white space. Other control characters are dropped.
bool is_space(uint32_t code) {
  if (code == '\t' || code == '\n' || code == '\r') return true;
  const utf8proc_category_t kind = category(code);
  return kind == UTF8PROC_CATEGORY_ZS || kind == UTF8PROC_CATEGORY_ZL ||
         kind == UTF8PROC_CATEGORY_ZP;
}

bool is_dropped(uint32_t code) {
  const utf8proc_category_t kind = category(code);
  return code == 0 || code == kReplacement || kind == UTF8PROC_CATEGORY_CC ||
         kind == UTF8PROC_CATEGORY_CF || kind == UTF8PROC_CATEGORY_CO ||
         kind == UTF8PROC_CATEGORY_CS;
}

bool is_punctuation(uint32_t code) {
  if (code < 0x80)
    return (code >= 33 && code <= 47) || (code >= 58 && code <= 64) || (code >= 91 && code <= 96) ||
           (code >= 123 && code <= 126);
  const utf8proc_category_t kind = category(code);
  return kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO;
}

// The blocks that Hugging Face's tokenizers treat as ideographs, including the gap in their table.
bool is_ideograph(uint32_t code) {
  struct Block {
    uint32_t first, last;
  };
  constexpr std::array<Block, 8> kBlocks = {{{0x4E00, 0x9FFF},
                                             {0x3400, 0x4DBF},
                                             {0x20000, 0x2A6DF},
                                             {0x2A700, 0x2B73F},
                                             {0x2B740, 0x2B81F},
                                             {0x2B920, 0x2CEAF},
                                             {0xF900, 0xFAFF},
                                             {0x2F800, 0x2FA1F}}};
  for (const Block& block : kBlocks)
    if (code >= block.first && code <= block.last) return true;
  return false;
}

class WordPiece final : public Tokenizer {
 public:
  explicit WordPiece(Vocabulary vocabulary)
      : Tokenizer(std::move(vocabulary)), starts_(count()), rests_(count()) {
    for (size_t i = 0; i < vocabulary_.pieces.size(); ++i) {
      const std::string_view piece = vocabulary_.pieces[i];
      const TokenKind kind = vocabulary_.kinds[i];
      if (kind != TokenKind::kNormal && kind != TokenKind::kUserDefined) continue;
      if (piece.starts_with(kSpace) && piece.size() > kSpace.size())
        starts_.insert(piece.substr(kSpace.size()), static_cast<Token>(i));
      else
        rests_.insert(piece, static_cast<Token>(i));
    }
  }

 private:
  size_t count() const { return vocabulary_.pieces.size(); }

  void encode_text(std::string_view text, std::vector<Token>& out) const override;
  std::string bytes_of(std::string_view piece) const override {
    if (!piece.starts_with(kSpace)) return std::string(piece);
    return " " + std::string(piece.substr(kSpace.size()));
  }
  bool adds_space() const override { return true; }

  void take(uint32_t code, std::vector<uint32_t>& word, std::vector<Token>& out) const;
  void take_letters(uint32_t code, std::vector<uint32_t>& word, std::vector<Token>& out) const;
  void take_letter(uint32_t code, std::vector<uint32_t>& word, std::vector<Token>& out) const;
  void put_word(std::vector<uint32_t>& word, std::vector<Token>& out) const;

  PieceMap starts_, rests_;  // pieces that begin a word, and those inside one
};

// Adds a character that is neither dropped nor a space: its letters, without accents and in lower
// case if the vocabulary says so.
void WordPiece::take(uint32_t code, std::vector<uint32_t>& word, std::vector<Token>& out) const {
  if (is_ideograph(code)) put_word(word, out);
  take_letters(code, word, out);
  if (is_ideograph(code)) put_word(word, out);
}

void WordPiece::take_letters(uint32_t code, std::vector<uint32_t>& word,
                             std::vector<Token>& out) const {
  if (!vocabulary_.strip_accents) return take_letter(code, word, out);
  constexpr int kMost = 32;  // no character decomposes into more
  std::array<utf8proc_int32_t, kMost> parts{};
  int boundary = 0;
  const utf8proc_ssize_t n =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), parts.data(), kMost,
                              static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE), &boundary);
  if (n <= 0 || n > kMost) return take_letter(code, word, out);
  for (utf8proc_ssize_t i = 0; i < n; ++i) {
    const auto part = static_cast<uint32_t>(parts[static_cast<size_t>(i)]);
    if (category(part) != UTF8PROC_CATEGORY_MN) take_letter(part, word, out);
  }
}

void WordPiece::take_letter(uint32_t code, std::vector<uint32_t>& word,
                            std::vector<Token>& out) const {
  // The only letter whose lower case is two characters.
  constexpr uint32_t kDottedI = 0x130, kDot = 0x307;
  const bool dotted = vocabulary_.lowercase && code == kDottedI;
  if (dotted)
    code = 'i';
  else if (vocabulary_.lowercase)
    code = static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
  if (is_punctuation(code)) {
    put_word(word, out);
    word.push_back(code);
    return put_word(word, out);
  }
  word.push_back(code);
  if (dotted) word.push_back(kDot);
}

// Adds the tokens of the word and empties it.
void WordPiece::put_word(std::vector<uint32_t>& word, std::vector<Token>& out) const {
  if (word.empty()) return;
  const std::vector<uint32_t> characters = std::exchange(word, {});
  const size_t before = out.size();
  std::string text;
  std::vector<size_t> ends = {0};
  for (const uint32_t code : characters) {
    append_utf8(code, text);
    ends.push_back(text.size());
  }
  bool known = characters.size() <= kMostCharacters;
  for (size_t from = 0; known && from < characters.size();) {
    const PieceMap& pieces = from == 0 ? starts_ : rests_;
    Token found = PieceMap::kNone;
    size_t end = characters.size();
    for (; end > from; --end) {
      found = pieces.find(std::string_view(text).substr(ends[from], ends[end] - ends[from]));
      if (found != PieceMap::kNone) break;
    }
    known = found != PieceMap::kNone;
    if (known) out.push_back(found);
    from = end;
  }
  if (known) return;
  out.resize(before);
  out.push_back(*vocabulary_.unknown);
}

void WordPiece::encode_text(std::string_view text, std::vector<Token>& out) const {
  std::vector<uint32_t> word;
  while (!text.empty()) {
    const Utf8 next = decode_utf8(text);
    text.remove_prefix(next.bytes);
    const bool space = next.valid && is_space(next.code);
    if (space) put_word(word, out);
    if (space || !next.valid || is_dropped(next.code)) continue;
    take(next.code, word, out);
  }
  put_word(word, out);
}

}  // namespace

base::Result<std::unique_ptr<Tokenizer>> make_wordpiece(Vocabulary vocabulary) {
  if (!vocabulary.unknown)
    return base::fail("the vocabulary names no token for words that it has no pieces for");
  return std::unique_ptr<Tokenizer>(std::make_unique<WordPiece>(std::move(vocabulary)));
}

}  // namespace kvick::text
