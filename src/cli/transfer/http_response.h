#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvick::cli {

// What kvick reads of one HTTP response's head. Sizes that are not plain decimal numbers count as
// absent.
struct HttpResponse {
  int status = 0;
  std::string etag, last_modified, content_type, content_encoding;
  std::string
      linked_etag;  // of a Hugging Face hub: the file's own, on the redirect to where it lies
  std::optional<uint64_t> content_length, linked_size, retry_after_s;
  std::optional<uint64_t> range_begin,
      range_total;  // Content-Range: bytes BEGIN-END/TOTAL or bytes */TOTAL

  // Takes one header line; a status line begins a new response.
  void take_line(std::string_view line);

  // What If-Range may carry: a strong ETag, else the modification date, else empty.
  std::string validator() const;
  // The SHA-256 that a hub states for the file (64 hexadecimal digits as its ETag), else empty.
  std::string stated_sha256() const;
};

}  // namespace kvick::cli
