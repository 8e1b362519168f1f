#include "text/tokenizer/unigram.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "text/pieces/charsmap.h"
#include "text/pieces/piece_trie.h"
#include "text/unicode/utf8.h"

namespace kvick::text {
namespace {

constexpr std::string_view kMark = "\xE2\x96\x81";  // U+2581
// The score of an unknown character is this much below the worst piece's.
constexpr double kUnknownPenalty = 10;

PieceTrie pieces_of(const Vocabulary& v) {
  std::vector<std::pair<std::string_view, int32_t>> pieces;
  for (size_t i = 0; i < v.pieces.size(); ++i)
    if ((v.kinds[i] == TokenKind::kNormal || v.kinds[i] == TokenKind::kUserDefined) &&
        !v.pieces[i].empty())
      pieces.emplace_back(v.pieces[i], static_cast<Token>(i));
  return PieceTrie(std::move(pieces));
}

double unknown_score(const Vocabulary& v) {
  double least = 0;
  for (size_t i = 0; i < v.pieces.size(); ++i)
    if (v.kinds[i] == TokenKind::kNormal) least = std::min<double>(least, v.scores[i]);
  return least - kUnknownPenalty;
}

class Unigram final : public Tokenizer {
 public:
  Unigram(Vocabulary vocabulary, Charsmap charsmap)
      : Tokenizer(std::move(vocabulary)),
        charsmap_(std::move(charsmap)),
        pieces_(pieces_of(vocabulary_)),
        unknown_score_(unknown_score(vocabulary_)) {}

 private:
  // The last piece of the best segmentation up to a place.
  struct Step {
    double score = -std::numeric_limits<double>::infinity();
    Token token = 0;
    size_t from = 0;
  };

  void encode_text(std::string_view text, std::vector<Token>& out) const override;
  std::string normalised(std::string_view text) const;
  std::string bytes_of(std::string_view piece) const override {
    std::string out;
    while (!piece.empty()) {
      const bool mark = piece.starts_with(kMark);
      out += mark ? ' ' : piece[0];
      piece.remove_prefix(mark ? kMark.size() : 1);
    }
    return out;
  }
  bool adds_space() const override { return vocabulary_.add_space_prefix; }

  const Charsmap charsmap_;
  const PieceTrie pieces_;
  const double unknown_score_;
};

std::string Unigram::normalised(std::string_view text) const {
  const bool merges = vocabulary_.merge_spaces;
  std::string out;
  if (vocabulary_.add_space_prefix) out = kMark;
  const size_t begin = out.size();
  bool behind_space = true;  // whether the output so far ends in a space; also at the start
  while (!text.empty()) {
    const Charsmap::Replaced next = charsmap_.replace(text);
    text.remove_prefix(next.bytes);
    for (const char byte : next.by) {
      if (byte != ' ')
        out += byte;
      else if (!merges || !behind_space)
        out += kMark;
      behind_space = byte == ' ';
    }
  }
  if (merges && out.size() > begin && behind_space) out.resize(out.size() - kMark.size());
  if (out.size() == begin && merges) out.clear();
  return out;
}

void Unigram::encode_text(std::string_view text, std::vector<Token>& out) const {
  const std::string chars = normalised(text);
  std::vector<Step> best(chars.size() + 1);
  best[0].score = 0;
  for (size_t at = 0; at < chars.size();) {
    const std::string_view rest = std::string_view(chars).substr(at);
    const size_t character = decode_utf8(rest).bytes;
    const double score = best[at].score;
    bool known = false;  // the character is a piece
    const auto reach = [&](Token token, size_t bytes, double gain) {
      Step& step = best[at + bytes];
      if (score + gain > step.score) step = {score + gain, token, at};
    };
    pieces_.for_each(rest, [&](Token token, size_t bytes) {
      known |= bytes == character;
      reach(token, bytes, vocabulary_.scores[static_cast<size_t>(token)]);
    });
    if (!known) reach(*vocabulary_.unknown, character, unknown_score_);
    at += character;
  }
  const size_t before = out.size();
  for (size_t end = chars.size(); end > 0; end = best[end].from) {
    // Adjacent unknown characters become one token.
    const bool again = best[end].token == *vocabulary_.unknown && out.size() > before &&
                       out.back() == best[end].token;
    if (!again) out.push_back(best[end].token);
  }
  std::reverse(out.begin() + static_cast<ptrdiff_t>(before), out.end());
}

}  // namespace

base::Result<std::unique_ptr<Tokenizer>> make_unigram(Vocabulary vocabulary) {
  if (vocabulary.scores.size() != vocabulary.pieces.size())
    return base::fail("the vocabulary has {} tokens but {} scores", vocabulary.pieces.size(),
                      vocabulary.scores.size());
  for (const float score : vocabulary.scores)
    if (!std::isfinite(score)) return base::fail("the vocabulary has a score that is no number");
  if (!vocabulary.unknown)
    return base::fail("the vocabulary names no token for characters that it has no pieces for");
  KVICK_TRY(Charsmap charsmap, Charsmap::read(vocabulary.charsmap));
  return std::unique_ptr<Tokenizer>(
      std::make_unique<Unigram>(std::move(vocabulary), std::move(charsmap)));
}

}  // namespace kvick::text
