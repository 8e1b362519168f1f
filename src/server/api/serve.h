#pragma once
// A model's service on the network, from opening the port to having drained.

#include "server/api/api.h"
#include "server/net/server.h"

namespace kvick::server {

struct ServeOptions {
  ServerOptions network;
  std::string model;                              // the id that clients see
  bool any_model = false, strict_fields = false;  // as in ApiOptions, as all below
  LoadForm load_form = LoadForm::kSglang;
  ApiKeys keys;
  ClientLimits limits = {};
  MakeConstraint constraint;
  std::function<void(uint16_t port)> on_listening;
  std::function<void(const std::string&)> report;
};

// Returns when the server has drained. The engine's tokenizer and template are used while the
// service runs. Error: the port cannot be opened.
base::Status<> serve(const engine::Engine& engine, engine::Service& service, ServeOptions options);

}  // namespace kvick::server
