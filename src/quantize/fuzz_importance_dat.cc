// libFuzzer: reads the input as an importance file in the older format (imatrix.dat).
#include <cstdint>

#include "quantize/importance_dat.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto read =
      kvick::quantize::parse_importance_dat(std::as_bytes(std::span(data, size)), "fuzz");
  if (read.ok())
    for (const auto& [name, sums] : read->tensors) (void)read->means(name, 0, sums.squares.size());
  return 0;
}
