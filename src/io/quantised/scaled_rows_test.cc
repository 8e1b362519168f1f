#include "io/quantised/scaled_rows.h"

#include <cstring>
#include <gtest/gtest.h>

#include "io/quantised/test_tensors.h"

namespace kvick::io {
namespace {

constexpr uint64_t kRows = 3, kColumns = 2;

// The rows 1 2, 3 4 and 5 6. bytes: keeps what the tensor borrows.
Tensor made(kernels::DType dtype, std::vector<std::byte>& bytes) {
  for (uint16_t i = 1; i <= kRows * kColumns; ++i) {
    const auto value = static_cast<float>(i);
    uint32_t word = 0;
    std::memcpy(&word, &value, sizeof(word));
    const size_t size = dtype == kernels::DType::kF32 ? 4 : 2, at = bytes.size();
    bytes.resize(at + size);
    // BF16 is the upper half of F32.
    std::memcpy(bytes.data() + at, reinterpret_cast<const std::byte*>(&word) + 4 - size, size);
  }
  return {.name = "m", .dtype = dtype, .shape = {kRows, kColumns}, .data = bytes};
}

TEST(ScaledRows, EachRowHasItsFactor) {
  for (const auto& [from, to] : {std::pair{kernels::DType::kF32, kernels::DType::kF32},
                                 std::pair{kernels::DType::kBF16, kernels::DType::kF16}}) {
    std::vector<std::byte> bytes;
    const auto scaled =
        scaled_rows(made(from, bytes), {{.factor = 2, .rows = 1}, {.factor = 0.5F}}, "here");
    ASSERT_TRUE(scaled.ok()) << scaled.error().message;
    EXPECT_EQ(scaled->dtype, to);
    EXPECT_EQ(scaled->name, "m");
    EXPECT_EQ(scaled->shape, (std::vector<uint64_t>{kRows, kColumns}));
    EXPECT_EQ(floats_of(*scaled), (std::vector<float>{2, 4, 1.5, 2, 2.5, 3}));
    // Rows may be read from any row on, and several at once.
    std::vector<std::byte> all(scaled->bytes()), last(2 * scaled->row_bytes());
    scaled->read_rows(0, kRows, all.data());
    scaled->read_rows(1, 2, last.data());
    EXPECT_EQ(std::memcmp(all.data() + scaled->row_bytes(), last.data(), last.size()), 0);
    ASSERT_EQ(scaled->source->parts().size(), 1u);
    EXPECT_EQ(scaled->source->parts()[0].data(), bytes.data());
  }
}

TEST(ScaledRows, FactorsOfOneLeaveTheTensorAsItIs) {
  std::vector<std::byte> bytes;
  const auto same = scaled_rows(made(kernels::DType::kBF16, bytes), {{.factor = 1}}, "here");
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(same->dtype, kernels::DType::kBF16);
  EXPECT_EQ(same->source, nullptr);
  EXPECT_EQ(same->data.data(), bytes.data());
}

TEST(ScaledRows, FactorsForMoreOrFewerRowsAreRefused) {
  std::vector<std::byte> bytes;
  const Tensor tensor = made(kernels::DType::kF32, bytes);
  const auto more = scaled_rows(tensor, {{.factor = 2, .rows = 4}}, "here");
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.error().message,
            "here: has 3 rows, fewer than its factors in config.json are for");
  const auto fewer = scaled_rows(tensor, {{.factor = 2, .rows = 2}}, "here");
  ASSERT_FALSE(fewer.ok());
  EXPECT_EQ(fewer.error().message, "here: has 3 rows, but its factors in config.json are for 2");
}

}  // namespace
}  // namespace kvick::io
