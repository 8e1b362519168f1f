// libFuzzer: any bytes as the beginning of a file of packed weights.
#include <cstdint>
#include <string>

#include "base/check.h"
#include "io/packed/packed_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace io = kvick::io;
  const auto image = std::as_bytes(std::span(data, size));
  const auto head = io::parse_packed_head(image, size);
  if (!head.ok()) return 0;
  KVICK_CHECK(head->data_begin <= size && head->sums.size() <= size, "data from {} of {}",
              head->data_begin, size);
  for (size_t i = 0; i < head->sums.size(); ++i) {
    const size_t at = head->data_begin + i * io::kPackedPiece;
    io::piece_sum(image.subspan(at, std::min(io::kPackedPiece, size - at)), i);
  }
  return 0;
}
