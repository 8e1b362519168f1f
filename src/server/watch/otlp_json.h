#pragma once
// Requests as spans in OpenTelemetry's protocol, in its JSON form.

#include <span>
#include <string>

#include "server/request/request_record.h"

namespace kvick::server {

// An ExportTraceServiceRequest. A span of the request, and below it one for its wait in the queue,
// for rows that files or the store gave, for each step that read its prompt, and for its answer.
// Attributes have the names of OpenTelemetry's conventions for HTTP and for generative AI where
// these have one, else they begin with kvick.
std::string otlp_text(std::span<const RequestFacts> requests, const std::string& version);

}  // namespace kvick::server
