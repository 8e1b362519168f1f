#pragma once
// JSON Schemas taken apart: references resolved, combinations multiplied out into schemas that have
// none.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvick::text {

using Json = nlohmann::ordered_json;  // properties keep the order in which they are declared

class SchemaExpander {
 public:
  // Most bytes and values of all intermediate schemas together; an allOf of anyOfs multiplies
  // them.
  static constexpr size_t kMostWork = 32 << 20;
  static constexpr size_t kMostAlternatives = 64;
  static constexpr uint32_t kMostNesting = 64;

  // root: what references (#, #/$defs/x) refer into; outlives this. Errors: too deep, too large.
  static base::Status<> check_size(const Json& root);
  explicit SchemaExpander(const Json& root) : root_(root) {}

  // The place of a part, for error messages.
  static std::string below(const std::string& path, const std::string& name);
  // A copy without annotations that do not constrain instances: title, description, $defs, ...
  static Json without_notes(const Json& schema);
  base::Result<const Json*> resolve(const Json& reference, const std::string& path) const;

  // Alternatives that together equal the schema: each is `true` or an object without allOf, anyOf,
  // oneOf, $ref, const (becomes enum), nullable and older forms. Empty: nothing is an instance.
  // Errors: a keyword that is not supported or malformed, a reference to nowhere or to itself, too
  // many alternatives.
  base::Result<std::vector<Json>> alternatives(const Json& schema, const std::string& path);

  // Counts work; error: too much.
  base::Status<> spend(const Json& schema);

 private:
  base::Result<std::vector<Json>> alternatives(const Json& schema, const std::string& path,
                                               uint32_t nesting);
  // propertyNames that lists the names as properties of those names and no others; any other
  // schema as it is.
  base::Result<Json> with_listed_names(Json schema, const std::string& path, uint32_t nesting);
  // Each of `left` with each of `right`, as far as they do not contradict each other.
  base::Result<std::vector<Json>> each_with_each(const std::vector<Json>& left,
                                                 const std::vector<Json>& right,
                                                 const std::string& path);

  const Json& root_;
  size_t work_ = 0;
};

}  // namespace kvick::text
