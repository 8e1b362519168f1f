#include "train/from_model/tokenise.h"

#include "io/gguf/gguf_writer.h"
#include "text/pieces/byte_alphabet.h"

namespace kvick::train {
namespace {

using text::Token;
using text::TokenKind;

// Returns GGUF's number of a token kind, as in tokenizer.ggml.token_type.
int32_t type_of(TokenKind kind) {
  switch (kind) {
    case TokenKind::kNormal:
      return 1;
    case TokenKind::kUnknown:
      return 2;
    case TokenKind::kControl:
      return 3;
    case TokenKind::kUserDefined:
      return 4;
    case TokenKind::kUnused:
      return 5;
    case TokenKind::kByte:
      return 6;
  }
  KVICK_CHECK(false, "token kind {}", static_cast<int>(kind));
}

void put_ids(const text::Vocabulary& v, io::GgufMetadata& out) {
  const std::pair<const char*, const std::optional<Token>*> ids[] = {
      {"tokenizer.ggml.bos_token_id", &v.bos},
      {"tokenizer.ggml.eos_token_id", &v.eos},
      {"tokenizer.ggml.eot_token_id", &v.eot},
      {"tokenizer.ggml.unknown_token_id", &v.unknown},
      {"tokenizer.ggml.padding_token_id", &v.pad}};
  for (const auto& [key, id] : ids)
    if (*id) out.put(key, static_cast<uint32_t>(**id));
  const std::pair<const char*, const std::vector<Token>*> lists[] = {
      {"kvick.eos_token_ids", &v.ends},
      {"kvick.before_ids", &v.before},
      {"kvick.behind_ids", &v.behind},
      {"kvick.strips_left_ids", &v.strips_left},
      {"kvick.strips_right_ids", &v.strips_right},
      {"kvick.whole_word_ids", &v.whole_words},
      {"kvick.normalized_ids", &v.normalized}};
  for (const auto& [key, list] : lists)
    if (!list->empty()) out.put(key, std::span<const int32_t>(*list));
}

// Returns where the held-out share at the end of a text begins: after a line end.
size_t cut_of(const std::string& text, double held_out) {
  const auto wanted = static_cast<size_t>((1 - held_out) * static_cast<double>(text.size()));
  const size_t line = text.rfind('\n', wanted);
  return line == std::string::npos ? wanted : line + 1;
}

}  // namespace

text::Vocabulary byte_vocabulary() {
  text::Vocabulary v;
  v.model = "gpt2";
  v.pre = "gpt-2";
  const text::ByteAlphabet alphabet;
  for (int byte = 0; byte < 256; ++byte)
    v.pieces.push_back(alphabet.letter(static_cast<uint8_t>(byte)));
  v.pieces.emplace_back("<|endoftext|>");
  v.kinds.assign(256, TokenKind::kNormal);
  v.kinds.push_back(TokenKind::kControl);
  v.bos = v.eos = 256;
  v.add_space_prefix = false;
  return v;
}

Vocabulary written(const text::Vocabulary& v) {
  io::GgufMetadata out;
  out.put("tokenizer.ggml.model", std::string_view(v.model));
  if (!v.pre.empty()) out.put("tokenizer.ggml.pre", std::string_view(v.pre));
  out.put("tokenizer.ggml.tokens", std::span(v.pieces));
  std::vector<int32_t> types;
  for (const TokenKind kind : v.kinds) types.push_back(type_of(kind));
  out.put("tokenizer.ggml.token_type", std::span<const int32_t>(types));
  if (!v.scores.empty()) out.put("tokenizer.ggml.scores", std::span(v.scores));
  if (!v.merges.empty()) out.put("tokenizer.ggml.merges", std::span(v.merges));
  put_ids(v, out);
  out.put("tokenizer.ggml.add_bos_token", v.add_bos);
  out.put("tokenizer.ggml.add_eos_token", v.add_eos);
  out.put("tokenizer.ggml.add_space_prefix", v.add_space_prefix);
  if (v.space_prefix_spared) out.put("kvick.space_prefix_spared", true);
  if (v.space_prefix_once) out.put("kvick.space_prefix_once", true);
  if (v.leftmost_wins) out.put("kvick.leftmost_wins", true);
  if (v.nfc) out.put("kvick.nfc", true);
  if (!v.chat_template.empty())
    out.put("tokenizer.chat_template", std::string_view(v.chat_template));
  return {.pairs = out.count(), .bytes = out.bytes()};
}

TokenData tokenise(const text::Tokenizer& tokenizer, std::span<const std::string> texts,
                   double held_out) {
  const text::Vocabulary& vocabulary = tokenizer.vocabulary();
  TokenData out{.vocab = static_cast<uint32_t>(vocabulary.pieces.size()),
                .vocabulary = written(vocabulary),
                .train = {},
                .held_out = {}};
  const auto add = [&](std::string_view text, std::vector<int32_t>& to) {
    const std::vector<Token> tokens = tokenizer.encode(text, false, false);
    to.insert(to.end(), tokens.begin(), tokens.end());
    if (vocabulary.eos && !text.empty()) to.push_back(*vocabulary.eos);
  };
  for (const std::string& text : texts) {
    const size_t cut = cut_of(text, held_out);
    add(std::string_view(text).substr(0, cut), out.train);
    add(std::string_view(text).substr(cut), out.held_out);
  }
  return out;
}

}  // namespace kvick::train
