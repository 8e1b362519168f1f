#pragma once
// Small vocabularies for tests.

#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

#include "text/tokenizer/tokenizer.h"
#include "text/unicode/utf8.h"

namespace kvick::text {

inline void add_piece(Vocabulary& v, const std::string& piece, TokenKind kind = TokenKind::kNormal,
                      float score = 0) {
  v.pieces.push_back(piece);
  v.kinds.push_back(kind);
  if (v.model == "llama") v.scores.push_back(score);
}

// Makes a vocabulary of the 256 bytes as tokens 0 to 255, in order, and the results of the merges.
inline Vocabulary byte_vocabulary(const std::vector<std::string>& merges,
                                  const std::string& pre = "gpt-2") {
  Vocabulary v;
  v.model = "gpt2";
  v.pre = pre;
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool itself = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    std::string letter;
    append_utf8(itself ? byte : next++, letter);
    add_piece(v, letter);
  }
  v.merges = merges;
  for (std::string merge : merges) add_piece(v, merge.erase(merge.find(' ', 1), 1));
  return v;
}

// Makes a vocabulary of <unk>, <s>, </s>, all bytes as tokens 3 to 258, and the pieces with their
// scores.
inline Vocabulary sentence_vocabulary(const std::vector<std::pair<std::string, float>>& pieces,
                                      bool bytes = true) {
  Vocabulary v;
  v.model = "llama";
  add_piece(v, "<unk>", TokenKind::kUnknown);
  add_piece(v, "<s>", TokenKind::kControl);
  add_piece(v, "</s>", TokenKind::kControl);
  for (int byte = 0; bytes && byte < 256; ++byte)
    add_piece(v, fmt::format("<0x{:02X}>", byte), TokenKind::kByte);
  for (const auto& [piece, score] : pieces) add_piece(v, piece, TokenKind::kNormal, score);
  v.unknown = 0;
  v.bos = 1;
  v.eos = 2;
  return v;
}

inline std::unique_ptr<Tokenizer> make(Vocabulary v) {
  auto made = Tokenizer::make(std::move(v));
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
  return *std::move(made);
}

// Returns the error message for a vocabulary.
inline std::string error_of(Vocabulary v) {
  auto made = Tokenizer::make(std::move(v));
  return made.ok() ? "no error" : made.error().message;
}

inline std::vector<std::string> names(const Tokenizer& tokenizer,
                                      const std::vector<Token>& tokens) {
  std::vector<std::string> out;
  for (const Token token : tokens) out.push_back(tokenizer.vocabulary().pieces[token]);
  return out;
}

}  // namespace kvick::text
