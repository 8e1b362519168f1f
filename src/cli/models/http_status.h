#pragma once

#include <string>

#include "base/result.h"

namespace kvick::cli {

// The status of the answer to GET url, which is asked for without a proxy and whose body is not
// kept. Error (the user's mistake): no URL of http or https. Throws Failure: no answer within
// `timeout_s`.
base::Result<int> http_status(const std::string& url, unsigned timeout_s);

}  // namespace kvick::cli
