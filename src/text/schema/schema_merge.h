#pragma once

#include <optional>
#include <string>

#include "text/schema/schema_expand.h"

namespace kvick::text {

// A schema's own keywords in their present form: nullable, const, exclusiveMinimum: true, a list of
// items. Errors: keywords that are not supported, or have values of a wrong type.
base::Result<Json> normalised(Json schema, const std::string& path);

// The schema of what is an instance of both, two normalised schemas; nothing if they contradict
// each other. What both say of a property or item becomes an allOf. Errors: two patterns, formats
// or multiples.
base::Result<std::optional<Json>> merged(const Json& a, const Json& b, const std::string& path);

}  // namespace kvick::text
