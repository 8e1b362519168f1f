#pragma once
// Describes a model file, for `kvick inspect`.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "io/file/model_file.h"

namespace kvick::io {

// Returns a table for people: metadata (long arrays and texts are cut), tensors and totals. Ends
// with a newline.
std::string describe_text(const ModelFile& file);

// Returns the same for programs: {file, container, version, file_bytes, parameters, tensor_bytes,
// metadata: {key: value}, tensors: [{name, dtype, shape, bytes}], dtypes: {NAME: {tensors,
// parameters, bytes}}}. An array of more than 16 elements becomes {length, first: [...]}. Bytes
// that are not UTF-8 become U+FFFD.
nlohmann::ordered_json describe_json(const ModelFile& file);

}  // namespace kvick::io
