#include "kernels/formats/write_block.h"

#include <cstring>
#include <gtest/gtest.h>

#include "kernels/formats/block.h"
#include "kernels/formats/pack.h"
#include "kernels/formats/test_blocks.h"

namespace kvick::kernels {
namespace {

// Returns the fields that read_group() finds, as write_block() takes them.
BlockCodes fields_of(DType type, const std::byte* block) {
  BlockCodes out;
  const uint32_t groups = dtype_info(type).block / kGroup;
  // Whether every 16 weights have their own scale.
  const bool halves = type == DType::kQ2_K || type == DType::kQ3_K || type == DType::kQ6_K ||
                      type == DType::kIQ2_S || type == DType::kIQ2_XS || type == DType::kIQ1_M;
  const bool is_k = type >= DType::kQ2_K && type <= DType::kQ5_K && type != DType::kQ3_K;
  for (uint32_t g = 0; g < groups; ++g) {
    BlockGroup group;
    read_group(type, block, g, group);
    out.d = group.d;
    out.m = is_k ? group.m ^ 0x8000u : group.m;
    for (uint32_t h = 0; h < (halves ? 2u : 1u); ++h) {
      out.scale[(halves ? 2 * g : g) + h] = group.scale[h];
      out.min[(halves ? 2 * g : g) + h] = group.min[h];
    }
    for (uint32_t i = 0; i < kGroup; ++i) out.code[kGroup * g + i] = group.code[i];
  }
  if (type == DType::kMXFP4) out.scale[0] += 128;
  return out;
}

TEST(WriteBlock, what_is_read_from_any_block_is_written_to_the_same_bytes) {
  int types = 0;
  for (const DType type : all_types()) {
    if (!has_block_writer(type)) continue;
    ++types;
    if (type == DType::kTQ1_0) continue;  // tested below
    const size_t bytes = dtype_info(type).block_bytes;
    const std::vector<std::byte> blocks = make_blocks(type, 200, 7);
    for (size_t at = 0; at < blocks.size(); at += bytes) {
      std::vector<std::byte> again(bytes, std::byte{0xff});
      write_block(type, fields_of(type, blocks.data() + at), again.data());
      ASSERT_EQ(std::memcmp(again.data(), blocks.data() + at, bytes), 0)
          << dtype_info(type).name << ", block " << at / bytes;
    }
  }
  EXPECT_EQ(types, 22);
}

// Several bytes stand for the same five base-3 digits, so bytes need not be equal.
TEST(WriteBlock, digits_that_are_read_from_a_ternary_block_are_written) {
  constexpr DType kType = DType::kTQ1_0;
  const size_t bytes = dtype_info(kType).block_bytes;
  const std::vector<std::byte> blocks = make_blocks(kType, 200, 7);
  for (size_t at = 0; at < blocks.size(); at += bytes) {
    const BlockCodes fields = fields_of(kType, blocks.data() + at);
    std::vector<std::byte> again(bytes, std::byte{0xff});
    write_block(kType, fields, again.data());
    const BlockCodes read = fields_of(kType, again.data());
    ASSERT_EQ(read.code, fields.code);
    ASSERT_EQ(read.d, fields.d);
  }
}

}  // namespace
}  // namespace kvick::kernels
