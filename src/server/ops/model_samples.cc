#include "server/ops/model_samples.h"

#include <algorithm>
#include <sstream>
#include <vector>

namespace kvick::server {
namespace {

struct Family {
  std::string help;  // the # HELP line, which identifies the family
  std::string type = {}, samples = {};
};

// Adds the label to "name{labels} value" or "name value".
std::string with_model(const std::string& sample, const std::string& model) {
  if (!sample.starts_with("kvick_")) return sample;
  const std::string label = "model=\"" + escaped_label(model) + "\"";
  const size_t end = sample.find_first_of("{ ");
  if (end == std::string::npos) return sample;
  if (sample[end] == ' ') return sample.substr(0, end) + "{" + label + "}" + sample.substr(end);
  return sample.substr(0, end + 1) + label + "," + sample.substr(end + 1);
}

Family& family_of(std::vector<Family>& families, const std::string& help) {
  const auto known = std::find_if(families.begin(), families.end(),
                                  [&](const Family& one) { return one.help == help; });
  return known != families.end() ? *known : families.emplace_back(Family{.help = help});
}

void add(std::vector<Family>& families, const ModelSamples& of) {
  Family* family = nullptr;
  std::string line;
  for (std::istringstream in(of.text); std::getline(in, line);) {
    if (line.starts_with("# HELP "))
      family = &family_of(families, line);
    else if (family != nullptr && line.starts_with("# TYPE "))
      family->type = line;
    else if (family != nullptr)
      family->samples += with_model(line, of.model) + "\n";
  }
}

}  // namespace

std::string escaped_label(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    out += c;
  }
  return out;
}

std::string merged_samples(std::span<const ModelSamples> models) {
  std::vector<Family> families;
  for (const ModelSamples& of : models) add(families, of);
  std::string text;
  for (const Family& one : families) text += one.help + "\n" + one.type + "\n" + one.samples;
  return text;
}

}  // namespace kvick::server
