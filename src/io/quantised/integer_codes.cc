#include "io/quantised/integer_codes.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace kvick::io {
namespace {

constexpr uint32_t kWordBits = 32;
constexpr uint64_t kTile = 64;
// AWQ: the place of each row among a word's eight codes.
constexpr std::array<uint32_t, 8> kInterleavedPlace = {0, 4, 1, 5, 2, 6, 3, 7};

uint64_t words_for(uint64_t codes, uint64_t in_word) {
  return codes / in_word + (codes % in_word != 0);
}

struct Shape {
  uint64_t outer, inner;
};

Shape shape_of(Packing packing, uint64_t in_word, MatrixSize size) {
  const uint64_t rows = size.outputs, columns = size.inputs;
  switch (packing) {
    case Packing::kColumns:
      return {words_for(columns, in_word), rows};
    case Packing::kRows:
    case Packing::kInterleaved:
      return {columns, words_for(rows, in_word)};
    case Packing::kRowMajor:
      return {rows, words_for(columns, in_word)};
    case Packing::kRowMajorRows:
      return {words_for(rows, in_word), columns};
    case Packing::kSigned:
      break;
  }
  return {rows, columns};
}

}  // namespace

IntegerCodes IntegerCodes::constant(uint32_t code) {
  IntegerCodes codes;
  codes.constant_ = code;
  return codes;
}

base::Result<IntegerCodes> IntegerCodes::of(const StoredTensor& words, Packing packing,
                                            uint32_t bits, MatrixSize size) {
  const StoredType wanted = packing == Packing::kSigned ? StoredType::kI8 : StoredType::kI32;
  if (words.type != wanted)
    return base::fail("{}: is {}; {} is expected", words.label, stored_type_info(words.type).name,
                      stored_type_info(wanted).name);
  IntegerCodes codes;
  codes.data_ = words.data;
  codes.packing_ = packing;
  codes.bits_ = bits, codes.mask_ = (1U << bits) - 1, codes.shift_ = bits == 4 ? 3 : 2;
  codes.size_ = size;
  const Shape shape = shape_of(packing, kWordBits / bits, size);
  codes.stride_ = shape.inner;
  if (!has_shape(words, {shape.outer, shape.inner}))
    return base::fail(
        "{}: is {}; for {} outputs and {} inputs or groups of {} bits, [{}, {}] is "
        "expected",
        words.label, shape_text(words), size.outputs, size.inputs, bits, shape.outer, shape.inner);
  return codes;
}

IntegerCodes::Place IntegerCodes::place(uint64_t row, uint64_t column) const {
  const uint64_t last = (uint64_t{1} << shift_) - 1;  // mask of the index within a word
  const auto shift = [&](uint64_t index) { return static_cast<uint32_t>(index & last) * bits_; };
  switch (packing_) {
    case Packing::kColumns:
      return {(column >> shift_) * stride_ + row, shift(column)};
    case Packing::kRows:
      return {column * stride_ + (row >> shift_), shift(row)};
    case Packing::kInterleaved:
      return {column * stride_ + (row >> shift_), kInterleavedPlace[row & 7] * bits_};
    case Packing::kRowMajor:
      return {row * stride_ + (column >> shift_), shift(column)};
    case Packing::kRowMajorRows:
      return {(row >> shift_) * stride_ + column, shift(row)};
    case Packing::kSigned:
      break;
  }
  return {row * stride_ + column, 0};
}

uint32_t IntegerCodes::at(uint64_t row, uint64_t column) const {
  if (data_.empty()) return constant_;
  const Place at = place(row, column);
  if (packing_ == Packing::kSigned) return load<uint8_t>(data_, at.word) ^ 0x80U;
  return load<uint32_t>(data_, at.word) >> at.shift & mask_;
}

// Reads words of neighbouring columns, each word once.
void IntegerCodes::read_columns(uint64_t first, uint64_t count, uint8_t* out) const {
  const uint64_t columns = size_.inputs, in_word = uint64_t{1} << shift_;
  const bool row_major = packing_ == Packing::kRowMajor;
  for (uint64_t column = 0; column < columns; column += in_word)
    for (uint64_t row = 0; row < count; ++row) {
      const uint64_t index = row_major ? (first + row) * stride_ + (column >> shift_)
                                       : (column >> shift_) * stride_ + first + row;
      auto word = load<uint32_t>(data_, index);
      uint8_t* to = out + row * columns + column;
      for (uint64_t k = std::min(in_word, columns - column); k > 0; --k, word >>= bits_)
        *to++ = static_cast<uint8_t>(word & mask_);
    }
}

void IntegerCodes::read(uint64_t first, uint64_t count, uint8_t* out) const {
  if (packing_ == Packing::kColumns || packing_ == Packing::kRowMajor)
    return read_columns(first, count, out);
  const uint64_t columns = size_.inputs;
  if (packing_ == Packing::kSigned) {
    for (uint64_t i = 0; i < count * columns; ++i)
      out[i] = std::to_integer<uint8_t>(data_[first * columns + i]) ^ 0x80;
    return;
  }
  KVICK_CHECK(packing_ == Packing::kInterleaved, "only zero points are packed so");
  for (uint64_t row = 0; row < count; row += kTile)
    for (uint64_t column = 0; column < columns; column += kTile)
      read_tile({first + row, column},
                {std::min(kTile, count - row), std::min(kTile, columns - column)},
                out + row * columns + column);
}

// AWQ's rows are adjacent within a column. Transposes a tile that fits in the cache.
void IntegerCodes::read_tile(MatrixSize from, MatrixSize size, uint8_t* out) const {
  std::array<std::array<uint8_t, kTile>, kTile> tile;
  for (uint64_t column = 0; column < size.inputs; ++column)
    for (uint64_t i = 0; i < size.outputs; ++i) {
      const uint64_t row = from.outputs + i;
      const auto word = load<uint32_t>(data_, (from.inputs + column) * stride_ + row / 8);
      tile[i][column] = static_cast<uint8_t>(word >> kInterleavedPlace[row % 8] * bits_ & mask_);
    }
  for (uint64_t row = 0; row < size.outputs; ++row)
    std::copy_n(tile[row].data(), size.inputs, out + row * size_.inputs);
}

bool IntegerCodes::all_are(uint32_t code) const {
  if (data_.empty()) return code == constant_;
  for (uint64_t row = 0; row < size_.outputs; ++row)
    for (uint64_t column = 0; column < size_.inputs; ++column)
      if (at(row, column) != code) return false;
  return true;
}

}  // namespace kvick::io
