#pragma once
// Computes the key of a model's packed weights.

#include <span>

#include "base/result.h"
#include "io/file/model_file.h"
#include "io/packed/packed_file.h"

namespace kvick::io {

// Returns a hash of everything that determines the bytes of these matrices:
// * the identity of the model's files without their paths: device, inode, size and modification
//   time of the file, or of each .json and .safetensors file of the folder;
// * the name, type and shape of each tensor, and its first and last 64 bytes (of each part that it
// is
//   converted from). No other weights are read. A model that is copied, touched or changed is
//   packed again; one that is only moved is not;
// * `layout`, kernels::kPackedVersion, and kvick's own version;
// * the names and sizes of the matrices.
// Error: the files cannot be looked up, for example because the model is only in memory.
base::Result<PackedKey> packed_key(const ModelFile& file, uint32_t layout,
                                   std::span<const PackedMatrix> matrices);

}  // namespace kvick::io
