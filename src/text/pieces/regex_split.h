#pragma once
// Splits UTF-8 text by a regular expression, with PCRE2.

#include <memory>
#include <string_view>

#include "base/function_ref.h"

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;
struct pcre2_real_jit_stack_8;

namespace kvick::text {

class RegexSplit {
 public:
  // The expression must be one of kvick's own: an invalid one is a bug (KVICK_CHECK).
  explicit RegexSplit(std::string_view regex);
  ~RegexSplit();
  RegexSplit(const RegexSplit&) = delete;
  RegexSplit& operator=(const RegexSplit&) = delete;

  // The memory that one thread needs for matching.
  class Scratch {
   public:
    Scratch() = default;

   private:
    friend class RegexSplit;
    struct Free {
      void operator()(pcre2_real_match_data_8* p) const;
      void operator()(pcre2_real_match_context_8* p) const;
      void operator()(pcre2_real_jit_stack_8* p) const;
    };
    std::unique_ptr<pcre2_real_match_data_8, Free> match;
    std::unique_ptr<pcre2_real_jit_stack_8, Free> stack;
    std::unique_ptr<pcre2_real_match_context_8, Free> context;
  };
  Scratch scratch() const;

  // Calls `stretch` for each match and for each text between two matches. An empty match only cuts.
  // Throws std::runtime_error if PCRE2 gives up.
  void split(std::string_view text, Scratch& scratch,
             base::FunctionRef<void(std::string_view)> stretch) const;

 private:
  // Finds the next match at or after `at`. Returns false if there is none.
  bool find(std::string_view text, size_t at, Scratch& scratch, size_t& begin, size_t& end) const;

  pcre2_real_code_8* code_ = nullptr;
};

}  // namespace kvick::text
