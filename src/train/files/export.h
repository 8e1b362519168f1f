#pragma once
// A checkpoint's best weights as a GGUF file that the engine loads.

#include <string>

#include "train/files/checkpoint.h"

namespace kvick::train {

enum class FileType { kF32, kBf16, kQ8_0 };
FileType file_type_of(const std::string& name);  // throws Mistake

// context: what the file says is the longest sequence; 0: what the settings say. Throws Mistake
// for what the engine does not have: the update delta, made-up tokens.
void export_model(const Checkpoint& checkpoint, const std::string& path, FileType type,
                  uint64_t context);

}  // namespace kvick::train
