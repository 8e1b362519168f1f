#include "server/request/header_fields.h"

#include <algorithm>
#include <array>

#include "server/request/fields.h"

namespace kvick::server {
namespace {

struct HeaderField {
  std::string_view header;
  const char* object;  // the object of the body that has the field; null: the body itself
  const char* field;
  bool number = false;
};

constexpr std::array kFields = {
    HeaderField{"x-kvick-kv", "kv", "strategy"},
    HeaderField{"x-kvick-kv-type", "kv", "type"},
    HeaderField{"x-kvick-kv-select", "kv", "select"},
    HeaderField{"x-kvick-spec", nullptr, "spec"},
    HeaderField{"x-kvick-cache-salt", nullptr, "cache_salt"},
    HeaderField{"x-kvick-priority", nullptr, "priority", true},
};

ApiResult<Json> value_of(const HeaderField& field, const std::string& text) {
  if (!field.number) return Json(text);
  auto number = parse_json(text);
  if (!number.ok() || !number->is_number_integer())
    return bad_field(std::string(field.header), "the header {} is {}, which is no whole number",
                     field.header, in_quotes(text));
  return *std::move(number);
}

ApiStatus add(const HeaderField& field, const std::string& text, Json& body) {
  KVICK_TRY(const Json value, value_of(field, text));
  Json* object = &body;
  if (field.object != nullptr) {
    object = &body[field.object];
    if (object->is_null()) *object = Json::object();
    if (!object->is_object()) return base::Done{};  // the reader of the body reports it
  }
  Json& place = (*object)[field.field];
  if (!place.is_null() && place != value)
    return bad_field(std::string(field.header), "the header {} and the request's {}{}{} differ",
                     field.header, field.object != nullptr ? field.object : "",
                     field.object != nullptr ? "." : "", field.field);
  place = value;
  return base::Done{};
}

}  // namespace

ApiStatus add_header_fields(const Headers& headers, Json& body, UnknownFields& unknown) {
  if (!body.is_object()) return base::Done{};  // the reader of the body reports it
  for (const auto& [name, text] : headers) {
    const auto known =
        std::find_if(kFields.begin(), kFields.end(),
                     [&, &header = name](const HeaderField& one) { return one.header == header; });
    if (known != kFields.end()) {
      KVICK_TRY_VOID(add(*known, text, body));
      continue;
    }
    if (unknown.refused())
      return bad_field(name, "{} is no header that this server knows; leave it out",
                       in_quotes(name));
    unknown.add(name);
  }
  return base::Done{};
}

}  // namespace kvick::server
