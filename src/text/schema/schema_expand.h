#pragma once
// Expands JSON Schemas: resolves references and multiplies out combinations (allOf, anyOf) into a
// list of schemas without them.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvick::text {

using Json = nlohmann::ordered_json;  // properties keep the order in which they are declared

class SchemaExpander {
 public:
  // The most bytes and values of all intermediate schemas together. An allOf of anyOfs multiplies
  // them.
  static constexpr size_t kMostWork = 32 << 20;
  static constexpr size_t kMostAlternatives = 64;
  static constexpr uint32_t kMostNesting = 64;

  // root: the schema that references (#, #/$defs/x) point into; must outlive this object. Errors:
  // too deep, too large.
  static base::Status<> check_size(const Json& root);
  explicit SchemaExpander(const Json& root) : root_(root) {}

  // Returns the path of a part, for error messages.
  static std::string below(const std::string& path, const std::string& name);
  // Returns a copy without the keywords that do not constrain instances: title, description, $defs,
  // ...
  static Json without_notes(const Json& schema);
  base::Result<const Json*> resolve(const Json& reference, const std::string& path) const;

  // Returns alternatives that together equal the schema. Each is `true` or an object without allOf,
  // anyOf, oneOf, $ref, const (it becomes enum), nullable and older forms of keywords. Empty: there
  // are no instances. Errors: a keyword that is not supported or malformed, a reference to nowhere
  // or to itself, too many alternatives.
  base::Result<std::vector<Json>> alternatives(const Json& schema, const std::string& path);

  // Adds the schema's size to the work done; error: over kMostWork.
  base::Status<> spend(const Json& schema);

 private:
  base::Result<std::vector<Json>> alternatives(const Json& schema, const std::string& path,
                                               uint32_t nesting);
  // Rewrites propertyNames that lists names: the result declares those names as its only
  // properties. Returns any other schema unchanged.
  base::Result<Json> with_listed_names(Json schema, const std::string& path, uint32_t nesting);
  // Returns the intersections of each of `left` with each of `right`, without contradictory ones.
  base::Result<std::vector<Json>> each_with_each(const std::vector<Json>& left,
                                                 const std::vector<Json>& right,
                                                 const std::string& path);

  const Json& root_;
  size_t work_ = 0;
};

}  // namespace kvick::text
