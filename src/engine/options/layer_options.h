#pragma once
// Cache options for models with layers of different kinds: which of them are refused, and what some
// layers do instead of following an option.

#include <string>
#include <vector>

#include "base/result.h"
#include "engine/options/kv_options.h"
#include "kv/strategy/setup.h"
#include "model/core/config.h"

namespace kvick::engine {

// Sets the layers of a setup: model::set_layers, with states of the options' type.
void set_layers(const model::Config& config, const KvOptions& options, kv::Setup& setup);
// Whether the layers fall into several groups, each with a store of its own.
bool layers_differ(const model::Config& config);
// Errors: for such a model, a policy or types of rows that need all layers to be alike; a policy
// that rotates queries, if the layers that see all tokens rotate keys in several ways.
base::Status<> check_layers(const model::Config& config, const KvOptions& resolved);
// Error: states of bf16 for a model without any. config: of the whole model, because a rank may
// have only other layers.
base::Status<> check_states(const model::Config& config, const KvOptions& options);
// Checks options for attention by a library. Errors: rows of another type than float32, not in one
// piece, or not all read.
base::Status<> check_buckets(const KvOptions& resolved);
// Returns a line for each option that some layers do not follow, with what they do instead.
std::vector<std::string> layer_notes(const model::Config& config, const KvOptions& resolved);

}  // namespace kvick::engine
