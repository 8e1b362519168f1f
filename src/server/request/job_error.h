#pragma once
// Errors of the engine as the client gets them.

#include <string>

#include "engine/serving/service.h"
#include "server/request/error.h"

namespace kvick::server {

// Turns the engine's refusal or failure of a job into an error of the API. prompt_field: the name
// of the request's field that replaces the job's "prompt".
ApiError job_error(const engine::Refusal& refusal, const std::string& prompt_field);

}  // namespace kvick::server
