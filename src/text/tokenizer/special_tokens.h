#pragma once
// Finds tokens that are matched in the text itself, before any splitting: user-defined tokens
// always, control and unknown tokens only on demand.

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
    size_t begin, end;  // bytes of the text that the token replaces
    Token token;
  };

  explicit SpecialTokens(const Vocabulary& vocabulary);

  // Returns matches in order of the text, without overlaps. Of overlapping candidates the longest
  // wins, then the leftmost: a long token takes its bytes even from a shorter one that begins
  // before it, as in llama.cpp. With the vocabulary's `leftmost_wins` it is the leftmost, then the
  // longest. control: match all tokens, otherwise user-defined ones only.
  std::vector<Match> find(std::string_view text, bool control) const;
  // Does the same for the vocabulary's `normalized` tokens, which find() leaves out. text: in the
  // normal form of the vocabulary.
  std::vector<Match> find_normalized(std::string_view text, bool control) const;

 private:
  // A set of names, sorted, so that a search narrows the range byte by byte.
  struct Names {
    std::vector<std::pair<std::string, Token>> sorted;
    std::vector<size_t> lengths;  // distinct lengths of the names, longest first
    bool starts[256] = {};        // whether a name begins with this byte

    void add(const std::string& name, Token token);
    void finish();
    size_t longest_at(std::string_view text) const;  // 0: no name begins there
    const Token* find(std::string_view name) const;
    void resolve(std::string_view text, size_t begin, const std::vector<size_t>& longest,
                 std::vector<Match>& out) const;
  };

  // The tokens of one search.
  struct Set {
    Names user_defined, all;
  };
  std::vector<Match> find_in(const Names& names, std::string_view text) const;
  // Apply what tokens say about the text around them.
  void drop_parts_of_words(std::string_view text, std::vector<Match>& matches) const;
  void strip_white_space(std::string_view text, std::vector<Match>& matches) const;

  bool leftmost_wins_;
  Set given_, normalized_;
  std::vector<Token> strips_left_, strips_right_, whole_words_;  // sorted
};

}  // namespace kvick::text
