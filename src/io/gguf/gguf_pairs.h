#pragma once
// The metadata of a GGUF file in its encoded form, for writing another file: ModelFile gives values
// without the types that they were written in.

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>

#include "io/gguf/gguf_writer.h"

namespace kvick::io {

// Appends all pairs of a file that ModelFile has validated, except those with the keys `without`.
void copy_pairs(std::span<const std::byte> file, std::initializer_list<std::string_view> without,
                GgufMetadata& out);

}  // namespace kvick::io
