#include "text/jinja/python_string.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <utf8proc.h>

namespace kvick::text::jinja {
namespace {

utf8proc_category_t category(char32_t c) {
  return c > 0x10FFFF ? UTF8PROC_CATEGORY_CN : utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool is_cased(char32_t c) {
  auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LL ||
         kind == UTF8PROC_CATEGORY_LT;
}

void append_lower(std::string& out, char32_t c) {
  append_code_point(out, utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

void append_upper(std::string& out, char32_t c) {
  if (c == U'ß')
    out += "SS";
  else
    append_code_point(out, utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}

void append_title(std::string& out, char32_t c) {
  if (c == U'ß')
    out += "Ss";
  else
    append_code_point(out, utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
}

Pieces split_at_space(std::string_view s, int64_t limit) {
  Pieces pieces;
  std::string_view rest = strip(s, {}, Side::kLeft);
  while (!rest.empty()) {
    size_t end = 0, after = 0;
    while (end < rest.size() && !is_space(next_code_point(rest, after))) end = after;
    if (limit >= 0 && pieces.size() == static_cast<size_t>(limit)) end = rest.size();
    pieces.push_back(rest.substr(0, end));
    rest = strip(rest.substr(end), {}, Side::kLeft);
  }
  // As in Python, what is left after the limit keeps its white space, except on its left.
  return pieces;
}

Pieces rsplit_at_space(std::string_view s, int64_t limit) {
  Pieces pieces = split_at_space(s, -1);
  if (limit >= 0 && pieces.size() > static_cast<size_t>(limit) + 1) {
    size_t merged = pieces.size() - static_cast<size_t>(limit);
    const char* end = pieces[merged - 1].data() + pieces[merged - 1].size();
    std::string_view head(s.data(), static_cast<size_t>(end - s.data()));
    pieces.erase(pieces.begin(), pieces.begin() + static_cast<ptrdiff_t>(merged));
    pieces.insert(pieces.begin(), head);
  }
  // The head keeps the white space before its first word.
  if (limit >= 0 && !pieces.empty() && pieces.size() == static_cast<size_t>(limit) + 1) {
    const char* end = pieces[0].data() + pieces[0].size();
    pieces[0] = std::string_view(s.data(), static_cast<size_t>(end - s.data()));
  }
  return pieces;
}

// Splits from the right without overlaps: the mirror image of splitting the mirrored text.
Pieces rsplit_at(std::string_view s, std::string_view separator, int64_t limit) {
  std::string mirrored(s.rbegin(), s.rend()), mark(separator.rbegin(), separator.rend());
  Pieces pieces;
  for (std::string_view piece : split(mirrored, mark, limit, false)) {
    auto from_end = static_cast<size_t>(piece.data() - mirrored.data()) + piece.size();
    pieces.push_back(s.substr(s.size() - from_end, piece.size()));
  }
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

}  // namespace

char32_t next_code_point(std::string_view s, size_t& at) {
  auto byte = static_cast<unsigned char>(s[at]);
  if (byte < 0x80) return static_cast<char32_t>(s[at++]);
  utf8proc_int32_t c;
  auto read = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(s.data()) + at,
                               static_cast<utf8proc_ssize_t>(s.size() - at), &c);
  if (read <= 0) {
    ++at;
    return kEscapedByte + byte;
  }
  at += static_cast<size_t>(read);
  return static_cast<char32_t>(c);
}

void append_code_point(std::string& out, char32_t c) {
  if (c >= kEscapedByte + 0x80 && c <= kEscapedByte + 0xFF) {
    out += static_cast<char>(c - kEscapedByte);
    return;
  }
  std::array<utf8proc_uint8_t, 4> bytes;
  auto written = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes.data());
  out.append(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(written));
}

size_t count_code_points(std::string_view s) {
  size_t count = 0;
  for (size_t at = 0; at < s.size(); ++count) next_code_point(s, at);
  return count;
}

size_t byte_offset(std::string_view s, size_t index) {
  size_t at = 0;
  while (index-- > 0 && at < s.size()) next_code_point(s, at);
  return at;
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool is_alpha(char32_t c) {
  auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_digit(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }

bool is_word(char32_t c) {
  auto kind = category(c);
  return c == '_' || is_alpha(c) || (kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO);
}

bool is_printable(char32_t c) {
  if (c == ' ') return true;
  auto kind = category(c);
  return kind != UTF8PROC_CATEGORY_CN &&
         !(kind >= UTF8PROC_CATEGORY_ZS && kind <= UTF8PROC_CATEGORY_CO);
}

std::string to_lower(std::string_view s) {
  std::string out;
  for (size_t at = 0; at < s.size();) append_lower(out, next_code_point(s, at));
  return out;
}

std::string to_upper(std::string_view s) {
  std::string out;
  for (size_t at = 0; at < s.size();) append_upper(out, next_code_point(s, at));
  return out;
}

std::string capitalize(std::string_view s) {
  std::string out;
  for (size_t at = 0; at < s.size();) {
    bool first = at == 0;
    char32_t c = next_code_point(s, at);
    first ? append_title(out, c) : append_lower(out, c);
  }
  return out;
}

std::string title_method(std::string_view s) {
  std::string out;
  bool inside = false;
  for (size_t at = 0; at < s.size();) {
    char32_t c = next_code_point(s, at);
    inside ? append_lower(out, c) : append_title(out, c);
    inside = is_cased(c);
  }
  return out;
}

std::string title_filter(std::string_view s) {
  std::string out;
  bool inside = false;
  for (size_t at = 0; at < s.size();) {
    char32_t c = next_code_point(s, at);
    inside ? append_lower(out, c) : append_upper(out, c);
    inside = !is_space(c) && (c > 0x7F || std::string_view("-({[<").find(static_cast<char>(c)) ==
                                              std::string_view::npos);
  }
  return out;
}

bool has_only_case(std::string_view s, bool lower) {
  bool any = false;
  for (size_t at = 0; at < s.size();) {
    char32_t c = next_code_point(s, at);
    if (!is_cased(c)) continue;
    if ((category(c) == UTF8PROC_CATEGORY_LL) != lower || category(c) == UTF8PROC_CATEGORY_LT)
      return false;
    any = true;
  }
  return any;
}

std::string_view strip(std::string_view s, std::optional<std::string_view> chars, Side side) {
  std::u32string set;
  if (chars)
    for (size_t at = 0; at < chars->size();) set += next_code_point(*chars, at);
  std::sort(set.begin(), set.end());
  auto goes = [&](char32_t c) {
    return chars ? std::binary_search(set.begin(), set.end(), c) : is_space(c);
  };
  size_t begin = 0, end = s.size();
  if (side != Side::kRight)
    for (size_t at = 0; at < s.size() && goes(next_code_point(s, at));) begin = at;
  if (side != Side::kLeft) {
    // A code point can be decoded only from its start, so the part to keep is found from the left.
    size_t kept = begin;
    for (size_t at = begin; at < s.size();)
      if (!goes(next_code_point(s, at))) kept = at;
    end = kept;
  }
  return s.substr(begin, end - begin);
}

Pieces split(std::string_view s, std::optional<std::string_view> separator, int64_t limit,
             bool from_right) {
  if (!separator) return from_right ? rsplit_at_space(s, limit) : split_at_space(s, limit);
  if (from_right) return rsplit_at(s, *separator, limit);
  Pieces pieces;
  while (limit < 0 || pieces.size() < static_cast<size_t>(limit)) {
    size_t at = find(s, *separator);
    if (at == std::string_view::npos) break;
    pieces.push_back(s.substr(0, at));
    s = s.substr(at + separator->size());
  }
  pieces.push_back(s);
  return pieces;
}

Pieces split_lines(std::string_view s) {
  Pieces lines;
  size_t begin = 0;
  for (size_t at = 0; at < s.size();) {
    size_t end = at;
    char32_t c = next_code_point(s, at);
    if (!((c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
          c == 0x2029))
      continue;
    if (c == '\r' && at < s.size() && s[at] == '\n') ++at;
    lines.push_back(s.substr(begin, end - begin));
    begin = at;
  }
  if (begin < s.size()) lines.push_back(s.substr(begin));
  return lines;
}

size_t find(std::string_view s, std::string_view part, size_t from) {
  if (from > s.size()) return std::string_view::npos;
  const void* found = memmem(s.data() + from, s.size() - from, part.data(), part.size());
  return found ? static_cast<size_t>(static_cast<const char*>(found) - s.data())
               : std::string_view::npos;
}

size_t count_occurrences(std::string_view s, std::string_view part) {
  if (part.empty()) return count_code_points(s) + 1;
  size_t count = 0;
  for (size_t at = 0; (at = find(s, part, at)) != std::string_view::npos; at += part.size())
    ++count;
  return count;
}

std::string replace(std::string_view s, std::string_view from, std::string_view to, int64_t limit) {
  std::string out;
  size_t at = 0;
  auto more = [&] { return limit < 0 || limit-- > 0; };
  if (from.empty()) {
    while (more()) {
      out += to;
      if (at == s.size()) return out;
      size_t begin = at;
      next_code_point(s, at);
      out += s.substr(begin, at - begin);
    }
    return out.append(s.substr(at));
  }
  for (size_t found; (found = find(s, from, at)) != std::string_view::npos && more();) {
    out.append(s.substr(at, found - at)).append(to);
    at = found + from.size();
  }
  return out.append(s.substr(at));
}

std::string html_escape(std::string_view s) {
  std::string out;
  for (char c : s) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string repr_string(std::string_view s) {
  const char quote =
      s.find('\'') != std::string_view::npos && s.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (size_t at = 0; at < s.size();) {
    char32_t c = next_code_point(s, at);
    if (c == '\\' || c == static_cast<unsigned char>(quote))
      out.append(1, '\\').append(1, static_cast<char>(c));
    else if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\t')
      out += "\\t";
    else if (is_printable(c))
      append_code_point(out, c);
    else if (c < 0x100)
      out += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
    else if (c < 0x10000)
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    else
      out += fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
  }
  return out += quote;
}

}  // namespace kvick::text::jinja
