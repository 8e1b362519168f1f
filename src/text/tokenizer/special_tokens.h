#pragma once
// Finds tokens that are matched in the text itself, before any splitting: user-defined ones always,
// control and unknown ones on demand.

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace kvick::text {

class SpecialTokens {
 public:
  struct Match {
    size_t begin, end;  // bytes of the text that it stands for
    Token token;
  };

  explicit SpecialTokens(const Vocabulary& vocabulary);

  // Matches in order, none overlapping. Of overlapping ones the longest wins, then the leftmost: a
  // long token takes its bytes even from a shorter one that starts before it, as in llama.cpp.
  // control: match all, else user-defined only.
  std::vector<Match> find(std::string_view text, bool control) const;

 private:
  // One set of names, sorted, so that a search narrows byte by byte.
  struct Names {
    std::vector<std::pair<std::string, Token>> sorted;
    std::vector<size_t> lengths;  // the distinct ones, longest first
    bool starts[256] = {};        // which bytes begin a name

    void add(const std::string& name, Token token);
    void finish();
    size_t longest_at(std::string_view text) const;  // 0: none begins there
    const Token* find(std::string_view name) const;
    void resolve(std::string_view text, size_t begin, const std::vector<size_t>& longest,
                 std::vector<Match>& out) const;
  };

  Names user_defined_, all_;
  std::vector<Token> strips_right_;  // sorted
};

}  // namespace kvick::text
