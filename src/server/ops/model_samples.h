#pragma once
// Merges the metrics of several models into one text.

#include <span>
#include <string>

namespace kvick::server {

struct ModelSamples {
  std::string model;  // the model's name for clients
  std::string text;   // in Prometheus' text format, each family after its "# HELP"
};

// Returns each family once, as the format requires, with the samples of all models. A label `model`
// distinguishes them. vLLM's metrics have their own label for that.
std::string merged_samples(std::span<const ModelSamples> models);

// Escapes a label's value for its quotes.
std::string escaped_label(const std::string& text);

}  // namespace kvick::server
