#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvick::cli {

// The fields that kvick reads from the head of an HTTP response. Sizes that are not plain decimal
// numbers count as absent.
struct HttpResponse {
  int status = 0;
  std::string etag, last_modified, content_type, content_encoding;
  // Set by a Hugging Face hub: the file's own ETag, on the redirect to its location.
  std::string linked_etag;
  std::optional<uint64_t> content_length, linked_size, retry_after_s;
  // From Content-Range: bytes BEGIN-END/TOTAL or bytes */TOTAL.
  std::optional<uint64_t> range_begin, range_total;

  // Reads one header line; a status line begins a new response.
  void take_line(std::string_view line);

  // Returns a value for If-Range: a strong ETag, else the modification date, else empty.
  std::string validator() const;
  // Returns the SHA-256 that a hub states for the file (an ETag of 64 hexadecimal digits), else
  // empty.
  std::string stated_sha256() const;
};

}  // namespace kvick::cli
