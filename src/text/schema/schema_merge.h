#pragma once

#include <optional>
#include <string>

#include "text/schema/schema_expand.h"

namespace kvick::text {

// A schema's own keywords in their present form: nullable, const, exclusiveMinimum: true, a list of
// items. Errors: keywords that are not supported, or have values of a wrong type.
base::Result<Json> normalised(Json schema, const std::string& path);

// The intersection of two normalised schemas; nullopt if they contradict each other. A property or
// item that both constrain becomes an allOf, and two patterns a list. Errors: both have a format or
// a multipleOf.
base::Result<std::optional<Json>> merged(const Json& a, const Json& b, const std::string& path);

}  // namespace kvick::text
