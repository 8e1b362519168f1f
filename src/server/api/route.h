#pragma once
// A row of the table of routes.

#include "server/api/api.h"

namespace kvick::server {

// One of the four functions is set: `answer` answers, `read` reads the body and answers, `plan`
// plans a generation, and `embed` plans embeddings.
struct Api::Route {
  RouteName name;
  ApiResult<HttpResponse> (Api::*answer)(const Call&) const = nullptr;
  ApiResult<HttpResponse> (Api::*read)(const Call&, UnknownFields&) const = nullptr;
  ApiResult<Plan> (Api::*plan)(const Call&, UnknownFields&) const = nullptr;
  ApiResult<EmbedPlan> (Api::*embed)(const Call&, UnknownFields&) const = nullptr;
  // Formats an error as the route's API does.
  HttpResponse (*error)(const ApiError&) = error_response;
  bool open = false;         // needs no key
  bool at_once = false;      // runs on the network's thread
  bool no_body = false;      // has no body, so its type is not checked
  bool any_type = false;     // the body is JSON, whatever its declared type
  bool ollama = false;       // model names may have a tag; errors are in Ollama's words
  bool names_model = false;  // names a model that need not be loaded

  // Returns whether the route submits jobs to the engine's service.
  bool makes_jobs() const { return plan != nullptr || embed != nullptr; }
};

// Formats an error for a path, which may have no route, in the form of the API that the path
// belongs to.
HttpResponse error_at(std::string_view path, const ApiError& error);

}  // namespace kvick::server
