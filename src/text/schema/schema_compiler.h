#pragma once
// Compiles each schema that json_grammar() meets to one rule of the grammar.

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
  // The largest minLength, maxItems and so on: each takes as many states.
  static constexpr uint32_t kMostCount = 8192;
  // The most different strings with look-aheads, several patterns, or a pattern and a format: each
  // takes milliseconds to compile.
  static constexpr uint32_t kMostCombined = 64;
  // The most states that are visited to match listed values with patterns, in all of the schema.
  static constexpr size_t kMostMatching = 2'000'000;

  SchemaCompiler(const Json& root, const JsonLayout& layout);
  // Compiles the schema to the builder's first rule.
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
    // The last count that needs a state of its own: more of the same changes nothing after it.
    uint32_t last() const { return most.value_or(least); }
    // Returns the next count; nullopt: no more are allowed.
    std::optional<uint32_t> next(uint32_t count) const {
      if (count < last()) return count + 1;
      return most ? std::nullopt : std::optional(count);
    }
  };
  struct Member {
    RuleId rule;
    bool required;
  };

  // Returns the rule of a schema, which is compiled later. Equal schemas share one rule.
  base::Result<RuleId> rule_of(const Json& schema, const std::string& path);
  base::Status<> compile(const Job& job);
  // Compiles alternatives that satisfy has_tag() and have the same keys; they share their
  // beginning.
  base::Status<> compile_tagged(const Json& any, Between place, const std::string& path);
  base::Status<> compile_flat(const Json& schema, Between place, const std::string& path);
  base::Status<> compile_type(const std::string& type, const Json& schema, Between place,
                              const std::string& path);
  // Checks the keywords of the schema beside enum and const, all but `pattern`.
  base::Result<bool> is_instance(const Json& value, const Json& schema,
                                 const std::string& path) const;
  // Returns the values of the schema's enum that satisfy its other keywords.
  base::Result<std::vector<Json>> listed(const Json& schema, const std::string& path);
  base::Status<> compile_values(const Json& schema, Between place, const std::string& path);
  // Returns the automaton that a string must match; nullopt: any string.
  base::Result<std::optional<CharNfa>> matched_by(const Json& schema);
  base::Status<> compile_string(const Json& schema, Between place, const std::string& path);
  base::Status<> compile_number(const Json& schema, bool integer, Between place,
                                const std::string& path);
  base::Status<> compile_array(const Json& schema, Between place, const std::string& path);
  // Returns all values of a schema; an error if there are more than a few.
  base::Result<std::vector<Json>> values_of(const Json& schema, const std::string& path);
  // Compiles an array whose items must differ.
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
  size_t match_budget_ = kMostMatching;
  std::map<std::string, RuleId> rules_;  // by the schema's text
  std::deque<Job> jobs_;
};

}  // namespace kvick::text
