#include "text/tokenizer/spm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_set>

#include "text/pieces/merges.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/vocabulary_check.h"
#include "text/unicode/utf8.h"

namespace kvick::text {
namespace {

constexpr Token kNoPiece = -1;
constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581

size_t character_bytes(std::string_view text) {
  const Utf8 next = decode_utf8(text);
  return next.valid ? next.bytes : 1;
}

using ByteTokens = std::array<Token, 256>;  // kNoPiece: there is none

// Returns whether plain text may contain the piece: normal and user-defined pieces only.
bool from_text(const Vocabulary& v, size_t i) {
  return (v.kinds[i] == TokenKind::kNormal || v.kinds[i] == TokenKind::kUserDefined) &&
         !v.pieces[i].empty();
}

// Numbers the symbols: a piece's symbol is its token; characters that occur only inside pieces get
// numbers after the vocabulary's.
struct Symbols {
  explicit Symbols(const Vocabulary& v);
  MergeTable merges(const Vocabulary& v) const;

  PieceMap by_text;
  std::vector<std::string> extra;     // the characters numbered after the vocabulary
  bool words_are_independent = true;  // no piece has U+2581 after another character
};

std::string_view take_character(std::string_view& text) {
  const std::string_view character = text.substr(0, character_bytes(text));
  text.remove_prefix(character.size());
  return character;
}

size_t count_symbols(const Vocabulary& v) {
  std::unordered_set<std::string_view> characters;
  for (size_t i = 0; i < v.pieces.size(); ++i) {
    if (!from_text(v, i)) continue;
    for (std::string_view rest = v.pieces[i]; !rest.empty();)
      characters.insert(take_character(rest));
  }
  return v.pieces.size() + characters.size();
}

Symbols::Symbols(const Vocabulary& v) : by_text(count_symbols(v)) {
  for (size_t i = 0; i < v.pieces.size(); ++i)
    if (from_text(v, i)) by_text.insert(v.pieces[i], static_cast<Token>(i));
  for (size_t i = 0; i < v.pieces.size(); ++i) {
    if (!from_text(v, i)) continue;
    std::string_view rest = v.pieces[i], before;
    while (!rest.empty()) {
      const std::string_view character = take_character(rest);
      if (by_text.insert(character, static_cast<Token>(v.pieces.size() + extra.size())))
        extra.emplace_back(character);
      words_are_independent &= character != kSpace || before.empty() || before == kSpace;
      before = character;
    }
  }
}

// Returns all pairs of symbols that make a piece, ranked by the piece's score. Equal scores share a
// rank.
MergeTable Symbols::merges(const Vocabulary& v) const {
  std::vector<float> scores = v.scores;
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  struct Merge {
    Token left, right;
    uint32_t rank;
    Token result;
  };
  std::vector<Merge> found;
  for (size_t i = 0; i < v.pieces.size(); ++i) {
    if (!from_text(v, i)) continue;
    const std::string_view piece = v.pieces[i];
    const auto rank = static_cast<uint32_t>(
        std::lower_bound(scores.begin(), scores.end(), v.scores[i], std::greater<>()) -
        scores.begin());
    for (size_t cut = character_bytes(piece); cut < piece.size();
         cut += character_bytes(piece.substr(cut))) {
      const Token left = by_text.find(piece.substr(0, cut)),
                  right = by_text.find(piece.substr(cut));
      if (left != kNoPiece && right != kNoPiece)
        found.push_back({left, right, rank, static_cast<Token>(i)});
    }
  }
  MergeTable table(found.size());
  for (const Merge& m : found) table.add(m.left, m.right, m.rank, m.result);
  return table;
}

class Spm final : public Tokenizer {
 public:
  // merges: the vocabulary's list; nullopt: pieces are ranked by their scores.
  Spm(Vocabulary vocabulary, const ByteTokens& byte_ids, std::optional<MergeTable> merges);

 private:
  struct Output {
    std::vector<Token>& tokens;
    std::vector<Token> symbols;   // scratch
    bool behind_unknown = false;  // the last token is the unknown one
  };

  void encode_text(std::string_view text, std::vector<Token>& out) const override;
  void encode_behind(std::string_view text, std::vector<Token>& out) const override {
    encode_prefixed(text, !vocabulary_.space_prefix_once && prefixes(text), out);
  }
  bool prefixes(std::string_view text) const;  // whether a space goes before the text
  void encode_prefixed(std::string_view text, bool prefix, std::vector<Token>& out) const;
  std::string bytes_of(std::string_view piece) const override;
  bool adds_space() const override { return vocabulary_.add_space_prefix; }

  void encode_word(std::string_view word, Output& out) const;
  void put_symbols(Output& out) const;
  void put_bytes(std::string_view character, Output& out) const;
  void find_whole_pieces();

  const Symbols symbols_;
  const MergeTable merges_;
  const ByteTokens byte_ids_;
  PieceMap whole_;  // words that become one token
};

Spm::Spm(Vocabulary vocabulary, const ByteTokens& byte_ids, std::optional<MergeTable> merges)
    : Tokenizer(std::move(vocabulary)),
      symbols_(vocabulary_),
      merges_(merges ? *std::move(merges) : symbols_.merges(vocabulary_)),
      byte_ids_(byte_ids),
      whole_(vocabulary_.pieces.size()) {
  find_whole_pieces();
}

void Spm::find_whole_pieces() {
  PieceMap whole(vocabulary_.pieces.size());
  std::vector<Token> tokens;
  for (size_t i = 0; i < vocabulary_.pieces.size(); ++i) {
    if (!from_text(vocabulary_, i)) continue;
    tokens.clear();
    Output out{tokens, {}};
    encode_word(vocabulary_.pieces[i], out);
    if (tokens.size() == 1 && tokens[0] == static_cast<Token>(i))
      whole.insert(vocabulary_.pieces[i], static_cast<Token>(i));
  }
  whole_ = std::move(whole);
}

void Spm::encode_text(std::string_view text, std::vector<Token>& out) const {
  encode_prefixed(text, prefixes(text), out);
}

bool Spm::prefixes(std::string_view text) const {
  const bool spares = vocabulary_.space_prefix_spared || vocabulary_.space_prefix_once;
  const bool has_one = text.starts_with(' ') || text.starts_with(kSpace);
  return vocabulary_.add_space_prefix && !(spares && has_one);
}

void Spm::encode_prefixed(std::string_view text, bool prefix, std::vector<Token>& tokens) const {
  std::string escaped;
  escaped.reserve(text.size() * 5 / 4 + kSpace.size());
  if (prefix) escaped += kSpace;
  for (const char c : text) {
    if (c == ' ') {
      escaped += kSpace;
    } else {
      escaped += c;
    }
  }
  Output out{tokens, {}};
  const std::string_view rest = escaped;
  size_t word = 0;
  // Words can be encoded one by one unless a piece has U+2581 after another character: only such a
  // piece could be merged across the end of a word.
  for (size_t i = 0; symbols_.words_are_independent && i < rest.size();) {
    const bool space = rest.substr(i).starts_with(kSpace);
    if (space && i > word && !rest.substr(0, i).ends_with(kSpace)) {
      encode_word(rest.substr(word, i - word), out);
      word = i;
    }
    i += space ? kSpace.size() : 1;
  }
  encode_word(rest.substr(word), out);
}

void Spm::encode_word(std::string_view word, Output& out) const {
  if (const Token whole = whole_.find(word); whole != PieceMap::kNone) {
    out.tokens.push_back(whole);
    out.behind_unknown = false;
    return;
  }
  out.symbols.clear();
  while (!word.empty()) {
    const std::string_view character = take_character(word);
    const Token symbol = symbols_.by_text.find(character);
    if (symbol != kNoPiece) {
      out.symbols.push_back(symbol);
      continue;
    }
    put_symbols(out);
    put_bytes(character, out);
  }
  put_symbols(out);
}

void Spm::put_symbols(Output& out) const {
  const size_t count = merges_.merge(out.symbols);
  for (size_t i = 0; i < count; ++i) {
    const auto symbol = static_cast<size_t>(out.symbols[i]);
    if (symbol < vocabulary_.pieces.size()) {
      out.tokens.push_back(out.symbols[i]);
      out.behind_unknown = false;
    } else {
      put_bytes(symbols_.extra[symbol - vocabulary_.pieces.size()], out);
    }
  }
  out.symbols.clear();
}

// Adds a character that is not a piece: its bytes if all have tokens, else the unknown token, once
// per run of such characters.
void Spm::put_bytes(std::string_view character, Output& out) const {
  const auto id_of = [&](char c) { return byte_ids_[static_cast<uint8_t>(c)]; };
  const bool all =
      std::all_of(character.begin(), character.end(), [&](char c) { return id_of(c) != kNoPiece; });
  if (!all && !out.behind_unknown) out.tokens.push_back(*vocabulary_.unknown);
  if (all)
    for (const char c : character) out.tokens.push_back(id_of(c));
  out.behind_unknown = !all;
}

std::string Spm::bytes_of(std::string_view piece) const {
  std::string out;
  while (!piece.empty()) {
    const bool space = piece.starts_with(kSpace);
    out += space ? ' ' : piece[0];
    piece.remove_prefix(space ? kSpace.size() : 1);
  }
  return out;
}

base::Status<> check_scores(const Vocabulary& vocabulary) {
  if (vocabulary.scores.size() != vocabulary.pieces.size())
    return base::fail("the vocabulary has {} tokens but {} scores", vocabulary.pieces.size(),
                      vocabulary.scores.size());
  for (size_t i = 0; i < vocabulary.scores.size(); ++i)
    if (std::isnan(vocabulary.scores[i]))
      return base::fail("the score of token {} {} is not a number", i,
                        show_piece(vocabulary.pieces[i]));
  return base::Done{};
}

}  // namespace

base::Result<std::unique_ptr<Tokenizer>> make_spm(Vocabulary vocabulary, const PieceMap& ids) {
  std::optional<MergeTable> merges;
  if (vocabulary.model == "llama") {
    KVICK_TRY_VOID(check_scores(vocabulary));
  } else {
    KVICK_TRY(merges, read_merges(vocabulary, ids));
  }
  ByteTokens byte_ids;
  byte_ids.fill(kNoPiece);
  for (size_t i = 0; i < vocabulary.pieces.size(); ++i)
    if (vocabulary.kinds[i] == TokenKind::kByte)
      byte_ids[*byte_of_name(vocabulary.pieces[i])] = static_cast<Token>(i);
  const auto missing = std::count(byte_ids.begin(), byte_ids.end(), kNoPiece);
  if (!vocabulary.unknown && missing > 0)
    return base::fail(
        "the vocabulary lacks {} of the 256 byte tokens and names no unknown token, so that not "
        "all "
        "text has tokens",
        missing);
  return std::unique_ptr<Tokenizer>(new Spm(std::move(vocabulary), byte_ids, std::move(merges)));
}

}  // namespace kvick::text
