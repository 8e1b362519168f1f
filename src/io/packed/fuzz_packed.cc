// libFuzzer: the input is the beginning of a packed file of zeros. The file has its correct size in
// the header and, if the last byte of the input is odd, the correct checksum.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "io/packed/packed_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace io = kvick::io;
  constexpr size_t kFileBytes = 32;  // offset of the file's size
  std::vector<std::byte> image(io::kPackedUnit + io::kPackedPiece);
  std::copy_n(reinterpret_cast<const std::byte*>(data), std::min(size, image.size()), image.data());
  const uint64_t bytes = image.size();
  std::memcpy(image.data() + kFileBytes, &bytes, sizeof bytes);
  if (size > 0 && data[size - 1] % 2 == 1)
    io::put_head_sum(std::span(image).first(io::kPackedUnit));
  const auto head = io::parse_packed_head(image, bytes);
  if (!head.ok()) return 0;
  KVICK_CHECK(head->data_begin <= bytes && head->sums.size() == 1, "data from {}, {} pieces",
              head->data_begin, head->sums.size());
  return 0;
}
