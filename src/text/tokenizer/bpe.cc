#include "text/tokenizer/bpe.h"

#include <array>

#include "text/pieces/byte_alphabet.h"
#include "text/pieces/merges.h"
#include "text/tokenizer/pretokenize.h"
#include "text/tokenizer/vocabulary_check.h"
#include "text/unicode/utf8.h"

namespace kvick::text {
namespace {

constexpr Token kNoPiece = -1;

class Bpe final : public Tokenizer {
 public:
  Bpe(Vocabulary vocabulary, const PreTokenizer& pre, const PieceMap& ids, MergeTable merges);

 private:
  void encode_text(std::string_view text, std::vector<Token>& out) const override;
  std::string bytes_of(std::string_view piece) const override {
    // A piece with characters outside of the alphabet was added as text.
    return alphabet_.bytes(piece).value_or(std::string(piece));
  }
  void encode_stretch(std::string_view stretch, std::vector<Token>& out) const;
  // Takes bytes as symbols (kNoPiece for a byte without one) and merges them. symbols: room for one
  // per byte.
  size_t merge_bytes(std::string_view bytes, std::span<Token> symbols) const;
  void find_whole_pieces();

  const PreTokenizerRun pre_;
  const bool takes_whole_pieces_;
  ByteAlphabet alphabet_;
  std::array<Token, 256> byte_ids_;
  MergeTable merges_;
  // Stretches that become one token. They are most of a text, and one look-up replaces the merging.
  PieceMap whole_;
  Token missing_ = kNoPiece;  // the token for a byte without a piece, or kNoPiece
};

Bpe::Bpe(Vocabulary vocabulary, const PreTokenizer& pre, const PieceMap& ids, MergeTable merges)
    : Tokenizer(std::move(vocabulary)),
      pre_(pre),
      takes_whole_pieces_(pre.whole_pieces),
      merges_(std::move(merges)),
      whole_(vocabulary_.pieces.size()) {
  for (size_t byte = 0; byte < 256; ++byte)
    byte_ids_[byte] = ids.find(alphabet_.letter(static_cast<uint8_t>(byte)));
  // Some files name <|endoftext|> as the unknown token, which must never come from text.
  const auto unknown = vocabulary_.unknown;
  if (unknown && vocabulary_.kinds[*unknown] == TokenKind::kUnknown) missing_ = *unknown;
  find_whole_pieces();
}

void Bpe::find_whole_pieces() {
  std::vector<Token> symbols;
  for (size_t i = 0; i < vocabulary_.pieces.size(); ++i) {
    const TokenKind kind = vocabulary_.kinds[i];
    if (kind != TokenKind::kNormal && kind != TokenKind::kUserDefined) continue;
    const auto bytes = alphabet_.bytes(vocabulary_.pieces[i]);
    if (!bytes || bytes->empty()) continue;
    symbols.resize(bytes->size());
    if (takes_whole_pieces_ ||
        (merge_bytes(*bytes, symbols) == 1 && symbols[0] == static_cast<Token>(i)))
      whole_.insert(*bytes, static_cast<Token>(i));
  }
}

size_t Bpe::merge_bytes(std::string_view bytes, std::span<Token> symbols) const {
  for (size_t i = 0; i < bytes.size(); ++i) symbols[i] = byte_ids_[static_cast<uint8_t>(bytes[i])];
  return merges_.merge(symbols.first(bytes.size()));
}

void Bpe::encode_stretch(std::string_view stretch, std::vector<Token>& out) const {
  if (const Token whole = whole_.find(stretch); whole != PieceMap::kNone) {
    out.push_back(whole);
    return;
  }
  std::array<Token, 256> few;
  std::vector<Token> many(stretch.size() > few.size() ? stretch.size() : 0);
  const std::span<Token> symbols = many.empty() ? std::span<Token>(few) : std::span<Token>(many);
  const size_t count = merge_bytes(stretch, symbols);
  for (const Token symbol : symbols.first(count)) {
    const Token token = symbol == kNoPiece ? missing_ : symbol;
    if (token != kNoPiece) out.push_back(token);
  }
}

void Bpe::encode_text(std::string_view text, std::vector<Token>& out) const {
  pre_(text, [&](std::string_view stretch) { encode_stretch(stretch, out); });
}

}  // namespace

base::Result<MergeTable> read_merges(const Vocabulary& v, const PieceMap& ids) {
  MergeTable merges(v.merges.size());
  for (size_t rank = 0; rank < v.merges.size(); ++rank) {
    const std::string_view merge = v.merges[rank];
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos)
      return base::fail("merge {} is {}, not two pieces with a space between them", rank,
                        show_piece(merge));
    const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
    const std::string both = std::string(left) += right;
    for (const std::string_view part : {left, right, std::string_view(both)})
      if (ids.find(part) == PieceMap::kNone)
        return base::fail("merge {} ({}) needs {}, which is not in the vocabulary", rank,
                          show_piece(merge), show_piece(part));
    merges.add(ids.find(left), ids.find(right), static_cast<uint32_t>(rank), ids.find(both));
  }
  return merges;
}

base::Result<std::unique_ptr<Tokenizer>> make_bpe(Vocabulary vocabulary, const PieceMap& ids) {
  const PreTokenizer* pre = find_pre_tokenizer(vocabulary.pre);
  if (!pre)
    return base::fail("pre-tokenizer {} is not known; these are: {}", show_piece(vocabulary.pre),
                      pre_tokenizer_names());
  KVICK_TRY(MergeTable merges, read_merges(vocabulary, ids));
  return std::unique_ptr<Tokenizer>(new Bpe(std::move(vocabulary), *pre, ids, std::move(merges)));
}

}  // namespace kvick::text
