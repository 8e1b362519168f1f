#include "engine/core/adapters.h"

#include <charconv>
#include <cmath>

#include "engine/artifacts/identity.h"
#include "io/adapter/adapter_file.h"

namespace kvick::engine {

using base::fail;

std::string AdapterUse::key() const {
  return weights() == nullptr ? "" : fmt::format("lora {} {:a}", adapter->hash, scale);
}

base::Result<AdapterOptions> parse_adapter(std::string_view text, bool named) {
  AdapterOptions options;
  std::string_view rest = text;
  if (named) {
    const size_t equals = rest.find('=');
    if (equals == std::string_view::npos || equals == 0)
      return fail("--lora {}: give a name for requests and the adapter's path: NAME=PATH[:SCALE]",
                  text);
    options.name = rest.substr(0, equals);
    rest.remove_prefix(equals + 1);
  }
  if (const size_t colon = rest.rfind(':'); colon != std::string_view::npos) {
    const std::string_view number = rest.substr(colon + 1);
    const char* const last = number.data() + number.size();
    const auto [end, error] = std::from_chars(number.data(), last, options.scale);
    if (error == std::errc() && end == last) rest = rest.substr(0, colon);
  }
  if (!std::isfinite(options.scale)) return fail("--lora {}: the scale must be a number", text);
  if (rest.empty()) return fail("--lora {}: the adapter's path is missing", text);
  options.path = rest;
  return options;
}

base::Result<Adapters> open_adapters(std::span<const AdapterOptions> options,
                                     const model::Model& model, base::ThreadPool& pool) {
  Adapters adapters;
  for (const AdapterOptions& one : options) {
    if (find_adapter(adapters, one.name) != nullptr)
      return fail("two adapters are named {}: give each a name of its own", one.name);
    KVICK_TRY(const io::AdapterFile file, io::open_adapter(one.path));
    auto adapter = std::make_shared<NamedAdapter>();
    adapter->name = one.name;
    adapter->path = one.path;
    adapter->scale = one.scale;
    KVICK_TRY(adapter->weights, model::Adapter::read(file, model));
    KVICK_TRY(adapter->hash, content_hash(one.path, pool));
    adapters.push_back(std::move(adapter));
  }
  return adapters;
}

std::shared_ptr<const NamedAdapter> find_adapter(const Adapters& adapters, std::string_view name) {
  for (const auto& adapter : adapters)
    if (adapter->name == name) return adapter;
  return nullptr;
}

}  // namespace kvick::engine
