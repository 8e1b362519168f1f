#pragma once
// The metrics of several models as one text.

#include <span>
#include <string>

namespace kvick::server {

struct ModelSamples {
  std::string model;  // as clients name it
  std::string text;   // in Prometheus' text format, each family behind its "# HELP"
};

// Each family once, as the format wants it, with the samples of all models. A label `model` tells
// them apart, but for vLLM's, which have a label of their own for that.
std::string merged_samples(std::span<const ModelSamples> models);

// A label's value between its quotes.
std::string escaped_label(const std::string& text);

}  // namespace kvick::server
