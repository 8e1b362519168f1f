#pragma once
// Prompts for models that fill in the middle of a text (Bavarian et al. 2022, arXiv:2207.14255).

#include <string>
#include <vector>

#include "text/pieces/piece_map.h"
#include "text/tokenizer/tokenizer.h"

namespace kvick::text {

struct FillInFile {
  std::string name, text;
};

struct FillInText {
  std::string before, after;      // the text before and after the answer
  std::vector<FillInFile> files;  // other files of the project
};

// Sets the tokens that are not set yet, if the vocabulary has a piece with a name that published
// families use.
void find_fill_in(const PieceMap& pieces, FillInTokens& tokens);

// Returns whether the model has the three tokens that filling in needs.
bool can_fill_in(const Vocabulary& vocabulary);

// Returns the prompt after which the model writes the text between `before` and `after`: prefix,
// before, suffix, after, middle. Other files come first: in the form of Qwen2.5-Coder (Hui et al.
// 2024, arXiv:2409.12186) if the model has tokens for it, else as text. Names of control tokens in
// the texts are plain text.
std::vector<Token> fill_in_prompt(const Tokenizer& tokenizer, const FillInText& text);

}  // namespace kvick::text
