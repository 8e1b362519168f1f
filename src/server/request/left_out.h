#pragma once
// What the model reads in place of a picture or a file.

#include <fmt/format.h>
#include <string>
#include <string_view>

namespace kvick::server {

// The replacement for a part of a tool's result, by its type in three APIs; empty: the part is
// neither. The user's own pictures are refused. A tool's are not: an agent sends its results again
// with every request, so once it had opened a picture all its requests would fail.
inline std::string left_out(std::string_view type) {
  const bool image = type == "image" || type == "image_url" || type == "input_image";
  const bool file = type == "document" || type == "file" || type == "input_file";
  if (!image && !file) return "";
  return fmt::format("[{} left out: this model reads only text]", image ? "image" : "file");
}

}  // namespace kvick::server
