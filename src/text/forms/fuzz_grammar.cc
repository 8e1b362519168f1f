// The first byte of the input gives the kind of form: 0 a GBNF grammar, 1 a regular expression, 2
// choices, one per line. The text of the form follows, then a zero byte, then the choices by which
// an answer is drawn. Checked: the form is compiled, or refused in one line; every mask leaves a
// token; an answer to a list of choices is one of them; PCRE2 also matches an answer to a regular
// expression.
#ifndef PCRE2_CODE_UNIT_WIDTH
#define PCRE2_CODE_UNIT_WIDTH 8
#endif
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <pcre2.h>
#include <string>
#include <string_view>
#include <vector>

#include "text/forms/forms.h"
#include "text/grammar/grammar_constraint.h"
#include "text/grammar/test_choices.h"

namespace {

namespace text = kvick::text;

std::vector<std::string> lines_of(std::string_view all) {
  std::vector<std::string> lines;
  while (!all.empty()) {
    const size_t end = std::min(all.find('\n'), all.size());
    lines.emplace_back(all.substr(0, end));
    all.remove_prefix(std::min(end + 1, all.size()));
  }
  return lines;
}

kvick::base::Result<text::Grammar> grammar_of(uint8_t kind, std::string_view form) {
  const text::ByteSet all = text::ByteSet().set();
  if (kind == 0) return text::gbnf_grammar(form, all);
  if (kind == 1) return text::regex_grammar(form, all);
  return text::choice_grammar(lines_of(form), all);
}

// Returns whether the pattern means the same in Python and PCRE2: no named classes, no escapes of
// letters other than those of classes and white space, only plain groups, and no counts without a
// first number.
bool is_common(std::string_view pattern) {
  for (size_t i = 0; i < pattern.size(); ++i) {
    const std::string_view rest = pattern.substr(i);
    if (static_cast<unsigned char>(pattern[i]) >= 0x80 || rest.starts_with("[:") ||
        rest.starts_with("[.") || rest.starts_with("[=") || rest.starts_with("{,") ||
        (rest.starts_with("(?") && !rest.starts_with("(?:")) || rest.starts_with("(*") ||
        rest[0] == '$' || rest[0] == '^')
      return false;
    if (pattern[i] != '\\') continue;
    const char next = rest.size() > 1 ? rest[1] : 'Z';
    const bool letter = (next >= '0' && next <= '9') || (next >= 'A' && next <= 'Z') ||
                        (next >= 'a' && next <= 'z');
    if (letter && std::string_view("dDwWsStnrf").find(next) == std::string_view::npos) return false;
    ++i;
  }
  return true;
}

void check_by_pcre2(std::string_view pattern, const std::string& answer) {
  if (!is_common(pattern)) return;
  const std::string whole = "\\A(?:" + std::string(pattern) + ")\\z";
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* const code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(whole.data()), whole.size(),
                                         PCRE2_UTF, &error, &at, nullptr);
  if (code == nullptr) return;
  pcre2_match_data* const data = pcre2_match_data_create(1, nullptr);
  const int found = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(answer.data()), answer.size(), 0,
                                0, data, nullptr);
  pcre2_match_data_free(data);
  pcre2_code_free(code);
  if (found == PCRE2_ERROR_NOMATCH || found == PCRE2_ERROR_BADUTFOFFSET) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto kTokens = text::byte_tokens();
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data + 1), size - 1);
  const size_t cut = std::min(input.find('\0'), input.size());
  const std::string_view form = input.substr(0, cut);
  const auto kind = static_cast<uint8_t>(data[0] % 3);
  auto grammar = grammar_of(kind, form);
  if (!grammar.ok()) {
    if (grammar.error().message.find('\n') != std::string::npos) std::abort();
    return 0;
  }
  const auto made = text::grammar_constraint(kTokens, std::move(grammar).value());
  const auto answer =
      text::chosen_answer(*made->clone(), input.substr(std::min(cut + 1, input.size())));
  if (!answer) return 0;
  if (kind == 1) check_by_pcre2(form, *answer);
  if (kind != 2) return 0;
  const std::vector<std::string> choices = lines_of(form);
  if (std::find(choices.begin(), choices.end(), *answer) == choices.end()) std::abort();
  return 0;
}
