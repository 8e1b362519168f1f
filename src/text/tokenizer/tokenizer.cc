#include "text/tokenizer/tokenizer.h"

#include <algorithm>
#include <array>
#include <span>

#include "text/tokenizer/bpe.h"
#include "text/tokenizer/fill_in.h"
#include "text/tokenizer/special_tokens.h"
#include "text/tokenizer/spm.h"
#include "text/tokenizer/unigram.h"
#include "text/tokenizer/vocabulary_check.h"
#include "text/tokenizer/wordpiece.h"
#include "text/unicode/nfc.h"
#include "text/unicode/utf8.h"

namespace kvick::text {
namespace {

constexpr std::string_view kToolResponse = "<|tool_response>";
// Names of tokens that end a turn or a document in published families. A special token with one of
// these names ends a generation; model files do not mark such tokens otherwise.
constexpr std::array<std::string_view, 32> kEnds = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
    "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
    "<|end_of_text|>", "<end_of_utterance>", "<｜end▁of▁sentence｜>", "[e~[",
    // After these tokens a code model begins another file, or pads.
    "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<|fim_repo|>", "<|repo_name|>", "<fim-repo>",
    "<REPO>", "<reponame>", "<|file_sep|>", "<PAD>", "[PAD]",
    // Gemma 4: the end of a turn, and the place where a tool's result is expected.
    "<turn|>", kToolResponse};

std::vector<Token> find_ends(const Vocabulary& v) {
  std::vector<Token> ends;
  std::optional<Token> end_of_message;
  bool has_return = false, has_call = false, has_flush = false, marks_up = false;
  for (size_t i = 0; i < v.pieces.size(); ++i) {
    const bool special = v.kinds[i] == TokenKind::kControl || v.kinds[i] == TokenKind::kUserDefined;
    const std::string& name = v.pieces[i];
    if (!special || std::find(kEnds.begin(), kEnds.end(), name) == kEnds.end()) continue;
    has_return |= name == "<|return|>";
    has_call |= name == "<|call|>" || name == "<|calls|>";
    has_flush |= name == "<|flush|>";
    marks_up |= name == kToolResponse;
    if (name == "<|end|>") {
      end_of_message = static_cast<Token>(i);
    } else {
      ends.push_back(static_cast<Token>(i));
    }
  }
  // In gpt-oss and Solar Open, which have these tokens, <|end|> only separates the messages of one
  // turn.
  if (end_of_message && !(has_call && (has_return || has_flush))) ends.push_back(*end_of_message);
  // Gemma 4 uses </s> as an HTML tag.
  if (marks_up) std::erase_if(ends, [&](Token token) { return v.pieces[token] == "</s>"; });
  if (v.eos) ends.push_back(*v.eos);
  if (v.eot) ends.push_back(*v.eot);
  ends.insert(ends.end(), v.ends.begin(), v.ends.end());
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return ends;
}

// Returns the tokens on one side of a text. token: BOS or EOS.
std::vector<Token> added(const std::vector<Token>& listed, bool adds, std::optional<Token> token) {
  return !listed.empty() || !adds ? listed : std::vector<Token>{*token};
}

// Appends the tokens of the matches, and calls plain(stretch, follows) for the texts between them.
// follows: a token stands before the text.
template <typename Plain>
void put_matches(std::string_view text, std::span<const SpecialTokens::Match> matches, bool follows,
                 std::vector<Token>& out, Plain plain) {
  size_t at = 0;
  const auto put = [&](size_t end) {
    if (end > at) plain(text.substr(at, end - at), follows || at > 0);
  };
  for (const SpecialTokens::Match& match : matches) {
    put(match.begin);
    out.push_back(match.token);
    at = match.end;
  }
  put(text.size());
}

}  // namespace

base::Result<std::unique_ptr<Tokenizer>> Tokenizer::make(Vocabulary vocabulary) {
  KVICK_TRY(const PieceMap ids, check_vocabulary(vocabulary));
  find_fill_in(ids, vocabulary.fill_in);
  if (vocabulary.model == "gpt2") return make_bpe(std::move(vocabulary), ids);
  if (vocabulary.model == "llama" || vocabulary.model == "gemma4")
    return make_spm(std::move(vocabulary), ids);
  if (vocabulary.model == "t5") return make_unigram(std::move(vocabulary));
  if (vocabulary.model == "bert") return make_wordpiece(std::move(vocabulary));
  return base::fail("tokenizer model {} is not known; these are: gpt2, llama, gemma4, t5, bert",
                    show_piece(vocabulary.model));
}

Tokenizer::Tokenizer(Vocabulary vocabulary)
    : vocabulary_(std::move(vocabulary)),
      special_tokens_(std::make_unique<SpecialTokens>(vocabulary_)),
      before_(added(vocabulary_.before, vocabulary_.add_bos, vocabulary_.bos)),
      behind_(added(vocabulary_.behind, vocabulary_.add_eos, vocabulary_.eos)),
      ends_(find_ends(vocabulary_)) {}

Tokenizer::~Tokenizer() = default;

std::vector<Token> Tokenizer::encode(std::string_view text, bool special,
                                     bool parse_special) const {
  std::vector<Token> out;
  if (special) out = before_;
  put_matches(text, special_tokens_->find(text, parse_special), false, out,
              [&](std::string_view stretch, bool follows) {
                encode_rest(stretch, follows, parse_special, out);
              });
  if (special) out.insert(out.end(), behind_.begin(), behind_.end());
  return out;
}

void Tokenizer::encode_rest(std::string_view text, bool follows, bool parse_special,
                            std::vector<Token>& out) const {
  const std::optional<std::string> form = vocabulary_.nfc ? to_nfc(text) : std::nullopt;
  if (form) text = *form;
  put_matches(text, special_tokens_->find_normalized(text, parse_special), follows, out,
              [&](std::string_view stretch, bool later) {
                later ? encode_behind(stretch, out) : encode_text(stretch, out);
              });
}

std::string Tokenizer::piece(Token token, bool special) const {
  KVICK_CHECK(token >= 0 && static_cast<size_t>(token) < vocabulary_.pieces.size(),
              "token {} of a vocabulary of {}", token, vocabulary_.pieces.size());
  const std::string& name = vocabulary_.pieces[token];
  switch (vocabulary_.kinds[token]) {
    case TokenKind::kNormal:
      return bytes_of(name);
    case TokenKind::kUserDefined:
      return name;
    case TokenKind::kByte:
      return std::string(1, static_cast<char>(*byte_of_name(name)));
    case TokenKind::kUnknown:
    case TokenKind::kControl:
    case TokenKind::kUnused:
      break;
  }
  return special ? name : std::string();
}

std::string Tokenizer::decode(const std::vector<Token>& tokens, bool special) const {
  std::string out;
  for (const Token token : tokens) out += piece(token, special);
  if (adds_space() && out.starts_with(' ')) out.erase(0, 1);
  return out;
}

bool Tokenizer::ends_generation(Token token) const {
  return std::binary_search(ends_.begin(), ends_.end(), token);
}

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool continues, bool special)
    : tokenizer_(tokenizer), first_(tokenizer.adds_space() && !continues), special_(special) {}

std::string StreamDecoder::push(Token token) {
  const std::string piece = tokenizer_.piece(token, special_);
  pending_ += first_ && piece.starts_with(' ') ? std::string_view(piece).substr(1) : piece;
  first_ = first_ && piece.empty();
  std::string out;
  drain_utf8(pending_, false, out);
  return out;
}

std::string StreamDecoder::finish() {
  std::string out;
  drain_utf8(pending_, true, out);
  return out;
}

}  // namespace kvick::text
