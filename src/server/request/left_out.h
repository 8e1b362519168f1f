#pragma once
// The text that replaces a picture or a file in a tool's result.

#include <fmt/format.h>
#include <string>
#include <string_view>

namespace kvick::server {

// Returns the replacement for a part of a tool's result by the part's type in three APIs, or "" if
// the part is neither picture nor file. Pictures of the user are refused. A tool's are not: an
// agent sends its results again with every request, so after one picture all its requests would
// fail.
inline std::string left_out(std::string_view type) {
  const bool image = type == "image" || type == "image_url" || type == "input_image";
  const bool file = type == "document" || type == "file" || type == "input_file";
  if (!image && !file) return "";
  return fmt::format("[{} left out: this model reads only text]", image ? "image" : "file");
}

}  // namespace kvick::server
