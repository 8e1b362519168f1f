#include "server/request/fields.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "text/unicode/utf8.h"

namespace kvick::server {
namespace {

// Accepts 5.0 as a whole number too, as JSON Schema does and as clients in languages with one kind
// of number send it.
std::optional<int64_t> whole_number(const Json& value) {
  if (value.is_number_float()) {
    constexpr double kMost = 1LL << 53;  // above it doubles no longer represent every whole number
    const auto number = value.get<double>();
    if (std::abs(number) > kMost || number != std::trunc(number)) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<uint64_t>() > kMost) return std::nullopt;
  return value.get<int64_t>();
}

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr size_t kMost = 60;
  std::string bytes(text.substr(0, kMost)), whole;
  text::drain_utf8(bytes, text.size() <= kMost, whole);
  std::replace_if(
      whole.begin(), whole.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; }, ' ');
  return fmt::format("\"{}{}\"", whole, text.size() > kMost ? "..." : "");
}

ApiResult<Fields> Fields::of(const Json& object, std::string path, UnknownFields& unknown) {
  if (object.is_object()) return Fields(object, std::move(path), unknown);
  const std::string name = path.empty() ? "the request's body" : path;
  return bad_field(path, "{} must be a JSON object", name);
}

ApiResult<Fields> Fields::inside(const Json& object, std::string path) const {
  return of(object, std::move(path), *unknown_);
}

std::string Fields::path(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

const Json* Fields::find(std::string_view name) {
  known_.push_back(name);
  for (const auto& [key, value] : object_->get_ref<const Json::object_t&>())
    if (key == name) return value.is_null() ? nullptr : &value;
  return nullptr;
}

ApiError Fields::wrong(std::string_view name, std::string_view wanted) const {
  return bad_field(path(name), "{} must be {}", path(name), wanted);
}

ApiResult<bool> Fields::get_bool(std::string_view name, bool fallback) {
  const Json* value = find(name);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) return wrong(name, "true or false");
  return value->get<bool>();
}

ApiResult<std::string> Fields::get_string(std::string_view name, std::string fallback) {
  const Json* value = find(name);
  if (value == nullptr) return fallback;
  if (!value->is_string()) return wrong(name, "a string");
  return value->get<std::string>();
}

ApiResult<int64_t> Fields::get_int(std::string_view name, int64_t fallback, Range<int64_t> range) {
  const Json* value = find(name);
  if (value == nullptr) return fallback;
  const std::optional<int64_t> number = whole_number(*value);
  if (!number || *number < range.least || *number > range.most)
    return wrong(name, fmt::format("a whole number from {} to {}", range.least, range.most));
  return *number;
}

ApiResult<double> Fields::get_number(std::string_view name, double fallback, Range<double> range) {
  const Json* value = find(name);
  if (value == nullptr) return fallback;
  const std::string wanted = fmt::format("a number from {} to {}", range.least, range.most);
  if (!value->is_number()) return wrong(name, wanted);
  const auto number = value->get<double>();
  if (!(number >= range.least && number <= range.most)) return wrong(name, wanted);
  return number;
}

void Fields::ignore(std::initializer_list<std::string_view> names) {
  known_.insert(known_.end(), names.begin(), names.end());
}

void Fields::ignore_value(std::string_view name, const Json& value) {
  for (const auto& [key, given] : object_->get_ref<const Json::object_t&>())
    if (key == name && given == value) known_.push_back(name);
}

void Fields::ignore_defaults() {
  static const std::vector<std::pair<std::string_view, Json>> kDefaults = {
      {"add_generation_prompt", true},
      {"continue_final_message", false},
      {"detokenize", true},
      {"echo", false},
      {"id_slot", -1},
      {"include_reasoning", true},
      {"include_stop_str_in_output", false},
      {"min_keep", 0},
      {"min_tokens", 0},
      {"modalities", Json::array({"text"})},
      {"n_discard", 0},
      {"n_indent", 0},
      {"n_keep", 0},
      {"n_probs", 0},
      {"no_stop_trim", false},
      {"post_sampling_probs", false},
      {"return_hidden_states", false},
      {"return_progress", false},
      {"return_token_ids", false},
      {"return_tokens_as_token_ids", false},
      {"separate_reasoning", true},
      {"skip_special_tokens", true},
      {"spaces_between_special_tokens", true},
      {"stop_token_ids", Json::array()},
      {"stream_reasoning", true},
      {"timings_per_token", false},
  };
  for (const auto& [name, value] : kDefaults) ignore_value(name, value);
}

ApiStatus Fields::check_rest() const {
  for (const auto& [key, value] : object_->get_ref<const Json::object_t&>()) {
    if (value.is_null() || std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    if (!unknown_->refused()) {
      unknown_->add(path(key));
      continue;
    }
    const std::string name = in_quotes(key);
    return bad_field(path(name.substr(1, name.size() - 2)),
                     "{} is no field that this server knows{}; leave it out", name,
                     path_.empty() ? "" : " in " + path_);
  }
  return base::Done{};
}

}  // namespace kvick::server
