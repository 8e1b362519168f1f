#include "io/file/split_name.h"

#include <algorithm>
#include <fmt/format.h>

namespace kvick::io {
namespace {

constexpr std::string_view kForm = "-00000-of-00000.gguf";  // each 0 matches any digit

bool fits(std::string_view text) {
  return std::equal(text.begin(), text.end(), kForm.begin(), kForm.end(), [](char c, char form) {
    return form == '0' ? c >= '0' && c <= '9' : c == form;
  });
}

uint32_t five_digits(std::string_view text) {
  uint32_t value = 0;
  for (const char c : text.substr(0, 5)) value = value * 10 + static_cast<uint32_t>(c - '0');
  return value;
}

}  // namespace

std::string SplitName::of(uint32_t other) const {
  return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, other, parts);
}

std::optional<SplitName> parse_split_name(std::string_view path) {
  if (path.size() <= kForm.size()) return std::nullopt;
  const std::string_view end = path.substr(path.size() - kForm.size());
  if (!fits(end)) return std::nullopt;
  SplitName name = {.prefix = std::string(path.substr(0, path.size() - kForm.size())),
                    .part = five_digits(end.substr(1)),
                    .parts = five_digits(end.substr(10))};
  if (name.part == 0 || name.part > name.parts) return std::nullopt;
  return name;
}

std::vector<std::string> split_paths(const std::string& path) {
  const auto name = parse_split_name(path);
  if (!name || name->part != 1) return {path};
  std::vector<std::string> paths;
  for (uint32_t part = 1; part <= name->parts; ++part) paths.push_back(name->of(part));
  return paths;
}

}  // namespace kvick::io
