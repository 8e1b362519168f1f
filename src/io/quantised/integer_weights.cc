#include "io/quantised/integer_weights.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace kvick::io {
namespace {

using kernels::DType;

constexpr uint64_t kBlock = 32;  // inputs per block of Q4_0, Q4_1 and Q8_0
constexpr uint64_t kRowsAtOnce = 64;

void put_half(float value, std::byte*& out) {
  const uint16_t half = kernels::f32_to_f16(value);
  std::memcpy(out, &half, sizeof(half));
  out += sizeof(half);
}

// Puts input i of a block in the low half of byte i, and input i + 16 in the high half.
void put_halves(const uint8_t* codes, std::byte*& out) {
  for (uint64_t i = 0; i < kBlock / 2; ++i)
    *out++ = static_cast<std::byte>(codes[i] | codes[i + kBlock / 2] << 4);
}

class IntegerWeights final : public RowSource {
 public:
  IntegerWeights(const IntegerParts& parts, DType dtype, std::vector<uint32_t> group_of)
      : parts_(parts), dtype_(dtype), group_of_(std::move(group_of)) {
    parts_.group_of = nullptr;  // it has been read, and may not live as long as this
  }

  void read(uint64_t first, uint64_t count, std::byte* out) const override;
  std::vector<std::span<const std::byte>> parts() const override {
    return {parts_.codes.bytes(), parts_.scales.bytes(), parts_.zeros.bytes()};
  }

 private:
  // Scale and zero point of a row's group.
  struct Step {
    float scale;
    uint32_t zero;
  };
  Step step(uint64_t row, uint64_t group) const;
  void write_blocks(uint64_t row, const uint8_t* codes, std::byte*& out) const;
  void write_floats(uint64_t row, const uint8_t* codes, std::byte*& out) const;

  IntegerParts parts_;
  DType dtype_;
  std::vector<uint32_t> group_of_;  // [inputs], or empty
};

IntegerWeights::Step IntegerWeights::step(uint64_t row, uint64_t group) const {
  const ScaleGrid& scales = parts_.scales;
  const uint64_t scale_row = row / scales.block().outputs;
  const uint64_t column = scales.columns() == 1 ? 0 : group;
  const uint32_t mask = (1U << parts_.bits) - 1;
  return {.scale = scales.at(scale_row, column),
          .zero = (parts_.zeros.at(scale_row, column) + parts_.zero_added) & mask};
}

void IntegerWeights::write_blocks(uint64_t row, const uint8_t* codes, std::byte*& out) const {
  for (uint64_t i = 0; i < parts_.size.inputs; i += kBlock) {
    const Step group = step(row, i / parts_.group);
    put_half(group.scale, out);
    if (dtype_ == DType::kQ8_0) {
      for (uint64_t k = 0; k < kBlock; ++k) *out++ = static_cast<std::byte>(codes[i + k] ^ 0x80);
      continue;
    }
    if (dtype_ == DType::kQ4_1) put_half(-group.scale * static_cast<float>(group.zero), out);
    put_halves(codes + i, out);
  }
}

// Rounds the weights of all codes once per group, because the inputs of a group need not be
// adjacent.
void IntegerWeights::write_floats(uint64_t row, const uint8_t* codes, std::byte*& out) const {
  const uint64_t groups = parts_.scales.columns(), levels = uint64_t{1} << parts_.bits;
  std::vector<uint16_t> halves(groups * levels);
  for (uint64_t group = 0; group < groups; ++group) {
    const Step one = step(row, group);
    for (uint64_t code = 0; code < levels; ++code)
      halves[group * levels + code] = kernels::f32_to_f16(
          one.scale * static_cast<float>(static_cast<int>(code) - static_cast<int>(one.zero)));
  }
  for (uint64_t i = 0; i < parts_.size.inputs; ++i, out += sizeof(uint16_t)) {
    const uint64_t group = groups == 1 ? 0 : group_of_.empty() ? i / parts_.group : group_of_[i];
    std::memcpy(out, &halves[group * levels + codes[i]], sizeof(uint16_t));
  }
}

void IntegerWeights::read(uint64_t first, uint64_t count, std::byte* out) const {
  const uint64_t inputs = parts_.size.inputs;
  std::vector<uint8_t> codes(std::min(count, kRowsAtOnce) * inputs);
  for (uint64_t done = 0; done < count; done += kRowsAtOnce) {
    const uint64_t rows = std::min(kRowsAtOnce, count - done);
    parts_.codes.read(first + done, rows, codes.data());
    for (uint64_t row = 0; row < rows; ++row) {
      if (dtype_ == DType::kF16) {
        write_floats(first + done + row, codes.data() + row * inputs, out);
      } else {
        write_blocks(first + done + row, codes.data() + row * inputs, out);
      }
    }
  }
}

// Returns the group of each input; empty: groups are in order.
base::Result<std::vector<uint32_t>> read_group_of(const IntegerParts& parts) {
  std::vector<uint32_t> group_of;
  if (parts.group_of == nullptr) return group_of;
  const StoredTensor& tensor = *parts.group_of;
  const uint64_t inputs = parts.size.inputs, groups = parts.scales.columns();
  if (tensor.type != StoredType::kI32 || !has_shape(tensor, {inputs}))
    return base::fail("{}: is {} {}; I32 [{}] is expected", tensor.label,
                      stored_type_info(tensor.type).name, shape_text(tensor), inputs);
  bool in_order = true;
  for (uint64_t i = 0; i < inputs; ++i) {
    const auto group = load<uint32_t>(tensor.data, i);
    if (group >= groups)
      return base::fail("{}: input {} is of group {}, but there are {}", tensor.label, i,
                        static_cast<int32_t>(group), groups);
    in_order = in_order && group == i / parts.group;
    group_of.push_back(group);
  }
  if (in_order) group_of.clear();
  return group_of;
}

}  // namespace

base::Result<Tensor> integer_tensor(const std::string& name, const IntegerParts& parts) {
  KVICK_TRY(std::vector<uint32_t> group_of, read_group_of(parts));
  const uint32_t levels = 1U << parts.bits, middle = levels / 2;
  const bool symmetric = parts.zeros.all_are(middle - parts.zero_added);
  DType dtype = DType::kF16;
  const bool blocks = parts.group % kBlock == 0 || parts.scales.columns() == 1;
  if (group_of.empty() && blocks && parts.size.inputs % kBlock == 0) {
    if (parts.bits == 4) dtype = symmetric ? DType::kQ4_0 : DType::kQ4_1;
    if (parts.bits == 8 && symmetric) dtype = DType::kQ8_0;
  }
  return Tensor{.name = name,
                .dtype = dtype,
                .shape = {parts.size.outputs, parts.size.inputs},
                .data = {},
                .source = std::make_shared<IntegerWeights>(parts, dtype, std::move(group_of))};
}

}  // namespace kvick::io
