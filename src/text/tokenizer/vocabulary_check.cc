#include "text/tokenizer/vocabulary_check.h"

#include <cmath>
#include <utility>

#include "text/unicode/utf8.h"

namespace kvick::text {
namespace {

constexpr size_t kMostPieces = 1 << 22;
constexpr size_t kMostPieceBytes = 4096;
constexpr size_t kMostMerges = 1 << 24;

base::Status<> check_sizes(const Vocabulary& v) {
  const size_t count = v.pieces.size();
  if (count == 0) return base::fail("the vocabulary has no tokens");
  if (count > kMostPieces)
    return base::fail("the vocabulary has {} tokens; {} are the most that are taken", count,
                      kMostPieces);
  if (v.kinds.size() != count)
    return base::fail("the vocabulary has {} tokens but {} token types", count, v.kinds.size());
  if (v.merges.size() > kMostMerges)
    return base::fail("the vocabulary has {} merges; {} are the most that are taken",
                      v.merges.size(), kMostMerges);
  return base::Done{};
}

base::Status<> check_ids(const Vocabulary& v) {
  const auto in_range = [&](Token id) {
    return id >= 0 && static_cast<size_t>(id) < v.pieces.size();
  };
  const std::pair<const char*, std::optional<Token>> named[] = {
      {"bos", v.bos},
      {"eos", v.eos},
      {"eot", v.eot},
      {"unknown", v.unknown},
      {"padding", v.pad},
      {"separator", v.separator},
      {"FIM prefix", v.fill_in.prefix},
      {"FIM suffix", v.fill_in.suffix},
      {"FIM middle", v.fill_in.middle},
      {"FIM repository", v.fill_in.repository},
      {"FIM file", v.fill_in.file}};
  for (const auto& [name, id] : named)
    if (id && !in_range(*id))
      return base::fail("the vocabulary's {} token is {}, but it has only {} tokens", name, *id,
                        v.pieces.size());
  const std::pair<const char*, const std::vector<Token>*> lists[] = {
      {"strip white space", &v.strips_left},
      {"strip white space", &v.strips_right},
      {"be found as a whole word", &v.whole_words},
      {"be found in normalised texts", &v.normalized},
      {"stand before texts", &v.before},
      {"stand behind texts", &v.behind}};
  for (const auto& [what, list] : lists)
    for (const Token id : *list)
      if (!in_range(id))
        return base::fail("token {} shall {}, but there are only {}", id, what, v.pieces.size());
  if (v.add_bos && !v.bos)
    return base::fail("the vocabulary asks for a BOS token in front of the text but names none");
  if (v.add_separator && !v.separator)
    return base::fail("the vocabulary asks for a separator between two texts but names none");
  if (v.add_eos && !v.eos)
    return base::fail("the vocabulary asks for an EOS token behind the text but names none");
  return base::Done{};
}

base::Status<> check_piece(const Vocabulary& v, size_t i) {
  const std::string& piece = v.pieces[i];
  if (piece.size() > kMostPieceBytes)
    return base::fail("token {} has {} bytes; {} are the most that are taken", i, piece.size(),
                      kMostPieceBytes);
  if (v.kinds[i] > TokenKind::kByte)
    return base::fail("token {} {} has a type that does not exist ({})", i, show_piece(piece),
                      static_cast<int>(v.kinds[i]));
  if (v.kinds[i] == TokenKind::kByte && !byte_of_name(piece))
    return base::fail("token {} {} has the type of a byte, but such are named <0x00> to <0xFF>", i,
                      show_piece(piece));
  return base::Done{};
}

}  // namespace

std::string show_piece(std::string_view piece) {
  constexpr size_t kMost = 48;
  std::string out = "'";
  for (size_t i = 0; i < piece.size();) {
    if (i >= kMost) {
      out += "...";
      break;
    }
    const Utf8 next = decode_utf8(piece.substr(i));
    const bool printable =
        next.valid && next.code >= 0x20 && !(next.code >= 0x7F && next.code < 0xA0);
    if (printable) {
      out += piece.substr(i, next.bytes);
    } else {
      for (const char byte : piece.substr(i, next.bytes))
        out += fmt::format("\\x{:02x}", static_cast<uint8_t>(byte));
    }
    i += next.bytes;
  }
  return out + "'";
}

std::optional<uint8_t> byte_of_name(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return std::nullopt;
  int value = 0;
  for (const char digit : piece.substr(3, 2)) {
    const size_t nibble = std::string_view("0123456789ABCDEFabcdef").find(digit);
    if (nibble == std::string_view::npos) return std::nullopt;
    value = value * 16 + static_cast<int>(nibble < 16 ? nibble : nibble - 6);
  }
  return static_cast<uint8_t>(value);
}

base::Result<PieceMap> check_vocabulary(const Vocabulary& v) {
  KVICK_TRY_VOID(check_sizes(v));
  KVICK_TRY_VOID(check_ids(v));
  PieceMap ids(v.pieces.size());
  for (size_t i = 0; i < v.pieces.size(); ++i) {
    KVICK_TRY_VOID(check_piece(v, i));
    if (!v.pieces[i].empty() && !ids.insert(v.pieces[i], static_cast<Token>(i)))
      return base::fail("tokens {} and {} are both {}", ids.find(v.pieces[i]), i,
                        show_piece(v.pieces[i]));
  }
  return ids;
}

}  // namespace kvick::text
