#pragma once
// Reading the fields of a JSON object, with one sentence for each way to get one wrong. A field
// that is null counts as not given.

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
  // path: how errors call the object; empty for the request itself. The object and unknown must
  // live as long. Error: it is none.
  static ApiResult<Fields> of(const Json& object, std::string path, UnknownFields& unknown);
  // The same of an object within this one.
  ApiResult<Fields> inside(const Json& object, std::string path) const;

  // For what a reader ignores within a value.
  UnknownFields& unknown() const { return *unknown_; }

  // nullptr: not given. As all that reads a field, it makes the name known to check_rest(), so that
  // names must live as long as this.
  const Json* find(std::string_view name);
  // The name as errors call it: "stream_options.include_usage".
  std::string path(std::string_view name) const;

  ApiResult<bool> get_bool(std::string_view name, bool fallback);
  ApiResult<std::string> get_string(std::string_view name, std::string fallback);
  ApiResult<int64_t> get_int(std::string_view name, int64_t fallback, Range<int64_t> range);
  ApiResult<double> get_number(std::string_view name, double fallback, Range<double> range);

  // Names that may be given and change nothing.
  void ignore(std::initializer_list<std::string_view> names);
  // The same of a name with this value only; with another it stays unknown.
  void ignore_value(std::string_view name, const Json& value);
  // The same of names that other servers know, or routers send with every request, and that change
  // nothing where they hold what this server does anyway.
  void ignore_defaults();
  // A field that nothing has asked for is unknown. Error: it is refused.
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

// Text from outside, in quotes, not longer than a line.
std::string in_quotes(std::string_view text);

}  // namespace kvick::server
