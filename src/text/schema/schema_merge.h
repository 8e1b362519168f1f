#pragma once

#include <optional>
#include <string>

#include "text/schema/schema_expand.h"

namespace kvick::text {

// Returns the schema with older forms of its own keywords rewritten: nullable, const,
// exclusiveMinimum: true, a list of items. Errors: a keyword that is not supported, or a value of a
// wrong type.
base::Result<Json> normalised(Json schema, const std::string& path);

// Returns the intersection of two normalised schemas; nullopt if they contradict each other. A
// property or item that both constrain becomes an allOf, and two patterns become a list. Errors:
// both have a format with different values, or values of multipleOf that have no common multiple of
// few digits.
base::Result<std::optional<Json>> merged(const Json& a, const Json& b, const std::string& path);

}  // namespace kvick::text
