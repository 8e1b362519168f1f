#pragma once
// Copies a GGUF file's metadata in encoded form to a new file. (ModelFile does not keep the types
// that the values were written in.)

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>

#include "io/gguf/gguf_writer.h"

namespace kvick::io {

// Appends all pairs except those with the keys `without`. file: must have been validated by
// ModelFile.
void copy_pairs(std::span<const std::byte> file, std::initializer_list<std::string_view> without,
                GgufMetadata& out);

}  // namespace kvick::io
