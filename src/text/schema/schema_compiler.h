#pragma once
// One rule per schema that json_grammar() meets, and what the rules are made of.

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "text/grammar/number_grammar.h"
#include "text/grammar/string_grammar.h"
#include "text/schema/json_grammar.h"
#include "text/schema/schema_expand.h"

namespace kvick::text {

class SchemaCompiler {
 public:
  // Most of minLength, maxItems and their kin: each is a number of states.
  static constexpr uint32_t kMostCount = 8192;
  // Different strings with look-aheads, several patterns, or a pattern and a format: each takes
  // milliseconds.
  static constexpr uint32_t kMostCombined = 64;

  SchemaCompiler(const Json& root, const JsonLayout& layout);
  // The builder's first rule is then the schema.
  base::Result<GrammarBuilder> compile(const Json& schema) &&;

 private:
  struct Job {
    Json schema;
    RuleId rule;
    std::string path;
  };
  struct Between {
    StateId from, to;
  };
  struct Count {
    uint32_t least = 0;
    std::optional<uint32_t> most;
    // The last count that is told apart: from there on more of the same changes nothing.
    uint32_t last() const { return most.value_or(least); }
    // The next count; nullopt: no more are allowed.
    std::optional<uint32_t> next(uint32_t count) const {
      if (count < last()) return count + 1;
      return most ? std::nullopt : std::optional(count);
    }
  };
  struct Member {
    RuleId rule;
    bool required;
  };

  // The rule of a schema, which is compiled later; schemas that are equal share it.
  base::Result<RuleId> rule_of(const Json& schema, const std::string& path);
  base::Status<> compile(const Job& job);
  // Objects that are has_tag(), of the same keys: they share their beginning.
  base::Status<> compile_tagged(const Json& any, Between place, const std::string& path);
  base::Status<> compile_flat(const Json& schema, Between place, const std::string& path);
  base::Status<> compile_type(const std::string& type, const Json& schema, Between place,
                              const std::string& path);
  base::Result<bool> is_instance(const Json& value, const Json& schema,
                                 const std::string& path) const;
  base::Status<> compile_values(const Json& schema, Between place, const std::string& path);
  // What a string has to match; nullopt: nothing.
  base::Result<std::optional<CharNfa>> matched_by(const Json& schema);
  base::Status<> compile_string(const Json& schema, Between place, const std::string& path);
  base::Status<> compile_number(const Json& schema, bool integer, Between place,
                                const std::string& path);
  base::Status<> compile_array(const Json& schema, Between place, const std::string& path);
  // The values of a schema that has few of them.
  base::Result<std::vector<Json>> values_of(const Json& schema, const std::string& path);
  // An array whose items differ.
  base::Status<> compile_unique(const Json& schema, const Count& count, Between place,
                                const std::string& path);
  base::Status<> compile_object(const Json& schema, Between place, const std::string& path);

  base::Result<std::vector<Member>> members_of(const Json& schema, const std::string& path);
  base::Result<std::optional<RuleId>> other_member(const Json& schema, const std::string& path);
  void add_members(const std::vector<Member>& members, std::optional<RuleId> other,
                   const Count& count, Between place);
  base::Result<Count> count_of(const Json& schema, const char* least, const char* most,
                               const std::string& path) const;
  void add_value(const Json& value, Between place);
  void add_literals(std::vector<std::string> texts, Between place);
  void gap(StateId from, StateId to);  // white space within brackets
  void colon(StateId from, StateId to);

  JsonLayout layout_;
  GrammarBuilder grammar_;
  SchemaExpander expander_;
  StringGrammar strings_;
  RuleId gap_ = 0;
  uint32_t combined_ = 0;
  std::map<std::string, RuleId> rules_;  // by the schema's text
  std::deque<Job> jobs_;
};

}  // namespace kvick::text
