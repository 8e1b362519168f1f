#include "text/pieces/regex_split.h"

#include <array>
#include <fmt/format.h>
#include <stdexcept>

#include "base/check.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace kvick::text {
namespace {

// Backtracking of long runs needs more than the 32 KiB of stack that compiled expressions have by
// default.
constexpr size_t kLeastStack = 32 << 10, kMostStack = 8 << 20;

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

PCRE2_SPTR bytes_of(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

void RegexSplit::Scratch::Free::operator()(pcre2_real_match_data_8* p) const {
  pcre2_match_data_free(p);
}
void RegexSplit::Scratch::Free::operator()(pcre2_real_match_context_8* p) const {
  pcre2_match_context_free(p);
}
void RegexSplit::Scratch::Free::operator()(pcre2_real_jit_stack_8* p) const {
  pcre2_jit_stack_free(p);
}

RegexSplit::RegexSplit(std::string_view regex) {
  int error = 0;
  size_t at = 0;
  // Users' text may be invalid UTF-8: invalid bytes match nothing.
  code_ = pcre2_compile(bytes_of(regex), regex.size(),
                        PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &error, &at, nullptr);
  KVICK_CHECK(code_ != nullptr, "{} at {} of {}", message_of(error), at, regex);
  pcre2_jit_compile(code_, PCRE2_JIT_COMPLETE);  // without it PCRE2 interprets
}

RegexSplit::~RegexSplit() { pcre2_code_free(code_); }

RegexSplit::Scratch RegexSplit::scratch() const {
  Scratch scratch;
  scratch.match.reset(pcre2_match_data_create_from_pattern(code_, nullptr));
  scratch.context.reset(pcre2_match_context_create(nullptr));
  scratch.stack.reset(pcre2_jit_stack_create(kLeastStack, kMostStack, nullptr));
  if (scratch.match == nullptr || scratch.context == nullptr) throw std::bad_alloc();
  pcre2_jit_stack_assign(scratch.context.get(), nullptr, scratch.stack.get());
  return scratch;
}

bool RegexSplit::find(std::string_view text, size_t at, Scratch& scratch, size_t& begin,
                      size_t& end) const {
  const int found = pcre2_match(code_, bytes_of(text), text.size(), at, 0, scratch.match.get(),
                                scratch.context.get());
  if (found == PCRE2_ERROR_NOMATCH) return false;
  if (found < 0)
    throw std::runtime_error(
        fmt::format("a text of {} bytes cannot be tokenized: {}", text.size(), message_of(found)));
  const size_t* const ends = pcre2_get_ovector_pointer(scratch.match.get());
  begin = ends[0], end = ends[1];
  return true;
}

void RegexSplit::split(std::string_view text, Scratch& scratch,
                       base::FunctionRef<void(std::string_view)> stretch) const {
  size_t done = 0, at = 0;  // at: where the search continues
  while (at < text.size()) {
    size_t begin = 0, end = 0;
    if (!find(text, at, scratch, begin, end)) break;
    if (begin > done) stretch(text.substr(done, begin - done));
    if (end > begin) stretch(text.substr(begin, end - begin));
    done = end;
    at = end;
    // After an empty match the search continues one character further.
    if (end == begin) do
        ++at;
      while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  }
  if (done < text.size()) stretch(text.substr(done));
}

}  // namespace kvick::text
