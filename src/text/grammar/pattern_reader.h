#pragma once
// Reads the characters, escapes and classes of a regular expression.

#include <cstdint>
#include <fmt/format.h>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "text/grammar/char_nfa.h"
#include "text/grammar/char_set.h"

namespace kvick::text {

class PatternReader {
 protected:
  static constexpr uint32_t kMostRepeats = 1000;

  PatternReader(std::string_view pattern, PatternKind kind)
      : pattern_(pattern), python_(kind == PatternKind::kWhole) {}

  base::Status<> check_utf8() const;
  // Errors at the place that was read last.
  base::Error wrong(std::string_view what) const;
  base::Error unsupported(std::string_view what) const;

  bool at_end() const { return at_ >= pattern_.size(); }
  char peek() const { return at_end() ? '\0' : pattern_[at_]; }
  bool is_next(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  bool take(std::string_view text) {
    if (!is_next(text)) return false;
    at_ += text.size();
    return true;
  }
  bool take(char c) { return take(std::string_view(&c, 1)); }
  uint32_t character();
  // Returns kMostRepeats + 1 for any larger number.
  std::optional<uint32_t> number();
  base::Result<CharSet> bracket();              // a class, after its '['
  base::Result<CharSet> escape(bool in_class);  // after its backslash

  static bool is_single(const CharSet& set);
  // Returns what stands for the characters where case may be ignored.
  CharSet with_cases(CharSet set) const;

  std::string_view pattern_;
  bool python_;
  bool ignores_case_ = false;
  size_t at_ = 0;

 private:
  base::Result<CharSet> class_item();
  base::Result<uint32_t> hex_escape();
};

}  // namespace kvick::text
