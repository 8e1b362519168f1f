#pragma once
// The safetensors container: https://huggingface.co/docs/safetensors.

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/file/model_file.h"

namespace kvick::io {

struct Safetensors {
  std::vector<Tensor> tensors;  // in the order of their bytes; data borrowed from the image
  std::map<std::string, std::string> notes;  // __metadata__
};

// Reads and checks the header. Error: anything about it that is cut off, contradictory, or of a
// type that kvick has no kernels for; tensors must fill the file without gap or overlap, as the
// format demands.
base::Result<Safetensors> parse_safetensors_image(std::span<const std::byte> image,
                                                  const std::string& name);

}  // namespace kvick::io
