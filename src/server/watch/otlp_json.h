#pragma once
// Requests as spans in OpenTelemetry's protocol, in its JSON form.

#include <span>
#include <string>

#include "server/request/request_record.h"

namespace kvick::server {

// Returns an ExportTraceServiceRequest. Each request is a span, with child spans for its wait in
// the queue, for reading rows from files or the store, for each step that read its prompt, and for
// its answer. Attributes have the names of OpenTelemetry's conventions for HTTP and generative AI
// where these exist; other names begin with kvick.
std::string otlp_text(std::span<const RequestFacts> requests, const std::string& version);

}  // namespace kvick::server
