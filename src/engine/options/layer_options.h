#pragma once
// What options of a cache mean for a model whose layers are not alike: those that cannot be, and
// what some of its layers do instead.

#include <string>
#include <vector>

#include "base/result.h"
#include "engine/options/kv_options.h"
#include "model/core/config.h"

namespace kvick::engine {

// Whether the layers fall into several groups, each with a store of its own.
bool layers_differ(const model::Config& config);
// Errors, of such a model: a policy or types of rows that need all layers to be alike.
base::Status<> check_layers(const model::Config& config, const KvOptions& resolved);
// Errors, of attention by a library: rows of another type than float32, not in one piece, or not
// all read.
base::Status<> check_buckets(const KvOptions& resolved);
// A line for each option that some layers do not follow, with what they do instead.
std::vector<std::string> layer_notes(const model::Config& config, const KvOptions& resolved);

}  // namespace kvick::engine
