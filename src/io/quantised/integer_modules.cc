#include "io/quantised/integer_modules.h"

#include <algorithm>

#include "io/quantised/integer_weights.h"

namespace kvick::io {
namespace {

constexpr uint64_t kMostInputs = uint64_t{1} << 31;

base::Status<> check_matrix(const StoredTensor& tensor) {
  if (tensor.shape.size() == 2 && tensor.shape[0] <= kMostInputs && tensor.shape[1] <= kMostInputs)
    return base::Done{};
  return base::fail("{}: is {}; a matrix is expected", tensor.label, shape_text(tensor));
}

// Sets the size of a group. scales: [groups][outputs]. told: the size in the config; 0: unknown.
base::Status<> set_group(const StoredTensor& scales, uint64_t told, IntegerParts& parts) {
  const uint64_t inputs = parts.size.inputs, groups = parts.scales.columns();
  parts.group = told == 0 ? parts.scales.block().inputs : std::min(told, inputs);
  const bool cut = inputs % parts.group != 0;
  if (inputs / parts.group + (cut ? 1 : 0) == groups && !(cut && told == 0)) return base::Done{};
  return base::fail("{}: {} groups for {} inputs, of which {} make a group", scales.label, groups,
                    inputs, parts.group);
}

base::Result<Tensor> grouped_tensor(const Module& module, const Scheme& scheme, MatrixSize size,
                                    Packing packing, Packing zero_packing) {
  const StoredTensor& words = *module.find(".qweight");
  KVICK_TRY(const StoredTensor* zeros, module.need(".qzeros", words));
  KVICK_TRY(const StoredTensor* scales, module.need(".scales", words));
  IntegerParts parts = {.bits = scheme.bits, .size = size, .zero_added = scheme.zero_added};
  KVICK_TRY(parts.codes, IntegerCodes::of(words, packing, parts.bits, size));
  KVICK_TRY(parts.scales, ScaleGrid::transposed(*scales, size));
  KVICK_TRY_VOID(set_group(*scales, scheme.group, parts));
  KVICK_TRY(parts.zeros, IntegerCodes::of(*zeros, zero_packing, parts.bits,
                                          {size.outputs, parts.scales.columns()}));
  if (scheme.method == Scheme::Method::kGptq) parts.group_of = module.find(".g_idx");
  return integer_tensor(module.name() + ".weight", parts);
}

// compressed-tensors has one scale for all, one per output, or one per group of inputs.
base::Status<> read_scales(const Module& module, const Scheme& scheme, const StoredTensor& codes,
                           IntegerParts& parts) {
  KVICK_TRY(const StoredTensor* scales, module.need(".weight_scale", codes));
  KVICK_TRY(parts.scales,
            ScaleGrid::of(*scales, parts.size, {scheme.block_outputs, scheme.block_inputs}));
  parts.group = parts.scales.block().inputs;
  parts.group_of = module.find(".weight_g_idx");
  return base::Done{};
}

base::Result<MatrixSize> read_shape(const StoredTensor& shape) {
  if (shape.type != StoredType::kI64 || !has_shape(shape, {2}))
    return base::fail("{}: must hold two numbers of I64", shape.label);
  const auto outputs = load<int64_t>(shape.data, 0), inputs = load<int64_t>(shape.data, 1);
  const auto most = static_cast<int64_t>(kMostInputs);
  if (outputs < 1 || inputs < 1 || outputs > most || inputs > most)
    return base::fail("{}: holds {} and {}; 1 to {} are allowed", shape.label, outputs, inputs,
                      most);
  return MatrixSize{static_cast<uint64_t>(outputs), static_cast<uint64_t>(inputs)};
}

// Finds the bits of a module: files may have modules of several widths.
base::Result<uint32_t> bits_of(const StoredTensor& words, MatrixSize size) {
  for (const uint32_t bits : {4U, 8U}) {
    const uint64_t in_word = 32 / bits;
    if (has_shape(words, {size.outputs, (size.inputs + in_word - 1) / in_word})) return bits;
  }
  return base::fail(
      "{}: {} words do not hold {} outputs and {} inputs of 4 or 8 bits, which kvick "
      "reads",
      words.label, shape_text(words), size.outputs, size.inputs);
}

}  // namespace

base::Result<Tensor> gptq_tensor(const Module& module, const Scheme& scheme) {
  const StoredTensor& words = *module.find(".qweight");
  KVICK_TRY_VOID(check_matrix(words));
  const uint64_t in_word = 32 / scheme.bits;
  return grouped_tensor(module, scheme, {words.shape[1], words.shape[0] * in_word},
                        Packing::kColumns, Packing::kRows);
}

base::Result<Tensor> awq_tensor(const Module& module, const Scheme& scheme) {
  const StoredTensor& words = *module.find(".qweight");
  KVICK_TRY_VOID(check_matrix(words));
  return grouped_tensor(module, scheme, {words.shape[1] * 8, words.shape[0]}, Packing::kInterleaved,
                        Packing::kInterleaved);
}

base::Result<Tensor> packed_tensor(const Module& module, const Scheme& scheme) {
  const StoredTensor& words = *module.find(".weight_packed");
  KVICK_TRY(const StoredTensor* shape, module.need(".weight_shape", words));
  IntegerParts parts;
  KVICK_TRY(parts.size, read_shape(*shape));
  KVICK_TRY(parts.bits, bits_of(words, parts.size));
  KVICK_TRY(parts.codes, IntegerCodes::of(words, Packing::kRowMajor, parts.bits, parts.size));
  KVICK_TRY_VOID(read_scales(module, scheme, words, parts));
  parts.zeros = IntegerCodes::constant(1U << (parts.bits - 1));
  if (const StoredTensor* zeros = module.find(".weight_zero_point")) {
    KVICK_TRY(parts.zeros, IntegerCodes::of(*zeros, Packing::kRowMajorRows, parts.bits,
                                            {parts.scales.rows(), parts.scales.columns()}));
  }
  return integer_tensor(module.name() + ".weight", parts);
}

base::Result<Tensor> signed_tensor(const Module& module, const Scheme& scheme) {
  const StoredTensor& codes = *module.find(".weight");
  KVICK_TRY_VOID(check_matrix(codes));
  IntegerParts parts = {.bits = 8, .size = {codes.shape[0], codes.shape[1]}};
  KVICK_TRY(parts.codes, IntegerCodes::of(codes, Packing::kSigned, 8, parts.size));
  KVICK_TRY_VOID(read_scales(module, scheme, codes, parts));
  parts.zeros = IntegerCodes::constant(128);
  if (const StoredTensor* zeros = module.find(".weight_zero_point")) {
    // The zero points have the scales' shape, with any number of dimensions.
    StoredTensor matrix = *zeros;
    if (matrix.shape.size() < 2) matrix.shape.resize(2, 1);
    KVICK_TRY(parts.zeros, IntegerCodes::of(matrix, Packing::kSigned, 8,
                                            {parts.scales.rows(), parts.scales.columns()}));
  }
  return integer_tensor(module.name() + ".weight", parts);
}

}  // namespace kvick::io
