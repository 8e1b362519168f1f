#include "kernels/formats/packed_bytes.h"

#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <string>

#include "base/check.h"
#include "kernels/formats/test_weights.h"

namespace kvick::kernels {
namespace {

uint64_t fnv1a(std::span<const std::byte> bytes, uint64_t hash = 14695981039346656037u) {
  for (const std::byte byte : bytes) hash = (hash ^ static_cast<uint64_t>(byte)) * 1099511628211u;
  return hash;
}

// Returns the hash of 37 packed rows of pseudo-random blocks, with whole and partial packed blocks.
uint64_t hash_of(DType type) {
  const uint32_t inputs = whole_blocks(type, 768 + 96);
  const Weights weights(type, 37, inputs, 11);
  return fnv1a(weights.packed.data);
}

// If this fails, packed files on users' disks do not fit this program: raise kPackedVersion and
// copy the hashes that the test prints.
TEST(PackedBytes, AreThoseOfTheirVersion) {
  ASSERT_EQ(kPackedVersion, 1U);
  const std::map<std::string, uint64_t> known = {
      {"F32", 0x6ad6e921ef15c4e7},     {"F16", 0x7fd20926e025b562},
      {"BF16", 0x3954fefc2cbfae2a},    {"Q8_0", 0xf0e7045e231c82fe},
      {"Q4_0", 0x41390d74787db9b9},    {"Q4_1", 0xacead8bd2e08d6cd},
      {"Q5_0", 0xe7f29afc47c8cbcb},    {"Q5_1", 0xd2622e2351978319},
      {"Q2_K", 0x7de8d35af606c54f},    {"Q3_K", 0x95c76026d4c8150a},
      {"Q4_K", 0xd807ced7400188fd},    {"Q5_K", 0x531a91a9632e7382},
      {"Q6_K", 0x8d2dd79a2d3e1ab1},    {"IQ4_NL", 0x82806818e301d6d9},
      {"IQ4_XS", 0xf1857586232045bc},  {"MXFP4", 0x81e25b7fff5ad358},
      {"NVFP4", 0x76f76187dab8b934},   {"IQ3_S", 0xdcaaa44cd98064fb},
      {"IQ3_XXS", 0x635776e7ec50279d}, {"IQ2_S", 0x0c16679faa24f0ce},
      {"IQ2_XS", 0x3f6ff9a50a82f8fe},  {"IQ2_XXS", 0x615d24a82d5742a0},
      {"IQ1_S", 0xbeb1f4a5d1f08e20},   {"IQ1_M", 0x897044edd165be1a},
      {"TQ1_0", 0x58827cac80b2590c},   {"TQ2_0", 0xbe633ecbf077989f},
  };
  std::string all;
  for (const DType type : all_types()) {
    const std::string name(dtype_info(type).name);
    all += fmt::format("      {{\"{}\", 0x{:016x}}},\n", name, hash_of(type));
    const auto found = known.find(name);
    ASSERT_TRUE(found == known.end() || found->second == hash_of(type)) << name;
  }
  EXPECT_EQ(known.size(), all_types().size()) << all;
}

TEST(PackedBytes, AreReadWhereTheyLie) {
  const Weights weights(DType::kQ4_K, 37, 512, 3);
  const Matrix& packed = weights.packed;
  EXPECT_EQ(packed_bytes(DType::kQ4_K, 37, 512), packed.data.size());
  const Matrix over = matrix_over(DType::kQ4_K, 37, 512, packed.data);
  EXPECT_EQ(over.panel_bytes, packed.panel_bytes);
  EXPECT_EQ(over.data.data(), packed.data.data());
  std::vector<float> a(512), b(512);
  unpack_row(packed, 36, a.data());
  unpack_row(over, 36, b.data());
  EXPECT_EQ(a, b);
  EXPECT_TRUE(matrix_over(DType::kQ4_K, 37, 512, {}).data.empty());
  EXPECT_THROW(matrix_over(DType::kQ4_K, 37, 512, packed.data.first(64)), base::Bug);
}

}  // namespace
}  // namespace kvick::kernels
