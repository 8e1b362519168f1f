#pragma once

#include <string>

#include "base/result.h"

namespace kvick::cli {

// Returns the HTTP status of GET url, without a proxy; the body is dropped. Error (the user's
// mistake): not a URL of http or https. Throws Failure: no response within `timeout_s`.
base::Result<int> http_status(const std::string& url, unsigned timeout_s);

}  // namespace kvick::cli
