// libFuzzer: reads any bytes as the GGUF file of a model: its configuration, vocabulary, size and
// weights. Makes a sample of its layers.
#include <cstdint>

#include "model/core/config.h"
#include "model/core/model.h"
#include "model/core/vocabulary.h"
#include "plan/forecast/sample.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using kvick::io::ModelFile;
  static kvick::base::ThreadPool pool(1);
  const auto& kernels = kvick::kernels::table(kvick::base::Isa::kScalar);
  const auto image = std::as_bytes(std::span(data, size));
  auto file = ModelFile::parse_gguf(image, "fuzz");
  if (!file.ok()) return 0;
  (void)kvick::model::read_vocabulary(*file);
  (void)kvick::model::read_config(*file);
  if (const auto model = kvick::plan::size_of(*file); model.ok())
    (void)kvick::plan::make_sample(*model, 1, pool, kernels);
  (void)kvick::model::Model::load(std::move(file).value(), {.kernels = &kernels, .pool = &pool});
  return 0;
}
