#pragma once
// Reading the fields of a JSON object, with one sentence for each way to get one wrong. A field
// that is null counts as not given.

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "server/error.h"

namespace kvick::server {

template <typename T>
struct Range {
  T least, most;
};

class Fields {
 public:
  // path: how errors call the object; empty for the request itself. The object must live as long.
  // Error: it is none.
  static ApiResult<Fields> of(const Json& object, std::string path);

  // nullptr: not given. As all that reads a field, it makes the name known to check_rest().
  const Json* find(std::string_view name);
  // The name as errors call it: "stream_options.include_usage".
  std::string path(std::string_view name) const;

  ApiResult<bool> get_bool(std::string_view name, bool fallback);
  ApiResult<std::string> get_string(std::string_view name, std::string fallback);
  ApiResult<int64_t> get_int(std::string_view name, int64_t fallback, Range<int64_t> range);
  ApiResult<double> get_number(std::string_view name, double fallback, Range<double> range);

  // Names that may be given and change nothing.
  void ignore(std::initializer_list<std::string_view> names);
  // Error: a field is given that nothing has asked for.
  ApiStatus check_rest() const;

 private:
  Fields(const Json& object, std::string path) : object_(&object), path_(std::move(path)) {}
  ApiError wrong(std::string_view name, std::string_view wanted) const;

  const Json* object_;
  std::string path_;
  std::vector<std::string_view> known_;
};

// Text from outside, in quotes, not longer than a line.
std::string in_quotes(std::string_view text);

}  // namespace kvick::server
