#include "server/request/json.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <optional>
#include <vector>

namespace kvick::server {
namespace {

using Object = Json::object_t;
using Entry = Object::value_type;

// Keeps the last entry of each name, in time n log n. nlohmann's own builder for ordered objects
// looks each name up as it comes, which takes minutes for a body of a few megabytes.
void keep_last(Object& object) {
  if (object.size() < 2) return;
  Entry* const entries = object.data();
  std::vector<size_t> order(object.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const int compared = entries[a].first.compare(entries[b].first);
    return compared < 0 || (compared == 0 && a < b);
  });
  std::vector<bool> overwritten(object.size());
  bool any = false;
  for (size_t i = 0; i + 1 < order.size(); ++i)
    if (entries[order[i]].first == entries[order[i + 1]].first) overwritten[order[i]] = any = true;
  if (!any) return;
  Object kept;
  for (size_t i = 0; i < object.size(); ++i)
    if (!overwritten[i]) kept.push_back(std::move(entries[i]));
  object = std::move(kept);
}

// Receives the events of nlohmann's SAX parser and builds the value.
class Builder {
 public:
  using number_integer_t = Json::number_integer_t;
  using number_unsigned_t = Json::number_unsigned_t;
  using number_float_t = Json::number_float_t;
  using string_t = Json::string_t;
  using binary_t = Json::binary_t;

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(number_integer_t value) { return put(value); }
  bool number_unsigned(number_unsigned_t value) { return put(value); }
  bool number_float(number_float_t value, const string_t&) { return put(value); }
  bool string(string_t& value) { return put(std::move(value)); }
  bool binary(binary_t&) { return false; }  // not in JSON
  bool start_object(size_t) { return open(Json::object()); }
  bool start_array(size_t) { return open(Json::array()); }
  bool key(string_t& name) {
    open_.back()->get_ref<Object&>().push_back(Entry(std::move(name), nullptr));
    return true;
  }
  bool end_object() {
    keep_last(open_.back()->get_ref<Object&>());
    return end_array();
  }
  bool end_array() {
    open_.pop_back();
    return true;
  }
  bool parse_error(size_t byte, const std::string&, const nlohmann::detail::exception& error) {
    // Error 406 of nlohmann is a number beyond the range of a double.
    error_ = error.id == 406 ? fmt::format("a number before byte {} is too large", byte)
                             : fmt::format("it is not valid JSON at byte {}", byte);
    return false;
  }

  Json take() { return std::move(root_); }
  const std::string& error() const { return error_; }

 private:
  Json* place(Json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return &open_.back()->back();
    }
    return &(open_.back()->get_ref<Object&>().back().second = std::move(value));
  }
  bool put(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (open_.size() == kMostJsonDepth) {
      error_ = fmt::format("it is nested more than {} deep", kMostJsonDepth);
      return false;
    }
    open_.push_back(place(std::move(value)));
    return true;
  }

  Json root_;
  std::vector<Json*> open_;  // the lists and objects that have not ended, outermost first
  std::string error_;
};

base::Result<Json> parse_once(std::string_view text) {
  Builder builder;
  if (!Json::sax_parse(text.begin(), text.end(), &builder))
    return base::fail("{}", builder.error());
  return builder.take();
}

// Returns the code unit of the escape \uXXXX at `at`, or nothing if there is no escape.
std::optional<uint32_t> escaped_unit(std::string_view text, size_t at) {
  if (at + 6 > text.size() || text[at] != '\\' || text[at + 1] != 'u') return std::nullopt;
  uint32_t unit = 0;
  const char* const end = text.data() + at + 6;
  if (std::from_chars(text.data() + at + 2, end, unit, 16).ptr != end) return std::nullopt;
  return unit;
}

bool between(std::optional<uint32_t> unit, uint32_t first, uint32_t last) {
  return unit && *unit >= first && *unit <= last;
}

// Returns the text with \ufffd in place of each surrogate that has no partner, or "" if every one
// has. The replacement has the same length, so later errors keep their byte positions.
std::string without_lone_surrogates(std::string_view text) {
  std::string mended;
  for (size_t at = text.find('\\'); at < text.size(); at = text.find('\\', at)) {
    const auto unit = escaped_unit(text, at);
    if (!between(unit, 0xD800, 0xDFFF)) {
      at += 2;  // skips both characters of \\, whose second does not start an escape
    } else if (*unit < 0xDC00 && between(escaped_unit(text, at + 6), 0xDC00, 0xDFFF)) {
      at += 12;
    } else {
      if (mended.empty()) mended = text;
      mended.replace(at, 6, "\\ufffd");
      at += 6;
    }
  }
  return mended;
}

}  // namespace

// Clients that cut a text between the two halves of an emoji send a lone surrogate, with every
// later turn of the conversation too. A replacement character keeps the conversation usable.
base::Result<Json> parse_json(std::string_view text) {
  auto json = parse_once(text);
  if (json.ok()) return json;
  const std::string mended = without_lone_surrogates(text);
  return mended.empty() ? std::move(json) : parse_once(mended);
}

std::string to_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace kvick::server
