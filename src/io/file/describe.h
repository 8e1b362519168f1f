#pragma once
// What `kvick inspect` says about a model file.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "io/file/model_file.h"

namespace kvick::io {

// A table for people: metadata (long arrays and texts cut), tensors, totals. Ends with a newline.
std::string describe_text(const ModelFile& file);

// The same for programs: {file, container, version, file_bytes, parameters, tensor_bytes, metadata:
// {key: value}, tensors: [{name, dtype, shape, bytes}], dtypes: {NAME: {tensors, parameters,
// bytes}}}. Arrays of more than 16 elements become {length, first: [...]}; texts that are not UTF-8
// get U+FFFD for what is not.
nlohmann::ordered_json describe_json(const ModelFile& file);

}  // namespace kvick::io
