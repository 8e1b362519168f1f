#include "text/tokenizer/special_tokens.h"

#include <algorithm>

namespace kvick::text {

SpecialTokens::SpecialTokens(const Vocabulary& vocabulary)
    : strips_right_(vocabulary.strips_right) {
  for (size_t i = 0; i < vocabulary.pieces.size(); ++i) {
    const TokenKind kind = vocabulary.kinds[i];
    const bool user_defined = kind == TokenKind::kUserDefined;
    if (!user_defined && kind != TokenKind::kControl && kind != TokenKind::kUnknown) continue;
    if (vocabulary.pieces[i].empty()) continue;
    all_.add(vocabulary.pieces[i], static_cast<Token>(i));
    if (user_defined) user_defined_.add(vocabulary.pieces[i], static_cast<Token>(i));
  }
  all_.finish();
  user_defined_.finish();
  std::sort(strips_right_.begin(), strips_right_.end());
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
  const Names& names = control ? all_ : user_defined_;
  std::vector<Match> out;
  if (names.sorted.empty()) return out;
  std::vector<size_t> longest;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!names.starts[static_cast<uint8_t>(text[i])]) continue;
    size_t length = names.longest_at(text.substr(i));
    if (length == 0) continue;
    const size_t begin = i;
    size_t end = i + length, starts = 1;
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
  for (size_t m = 0; m < out.size() && !strips_right_.empty(); ++m) {
    if (!std::binary_search(strips_right_.begin(), strips_right_.end(), out[m].token)) continue;
    const size_t limit = m + 1 < out.size() ? out[m + 1].begin : text.size();
    const size_t end = text.find_first_not_of(" \t\n\v\f\r", out[m].end);
    out[m].end = std::min(end, limit);
  }
  return out;
}

}  // namespace kvick::text
