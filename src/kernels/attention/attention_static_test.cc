// Tests rows of the static types, whose scale belongs to the segment.

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "kernels/table/table.h"

namespace kvick::kernels {
namespace {

constexpr uint32_t kPast = 300, kFresh = 2, kRows = kPast + kFresh, kGroup = 3;

// The codes of one head, and the scales of its keys and values.
struct Head {
  DType type;
  uint32_t dims;
  float k_scale, v_scale;
  std::vector<std::byte> k, v;
  std::vector<float> k_codes, v_values;  // values: code * scale, rounded once

  Head(DType a_type, uint32_t a_dims, std::mt19937& random)
      : type(a_type), dims(a_dims), k_scale(0.017F), v_scale(0.0093F) {
    std::uniform_real_distribution<float> codes(-100, 100);
    for (const bool is_v : {false, true}) {
      std::vector<float> row(kRows * dims);
      for (float& x : row) x = codes(random);
      std::vector<std::byte>& bytes = is_v ? v : k;
      bytes.resize(dtype_bytes(type, row.size()));
      from_f32(type, row.data(), row.size(), bytes.data());
      to_f32(type, bytes.data(), row.size(), row.data());
      for (float& x : row) x *= is_v ? v_scale : 1;
      (is_v ? v_values : k_codes) = row;
    }
  }
};

const Run kPastRun = {0, kPast, 0}, kFreshRun = {kPast, kFresh, kPast};

View view_of(Segment segment) {
  View view;
  segment.runs = {&kPastRun, 1};
  view.past.push_back(segment);
  segment.runs = {&kFreshRun, 1};
  view.fresh = segment;
  return view;
}

Segment stored(const Head& head) {
  Segment segment;
  segment.k = head.k.data();
  segment.v = head.v.data();
  segment.k_stride = segment.v_stride = static_cast<uint32_t>(dtype_bytes(head.type, head.dims));
  segment.k_type = segment.v_type = head.type;
  segment.k_scale = head.k_scale;
  segment.v_scale = head.v_scale;
  return segment;
}

// Returns the same rows as floats: keys as unscaled codes, values scaled.
Segment floats(const Head& head) {
  Segment segment;
  segment.k = reinterpret_cast<const std::byte*>(head.k_codes.data());
  segment.v = reinterpret_cast<const std::byte*>(head.v_values.data());
  segment.k_stride = segment.v_stride = head.dims * 4;
  return segment;
}

std::vector<float> attend(const Table& table, const View& view, const std::vector<float>& q,
                          uint32_t dims, float scale) {
  const Queries queries = {.q = q.data(),
                           .q_stride = kGroup * dims,
                           .first = 0,
                           .tokens = kFresh,
                           .group = kGroup,
                           .k_dim = dims,
                           .v_dim = dims,
                           .scale = scale};
  constexpr uint32_t kCount = kFresh * kGroup;
  std::vector<float> max[2], sum[2], acc[2], out(kCount * dims);
  Partial partial[2];
  for (int i = 0; i < 2; ++i) {
    max[i].resize(kCount), sum[i].resize(kCount), acc[i].resize(kCount * dims);
    partial[i] = {max[i].data(), sum[i].data(), acc[i].data()};
    table.attend_chunk(view, queries, static_cast<uint32_t>(i), partial[i], nullptr);
  }
  table.merge(partial[0], partial[1], kCount, dims);
  table.finish(partial[0], view, queries, out.data(), kGroup * dims);
  return out;
}

// So only rounding to codes loses precision, and the order of operations is that of all types.
TEST(StaticRows, GiveTheBitsOfTheirCodesAndValuesAsFloats) {
  std::mt19937 random(3);
  for (const base::Isa isa : base::kIsas) {
    if (!base::isa_supported(isa)) continue;
    for (const DType type : {DType::kStatic8, DType::kStatic16})
      for (const uint32_t dims : {8, 24, 40, 64, 80, 128, 248, 256}) {
        const Head head(type, dims, random);
        std::vector<float> q(kFresh * kGroup * dims);
        std::normal_distribution<float> normal;
        for (float& x : q) x = normal(random);
        const float scale = 1 / std::sqrt(static_cast<float>(dims));
        const auto out = attend(table(isa), view_of(stored(head)), q, dims, scale);
        const auto twin = attend(table(isa), view_of(floats(head)), q, dims, scale * head.k_scale);
        EXPECT_EQ(0, std::memcmp(out.data(), twin.data(), out.size() * sizeof(float)))
            << base::isa_name(isa) << " " << dtype_info(type).name << " " << dims;
      }
  }
}

TEST(StaticRows, HaveTheScalesOfTheirSegments) {
  std::mt19937 random(4);
  const uint32_t dims = 64;
  Head head(DType::kStatic8, dims, random);
  std::vector<float> q(kFresh * kGroup * dims);
  std::normal_distribution<float> normal;
  for (float& x : q) x = normal(random);
  // Doubling the scales of fresh rows is the same as doubling their codes.
  View scaled = view_of(stored(head));
  scaled.fresh.k_scale *= 2;
  scaled.fresh.v_scale *= 2;
  for (size_t i = kPast * dims; i < kRows * dims; ++i) {
    head.k_codes[i] *= 2;
    head.v_values[i] *= 2;
  }
  const float scale = 0.1F;
  const Table& best = table(base::best_isa());
  const auto out = attend(best, scaled, q, dims, scale);
  const auto twin = attend(best, view_of(floats(head)), q, dims, scale * head.k_scale);
  for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], twin[i], 1e-5) << i;
}

}  // namespace
}  // namespace kvick::kernels
