// libFuzzer: makes a vocabulary and tokenizes a text with it. The input is a byte that chooses the
// kind of tokenizer, the pieces, one per line (the first byte is the score), a zero byte, and the
// text. A bad vocabulary must be refused with an error of one line. With a good one all token ids
// must be in the vocabulary. If it has all single bytes, decoding must give the text again, at once
// and token by token.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "text/tokenizer/tokenizer.h"
#include "text/unicode/utf8.h"

namespace {

namespace text = kvick::text;

void add(text::Vocabulary& v, std::string piece, text::TokenKind kind, float score = 0) {
  v.pieces.push_back(std::move(piece));
  v.kinds.push_back(kind);
  v.scores.push_back(score);
}

std::string letter_of(uint32_t byte, uint32_t& next) {
  const bool itself = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
  std::string letter;
  text::append_utf8(itself ? byte : next++, letter);
  return letter;
}

void add_bytes(text::Vocabulary& v) {
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte)
    if (v.model == "gpt2")
      add(v, letter_of(byte, next), text::TokenKind::kNormal);
    else
      add(v, fmt::format("<0x{:02X}>", byte), text::TokenKind::kByte);
}

text::Vocabulary vocabulary(uint8_t kind, std::string_view lines) {
  text::Vocabulary v;
  constexpr const char* kModels[] = {"gpt2", "llama", "t5", "bert"};
  constexpr const char* kPres[] = {"gpt-2", "llama-bpe", "qwen2", ""};
  v.model = kModels[kind % 4];
  if (v.model == "gpt2") v.pre = kPres[kind / 4 % 4];
  add(v, "<unk>", text::TokenKind::kUnknown);
  add(v, "</s>", text::TokenKind::kControl);
  v.unknown = 0;
  v.eos = 1;
  v.add_space_prefix = (kind & 64) != 0;
  v.merge_spaces = (kind & 32) != 0;
  if (v.model == "gpt2" || v.model == "llama") add_bytes(v);
  // The byte tokens of U+2581 are not decoded to a space.
  if (v.model == "llama") add(v, "\u2581", text::TokenKind::kNormal);
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    if (line.size() < 2) continue;
    const float score = static_cast<float>(static_cast<int8_t>(line[0])) / 8;
    const std::string piece(line.substr(1));
    if (v.model == "gpt2" && piece.find(' ') != std::string::npos) {
      v.merges.push_back(piece);
      std::string joined = piece;
      joined.erase(joined.find(' '), 1);
      add(v, std::move(joined), text::TokenKind::kNormal);
    } else {
      add(v, piece, score > 12 ? text::TokenKind::kUserDefined : text::TokenKind::kNormal, score);
    }
  }
  if (v.model != "llama" && v.model != "t5") v.scores.clear();
  return v;
}

void check(const text::Tokenizer& tokenizer, const std::string& given) {
  const auto tokens = tokenizer.encode(given, false, false);
  const auto pieces = tokenizer.vocabulary().pieces.size();
  for (const text::Token token : tokens)
    if (token < 0 || static_cast<size_t>(token) >= pieces) std::abort();
  if (tokens != tokenizer.encode(given, false, false)) std::abort();
  const std::string decoded = tokenizer.decode(tokens);
  const std::string& model = tokenizer.vocabulary().model;
  const bool has_all = model == "gpt2" || model == "llama";
  // Decoding turns U+2581 into a space, and a space is also put before text after a special token.
  const auto& kinds = tokenizer.vocabulary().kinds;
  const bool marks = std::count(kinds.begin(), kinds.end(), text::TokenKind::kUserDefined) > 0;
  const bool is_other = model == "llama" && (given.find("\u2581") != std::string::npos ||
                                             (marks && tokenizer.vocabulary().add_space_prefix));
  if (has_all && !is_other && decoded != given) std::abort();
  text::StreamDecoder stream(tokenizer);
  std::string streamed;
  for (const text::Token token : tokens) streamed += stream.push(token);
  streamed += stream.finish();
  std::string bytes = decoded, characters;
  text::drain_utf8(bytes, true, characters);
  if (streamed != characters) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data + 1), size - 1);
  const size_t cut = std::min(input.find('\0'), input.size());
  const auto made = text::Tokenizer::make(vocabulary(data[0], input.substr(0, cut)));
  if (!made.ok()) {
    if (made.error().message.find('\n') != std::string::npos) std::abort();
    return 0;
  }
  check(**made, std::string(input.substr(std::min(cut + 1, input.size()))));
  return 0;
}
