#pragma once
// Reads the fields of a JSON object; each kind of error is one sentence. A field that is null
// counts as not given.

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "server/request/error.h"
#include "server/request/unknown_fields.h"

namespace kvick::server {

template <typename T>
struct Range {
  T least, most;
};

class Fields {
 public:
  // path: the object's name in errors; empty for the request itself. `object` and `unknown` must
  // outlive the result. Error: `object` is not a JSON object.
  static ApiResult<Fields> of(const Json& object, std::string path, UnknownFields& unknown);
  // The same for an object inside this one.
  ApiResult<Fields> inside(const Json& object, std::string path) const;

  // Collects fields of this object's values that a reader ignores.
  UnknownFields& unknown() const { return *unknown_; }

  // Returns the field, or nullptr if it is not given. Like every function here that reads a field,
  // it marks the name as known for check_rest(), so names must outlive this object.
  const Json* find(std::string_view name);
  // Returns the name that errors use: "stream_options.include_usage".
  std::string path(std::string_view name) const;

  ApiResult<bool> get_bool(std::string_view name, bool fallback);
  ApiResult<std::string> get_string(std::string_view name, std::string fallback);
  ApiResult<int64_t> get_int(std::string_view name, int64_t fallback, Range<int64_t> range);
  ApiResult<double> get_number(std::string_view name, double fallback, Range<double> range);

  // Marks fields as known that may be given and change nothing.
  void ignore(std::initializer_list<std::string_view> names);
  // The same for a field that has exactly this value. With another value it stays unknown.
  void ignore_value(std::string_view name, const Json& value);
  // The same for fields of other servers, or of routers that send them with every request, where
  // they hold the value that this server's behaviour implies.
  void ignore_defaults();
  // Reports each field that nothing has read as unknown. Error: unknown fields are refused.
  ApiStatus check_rest() const;

 private:
  Fields(const Json& object, std::string path, UnknownFields& unknown)
      : object_(&object), path_(std::move(path)), unknown_(&unknown) {}
  ApiError wrong(std::string_view name, std::string_view wanted) const;

  const Json* object_;
  std::string path_;
  UnknownFields* unknown_;
  std::vector<std::string_view> known_;
};

// Quotes text of a client for an error: at most 60 bytes of it, control characters as spaces.
std::string in_quotes(std::string_view text);

}  // namespace kvick::server
