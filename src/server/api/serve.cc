#include "server/api/serve.h"

#include <ctime>
#include <random>
#include <utility>

#include "base/thread.h"
#include "server/api/route.h"
#include "server/request/target.h"

namespace kvick::server {
namespace {

class Loading final : public Handler {
 public:
  std::optional<HttpResponse> refuses(const HttpRequest& head) const override {
    return error_of(head, {.status = 503,
                           .message = "the model is being loaded; try again",
                           .code = "loading",
                           .headers = {{"Retry-After", "1"}}});
  }
  HttpResponse error_of(const HttpRequest& head, const ApiError& error) const override {
    return error_at(path_of(head.target), error);
  }
  void handle(HttpRequest request, std::shared_ptr<Reply> reply) override {
    reply->send(*refuses(request));
  }
};

}  // namespace

// The server handles signals only from serve() on, when there are requests to drain.
OpenPort::OpenPort(ServerOptions network)
    : signals_(std::exchange(network.signals, false)),
      loading_(std::make_unique<Loading>()),
      server_(std::move(network)) {}

base::Result<std::unique_ptr<OpenPort>> OpenPort::open(ServerOptions network) {
  std::unique_ptr<OpenPort> port(new OpenPort(std::move(network)));
  KVICK_TRY(port->port_, port->server_.listen(*port->loading_));
  port->thread_ = base::start_thread("the network", [server = &port->server_] { server->run(); });
  return port;
}

OpenPort::~OpenPort() {
  server_.stop();
  if (thread_.joinable()) thread_.join();
}

void OpenPort::serve(const engine::Engine& engine, engine::Service& service, ServeOptions options) {
  ModelHost one(options.model, LoadedModel{.owner = nullptr,
                                           .engine = &engine,
                                           .service = &service,
                                           .limits = std::move(options.limits)});
  serve(one, std::move(options));
}

void OpenPort::serve(ModelHost& models, ServeOptions options) {
  std::random_device device;
  const uint64_t high = device();
  ApiOptions api_options = {.any_model = options.any_model,
                            .strict_fields = options.strict_fields,
                            .max_sequences = options.max_sequences,
                            .stop_loops = options.stop_loops,
                            .load_form = options.load_form,
                            .keys = std::move(options.keys),
                            .random = std::mt19937_64(high << 32 | device()),
                            .unix_time = [] { return static_cast<int64_t>(std::time(nullptr)); },
                            .report = std::move(options.report),
                            .counts = options.counts,
                            .pooling = options.pooling,
                            .response_store_bytes = options.response_store_bytes,
                            .book = std::move(options.book),
                            .debug = options.debug};
  Api api(models, std::move(api_options), server_.threads(), server_.counters());
  server_.hand_over(api, signals_);
  if (options.on_listening) options.on_listening(port_);
  thread_.join();
}

base::Status<> serve(const engine::Engine& engine, engine::Service& service, ServeOptions options) {
  options.network.report = options.report;
  KVICK_TRY(const std::unique_ptr<OpenPort> port, OpenPort::open(std::move(options.network)));
  port->serve(engine, service, std::move(options));
  return base::Done{};
}

}  // namespace kvick::server
