#pragma once
// The part of libtorch that is used. The same sources build with 1.13 and with 2.x.

#include <torch/types.h>

#include "train/settings/settings.h"

namespace kvick::train {

using torch::Tensor;

}  // namespace kvick::train
