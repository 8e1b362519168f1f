#pragma once
// A row of the table of routes.

#include "server/api/api.h"

namespace kvick::server {

// Either answers, or reads the body and answers, or makes the plan of a generation or of
// embeddings.
struct Api::Route {
  RouteName name;
  ApiResult<HttpResponse> (Api::*answer)(const Call&) const = nullptr;
  ApiResult<HttpResponse> (Api::*read)(const Call&, UnknownFields&) const = nullptr;
  ApiResult<Plan> (Api::*plan)(const Call&, UnknownFields&) const = nullptr;
  ApiResult<EmbedPlan> (Api::*embed)(const Call&, UnknownFields&) const = nullptr;
  // How the API that the route belongs to says what is wrong.
  HttpResponse (*error)(const ApiError&) = error_response;
  bool open = false;         // without a key
  bool at_once = false;      // on the network's thread
  bool no_body = false;      // and so no type of one is asked for
  bool any_type = false;     // the body is JSON whatever it is declared as
  bool ollama = false;       // names of models may have a tag, and are not found in Ollama's words
  bool names_model = false;  // and does not need it in memory

  // Jobs of the engine's service.
  bool makes_jobs() const { return plan != nullptr || embed != nullptr; }
};

// What is wrong with a request for a path, which no route may have, in the form of the API that the
// path belongs to.
HttpResponse error_at(std::string_view path, const ApiError& error);

}  // namespace kvick::server
