#pragma once
// Methods of Python's str, on UTF-8. A byte that is not part of well-formed UTF-8 counts as one
// code point and is kept.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvick::text::jinja {

// A malformed byte decodes to this plus the byte, as with Python's surrogateescape, and encodes
// back to the byte.
inline constexpr char32_t kEscapedByte = 0xDC00;

char32_t next_code_point(std::string_view s, size_t& at);  // at < s.size(); advances `at`
void append_code_point(std::string& out, char32_t c);
size_t count_code_points(std::string_view s);
// Returns the byte offset of code point `index`; s.size() if there are fewer.
size_t byte_offset(std::string_view s, size_t index);

bool is_space(char32_t c);
bool is_alpha(char32_t c);
bool is_digit(char32_t c);
bool is_word(char32_t c);  // what \w matches
bool is_printable(char32_t c);

// Case mapping is one code point to one, except for the German sharp s.
std::string to_lower(std::string_view s);
std::string to_upper(std::string_view s);
std::string capitalize(std::string_view s);
std::string title_method(
    std::string_view s);  // str.title(): a word begins after anything that has no case
std::string title_filter(std::string_view s);  // |title: a word begins after spaces and -({[<
// str.islower() with lower = true, else str.isupper().
bool has_only_case(std::string_view s, bool lower);

enum class Side { kLeft, kRight, kBoth };
// chars: nullopt strips white space.
std::string_view strip(std::string_view s, std::optional<std::string_view> chars, Side side);

using Pieces = std::vector<std::string_view>;
// str.split, or str.rsplit with from_right. separator: nullopt splits at runs of white space; must
// not be empty. limit: the most cuts; negative: no limit.
Pieces split(std::string_view s, std::optional<std::string_view> separator, int64_t limit,
             bool from_right);
Pieces split_lines(std::string_view s);
// Takes time linear in both lengths (std::string_view::find does not); npos if absent.
size_t find(std::string_view s, std::string_view part, size_t from = 0);
size_t count_occurrences(std::string_view s, std::string_view part);  // as str.count does
// limit: the most replacements; negative: no limit.
std::string replace(std::string_view s, std::string_view from, std::string_view to, int64_t limit);
std::string html_escape(std::string_view s);
std::string repr_string(std::string_view s);

}  // namespace kvick::text::jinja
