#include "text/tokenizer/special_tokens.h"

#include <algorithm>

#include "text/unicode/classes.h"
#include "text/unicode/nfc.h"
#include "text/unicode/utf8.h"

namespace kvick::text {

namespace {

std::vector<Token> in_order(std::vector<Token> tokens) {
  std::sort(tokens.begin(), tokens.end());
  return tokens;
}

bool contains(const std::vector<Token>& sorted, Token token) {
  return std::binary_search(sorted.begin(), sorted.end(), token);
}

bool begins_with_word(std::string_view text) {
  if (text.empty()) return false;
  const Utf8 first = decode_utf8(text);
  return first.valid && is_word_character(first.code);
}

bool ends_with_word(std::string_view text) {
  return !text.empty() && begins_with_word(text.substr(text.size() - last_character_bytes(text)));
}

// Returns the number of bytes of the white space at the start of a text.
size_t space_before(std::string_view text) {
  size_t bytes = 0;
  while (bytes < text.size()) {
    const Utf8 next = decode_utf8(text.substr(bytes));
    if (!next.valid || !is_white_space(next.code)) break;
    bytes += next.bytes;
  }
  return bytes;
}

// Does the same at the end.
size_t space_behind(std::string_view text) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t bytes = last_character_bytes(rest);
    const Utf8 last = decode_utf8(rest.substr(rest.size() - bytes));
    if (!last.valid || !is_white_space(last.code)) break;
    rest.remove_suffix(bytes);
  }
  return text.size() - rest.size();
}

}  // namespace

SpecialTokens::SpecialTokens(const Vocabulary& vocabulary)
    : leftmost_wins_(vocabulary.leftmost_wins),
      strips_left_(in_order(vocabulary.strips_left)),
      strips_right_(in_order(vocabulary.strips_right)),
      whole_words_(in_order(vocabulary.whole_words)) {
  const std::vector<Token> late = in_order(vocabulary.normalized);
  for (size_t i = 0; i < vocabulary.pieces.size(); ++i) {
    const TokenKind kind = vocabulary.kinds[i];
    const bool user_defined = kind == TokenKind::kUserDefined;
    if (!user_defined && kind != TokenKind::kControl && kind != TokenKind::kUnknown) continue;
    std::string name = vocabulary.pieces[i];
    if (name.empty()) continue;
    const auto token = static_cast<Token>(i);
    const bool is_late = contains(late, token);
    if (is_late && vocabulary.nfc) name = to_nfc(name).value_or(name);
    Set& set = is_late ? normalized_ : given_;
    set.all.add(name, token);
    if (user_defined) set.user_defined.add(name, token);
  }
  for (Names* names :
       {&given_.all, &given_.user_defined, &normalized_.all, &normalized_.user_defined})
    names->finish();
}

void SpecialTokens::Names::add(const std::string& name, Token token) {
  sorted.emplace_back(name, token);
  lengths.push_back(name.size());
  starts[static_cast<uint8_t>(name[0])] = true;
}

void SpecialTokens::Names::finish() {
  std::sort(sorted.begin(), sorted.end());
  std::sort(lengths.begin(), lengths.end(), std::greater<>());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
}

size_t SpecialTokens::Names::longest_at(std::string_view text) const {
  size_t longest = 0;
  auto low = sorted.begin(), high = sorted.end();
  for (size_t depth = 0; depth < text.size() && low != high; ++depth) {
    // All names in [low, high) agree in their first `depth` bytes. char_traits<char> orders bytes
    // as unsigned.
    const auto byte = static_cast<uint8_t>(text[depth]);
    const auto at = [&](const auto& name) {
      return name.first.size() > depth ? static_cast<uint8_t>(name.first[depth]) : -1;
    };
    low = std::partition_point(low, high, [&](const auto& name) { return at(name) < byte; });
    high = std::partition_point(low, high, [&](const auto& name) { return at(name) == byte; });
    if (low != high && low->first.size() == depth + 1) longest = depth + 1;
  }
  return longest;
}

const Token* SpecialTokens::Names::find(std::string_view name) const {
  const auto found =
      std::lower_bound(sorted.begin(), sorted.end(), name,
                       [](const auto& a, std::string_view b) { return a.first < b; });
  return found != sorted.end() && found->first == name ? &found->second : nullptr;
}

// Resolves a chain of overlapping candidates that starts at `begin`. longest[i]: length of the
// longest name that begins at begin + i.
void SpecialTokens::Names::resolve(std::string_view text, size_t begin,
                                   const std::vector<size_t>& longest,
                                   std::vector<Match>& out) const {
  const size_t first_match = out.size();
  const size_t most = *std::max_element(longest.begin(), longest.end());
  std::vector<std::pair<size_t, size_t>> gaps{{begin, begin + longest.size()}};
  for (const size_t length : lengths) {
    if (length > most) continue;
    std::vector<std::pair<size_t, size_t>> rest;
    for (auto [from, end] : gaps) {
      for (size_t i = from; i + length <= end;) {
        const Token* token = longest[i - begin] >= length ? find(text.substr(i, length)) : nullptr;
        if (!token) {
          ++i;
          continue;
        }
        out.push_back({i, i + length, *token});
        if (i > from) rest.emplace_back(from, i);
        from = i += length;
      }
      if (from < end) rest.emplace_back(from, end);
    }
    gaps = std::move(rest);
  }
  std::sort(out.begin() + first_match, out.end(),
            [](const Match& a, const Match& b) { return a.begin < b.begin; });
}

std::vector<SpecialTokens::Match> SpecialTokens::find(std::string_view text, bool control) const {
  return find_in(control ? given_.all : given_.user_defined, text);
}

std::vector<SpecialTokens::Match> SpecialTokens::find_normalized(std::string_view text,
                                                                 bool control) const {
  return find_in(control ? normalized_.all : normalized_.user_defined, text);
}

std::vector<SpecialTokens::Match> SpecialTokens::find_in(const Names& names,
                                                         std::string_view text) const {
  std::vector<Match> out;
  if (names.sorted.empty()) return out;
  std::vector<size_t> longest;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!names.starts[static_cast<uint8_t>(text[i])]) continue;
    size_t length = names.longest_at(text.substr(i));
    if (length == 0) continue;
    const size_t begin = i;
    size_t end = i + length, starts = 1;
    if (leftmost_wins_) {
      out.push_back({begin, end, *names.find(text.substr(begin, length))});
      i = end - 1;
      continue;
    }
    longest.assign(1, length);
    for (++i; i < end; ++i) {
      const bool may = names.starts[static_cast<uint8_t>(text[i])];
      length = may ? names.longest_at(text.substr(i)) : 0;
      longest.push_back(length);
      starts += length > 0;
      end = std::max(end, i + length);
    }
    i = end - 1;
    if (starts == 1) {
      out.push_back({begin, end, *names.find(text.substr(begin, end - begin))});
    } else {
      names.resolve(text, begin, longest, out);
    }
  }
  if (!whole_words_.empty()) drop_parts_of_words(text, out);
  if (!strips_left_.empty() || !strips_right_.empty()) strip_white_space(text, out);
  return out;
}

void SpecialTokens::drop_parts_of_words(std::string_view text, std::vector<Match>& matches) const {
  std::erase_if(matches, [&](const Match& match) {
    return contains(whole_words_, match.token) && (ends_with_word(text.substr(0, match.begin)) ||
                                                   begins_with_word(text.substr(match.end)));
  });
}

// The white space between two tokens goes to the first one that takes it.
void SpecialTokens::strip_white_space(std::string_view text, std::vector<Match>& matches) const {
  size_t taken = 0;  // the end of the match before
  for (size_t m = 0; m < matches.size(); ++m) {
    auto& [begin, end, token] = matches[m];
    const size_t limit = m + 1 < matches.size() ? matches[m + 1].begin : text.size();
    if (contains(strips_left_, token)) begin -= space_behind(text.substr(taken, begin - taken));
    if (contains(strips_right_, token)) end += space_before(text.substr(end, limit - end));
    taken = end;
  }
}

}  // namespace kvick::text
