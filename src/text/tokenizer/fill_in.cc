#include "text/tokenizer/fill_in.h"

#include <fmt/format.h>
#include <string_view>

#include "base/check.h"

namespace kvick::text {

void find_fill_in(const PieceMap& pieces, FillInTokens& tokens) {
  struct Known {
    std::optional<Token>& token;
    std::vector<std::string_view> names;
  };
  // The names of Qwen, StarCoder, Granite, DeepSeek, Code Llama (with and without SentencePiece's
  // space), GLM and Falcon-H1-Tiny-Coder.
  const Known known[] = {
      {tokens.prefix,
       {"<|fim_prefix|>", "<fim_prefix>", "<fim-prefix>", "<｜fim▁begin｜>", "▁<PRE>", "<PRE>",
        "<|code_prefix|>", "<|prefix|>"}},
      {tokens.suffix,
       {"<|fim_suffix|>", "<fim_suffix>", "<fim-suffix>", "<｜fim▁hole｜>", "▁<SUF>", "<SUF>",
        "<|code_suffix|>", "<|suffix|>"}},
      {tokens.middle,
       {"<|fim_middle|>", "<fim_middle>", "<fim-middle>", "<｜fim▁end｜>", "▁<MID>", "<MID>",
        "<|code_middle|>", "<|middle|>"}},
      {tokens.repository, {"<|repo_name|>", "<|fim_repo|>", "<fim-repo>", "<reponame>", "<REPO>"}},
      {tokens.file, {"<|file_sep|>", "<file_sep>"}}};
  for (const auto& [token, names] : known)
    for (const std::string_view name : names) {
      if (token) break;
      if (const Token found = pieces.find(name); found >= 0) token = found;
    }
}

bool can_fill_in(const Vocabulary& vocabulary) {
  const FillInTokens& tokens = vocabulary.fill_in;
  return tokens.prefix && tokens.suffix && tokens.middle;
}

std::vector<Token> fill_in_prompt(const Tokenizer& tokenizer, const FillInText& text) {
  const Vocabulary& vocabulary = tokenizer.vocabulary();
  const FillInTokens& tokens = vocabulary.fill_in;
  KVICK_CHECK(can_fill_in(vocabulary), "no tokens to fill in with, of {}",
              vocabulary.pieces.size());
  std::vector<Token> prompt = tokenizer.before();
  const auto add = [&](const std::string& some) {
    const std::vector<Token> encoded = tokenizer.encode(some, false, false);
    prompt.insert(prompt.end(), encoded.begin(), encoded.end());
  };
  const bool in_files = tokens.file && !text.files.empty();
  if (in_files && tokens.repository) prompt.push_back(*tokens.repository), add("project\n");
  for (const FillInFile& file : text.files) {
    if (in_files) prompt.push_back(*tokens.file);
    add(in_files ? fmt::format("{}\n{}", file.name, file.text)
                 : fmt::format("--- {} ---\n\n{}\n\n", file.name, file.text));
  }
  if (in_files) prompt.push_back(*tokens.file), add("this file\n");
  prompt.push_back(*tokens.prefix), add(text.before);
  prompt.push_back(*tokens.suffix), add(text.after);
  prompt.push_back(*tokens.middle);
  return prompt;
}

}  // namespace kvick::text
