#include "server/api/serve.h"

#include <ctime>
#include <random>

namespace kvick::server {

base::Status<> serve(const engine::Engine& engine, engine::Service& service, ServeOptions options) {
  std::random_device device;
  const uint64_t high = device();
  ApiOptions api_options = {.model = std::move(options.model),
                            .any_model = options.any_model,
                            .strict_fields = options.strict_fields,
                            .load_form = options.load_form,
                            .keys = std::move(options.keys),
                            .constraint = std::move(options.constraint),
                            .random = std::mt19937_64(high << 32 | device()),
                            .unix_time = [] { return static_cast<int64_t>(std::time(nullptr)); },
                            .report = std::move(options.report),
                            .limits = std::move(options.limits)};
  options.network.report = api_options.report;
  Server server(std::move(options.network));
  Api api(engine, service, std::move(api_options), server.threads(), server.counters());
  KVICK_TRY(const uint16_t port, server.listen(api));
  if (options.on_listening) options.on_listening(port);
  server.run();
  return base::Done{};
}

}  // namespace kvick::server
