#pragma once
// Which packed weights belong to a model file.

#include <span>

#include "base/result.h"
#include "io/file/model_file.h"
#include "io/packed/packed_file.h"

namespace kvick::io {

// A hash of all that decides the bytes of these matrices:
//   the model's files: path-independent identity (device, inode, size, time of the last change) of
//     the file, or of each .json and .safetensors file of the folder, and the first and last 64
//     bytes of each tensor, with its name, type and shape. Nothing else of the weights is read. A
//     file that is copied, touched or changed is packed again; one that is only moved is not;
//   `layout`, kernels::kPackedVersion, and kvick's own version;
//   the names and sizes of the matrices.
// Error: the files cannot be looked up, as of a model that is in memory alone.
base::Result<PackedKey> packed_key(const ModelFile& file, uint32_t layout,
                                   std::span<const PackedMatrix> matrices);

}  // namespace kvick::io
