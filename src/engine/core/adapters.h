#pragma once
// Low-rank adapters that are loaded together with the model, and a request's choice among them.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "model/adapters/adapter.h"

namespace kvick::engine {

struct AdapterOptions {
  std::string name;  // by which requests choose it
  std::string path;  // as io::open_adapter takes it
  float scale = 1;   // default of requests that give none
};

// Immutable once it is loaded.
struct NamedAdapter {
  std::string name, path;
  float scale = 1;
  std::string hash;  // of all bytes of its files
  model::Adapter weights;
};
using Adapters = std::vector<std::shared_ptr<const NamedAdapter>>;

// The adapter that a sequence is computed with, and its scale; by default none.
struct AdapterUse {
  std::shared_ptr<const NamedAdapter> adapter;
  float scale = 1;

  // Null: the model alone, as with scale 0.
  const model::Adapter* weights() const {
    return adapter != nullptr && scale != 0 ? &adapter->weights : nullptr;
  }
  // Identifies adapter and scale: sequences with equal keys have equal rows. Empty: the model
  // alone.
  std::string key() const;
};

// Parses "NAME=PATH[:SCALE]" if `named`, else "PATH[:SCALE]". The text after the last colon is the
// scale if it is a number.
base::Result<AdapterOptions> parse_adapter(std::string_view text, bool named);
// Errors: two equal names; a file that cannot be read or does not fit the model.
base::Result<Adapters> open_adapters(std::span<const AdapterOptions> options,
                                     const model::Model& model, base::ThreadPool& pool);
// Returns null if no adapter has that name.
std::shared_ptr<const NamedAdapter> find_adapter(const Adapters& adapters, std::string_view name);

}  // namespace kvick::engine
