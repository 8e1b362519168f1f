#pragma once
// The architectures, one row each: what model files may say in general.architecture.

#include <memory>
#include <span>
#include <string_view>

#include "model/core/model.h"
#include "model/core/weights.h"

namespace kvick::model {

struct Architecture {
  std::string_view name;
  base::Result<std::unique_ptr<Model>> (*load)(io::ModelFile file, Config config,
                                               const LoadOptions& options);
};
std::span<const Architecture> architectures();

base::Result<std::unique_ptr<Model>> load_llama(io::ModelFile, Config, const LoadOptions&);
base::Result<std::unique_ptr<Model>> load_qwen2(io::ModelFile, Config, const LoadOptions&);
base::Result<std::unique_ptr<Model>> load_qwen3(io::ModelFile, Config, const LoadOptions&);
base::Result<std::unique_ptr<Model>> load_opt(io::ModelFile, Config, const LoadOptions&);
base::Result<std::unique_ptr<Model>> load_bct(io::ModelFile, Config, const LoadOptions&);

}  // namespace kvick::model
