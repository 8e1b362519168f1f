#pragma once
// For tests of constraints: a small vocabulary with tokens that cross the boundaries of JSON's
// parts.

#include <cmath>
#include <memory>
#include <vector>

#include "text/schema/json_constraint.h"
#include "text/tokenizer/test_vocabulary.h"

namespace kvick::text {

struct JsonTokens {
  JsonTokens() {
    Vocabulary v = byte_vocabulary({"{ \"", "\" :", "\": \"", "\" ,", "\", \"", "\" }", "a b",
                                    "ab c", "] ,",  "1 2",    "0 .",  "Ã ©",    "â Ĥ",  "Ĥ ¬",
                                    "t r",  "tr u", "tru e",  "\\ u", "} }",    "[ [",  "Ċ Ġ",
                                    "ĊĠ Ġ", "Ġ \"", ": Ġ",    "¬ \"", "\\ \"",  ", Ġ"});
    add_piece(v, "<|im_start|>", TokenKind::kControl);
    add_piece(v, "<|im_end|>", TokenKind::kControl);
    v.eos = end = static_cast<Token>(v.pieces.size() - 1);
    vocab = v.pieces.size();
    tokenizer = make(std::move(v));
    trie = std::move(TokenTrie::make(*tokenizer)).value();
  }

  std::unique_ptr<Constraint> constraint(const Json& schema) const {
    auto made = json_constraint(trie, schema);
    EXPECT_TRUE(made.ok()) << schema << ": " << (made.ok() ? "" : made.error().message);
    return (*made)->clone();
  }
  std::vector<Token> allowed(Constraint& constraint) const {
    std::vector<float> logits(vocab, 1.0F);
    constraint.mask(logits);
    std::vector<Token> out;
    for (size_t i = 0; i < vocab; ++i)
      if (!std::isinf(logits[i])) out.push_back(static_cast<Token>(i));
    return out;
  }

  std::unique_ptr<Tokenizer> tokenizer;
  std::shared_ptr<const TokenTrie> trie;
  Token end = 0;
  size_t vocab = 0;
};

}  // namespace kvick::text
