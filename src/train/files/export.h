#pragma once
// Writes a checkpoint's best weights as a GGUF file that the engine loads.

#include <string>

#include "train/files/checkpoint.h"

namespace kvick::train {

enum class FileType { kF32, kBf16, kQ8_0 };
FileType file_type_of(const std::string& name);  // throws Mistake

// context: the longest sequence that the file states; 0: from the settings. Throws Mistake for what
// the engine does not support: the update delta, made-up tokens.
void export_model(const Checkpoint& checkpoint, const std::string& path, FileType type,
                  uint64_t context);

}  // namespace kvick::train
