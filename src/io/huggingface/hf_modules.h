#pragma once
// Reads what sentence-transformers has in a folder behind the model: how the states of a text
// become an embedding.

#include <string>

#include "base/result.h"
#include "io/file/builder.h"

namespace kvick::io {

// Reads modules.json, if the folder has one, and the folders that it names. Adds
// <architecture>.pooling_type and the tensors dense_2 and dense_3, in the order of the Dense
// modules. Error: a module, or a setting of one, that kvick does not know.
base::Status<> read_modules(const std::string& folder, const std::string& architecture,
                            ModelFileBuilder& builder);

}  // namespace kvick::io
