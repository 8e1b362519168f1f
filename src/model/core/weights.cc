// Larger than 400 lines because all kinds of tensors are found, checked and placed in the same way.

#include "model/core/weights.h"

#include <algorithm>
#include <atomic>
#include <fmt/ranges.h>

#include "kernels/formats/block.h"
#include "kernels/formats/packed_bytes.h"

namespace kvick::model {

using base::fail;
using base::Result;

// Rows that a thread converts at a time: this many adjacent rows of packed files fill whole cache
// lines.
constexpr size_t kConvertedRows = 64;

namespace {

// With AVX-512 the sums of many tokens start at 1.5 * 2^23 times a block's scale. That product must
// be a finite float, or a token's result would depend on the number of tokens. Of the scales that
// are numbers, only those of MXFP4 can be too large.
base::Status<> check_scales(const std::string& path, const io::Tensor& tensor,
                            std::span<const std::byte> blocks, base::ThreadPool& pool) {
  if (!kernels::pack_format(tensor.dtype).quantised) return base::Done{};
  constexpr int kMost = 104, kLess = 128;  // a block begins with its scale's exponent plus kLess
  constexpr size_t kGrain = size_t{1} << 14;
  const size_t bytes = kernels::dtype_info(tensor.dtype).block_bytes;
  const bool mxfp4 = tensor.dtype == kernels::DType::kMXFP4;
  std::atomic<bool> fit = true;
  pool.parallel_for(blocks.size() / bytes, kGrain, [&](size_t begin, size_t end, unsigned) {
    if (!kernels::finite_scales(tensor.dtype, blocks.data() + begin * bytes, end - begin))
      fit = false;
    for (size_t block = begin; mxfp4 && block < end; ++block)
      if (static_cast<int>(blocks[block * bytes]) > kMost + kLess) fit = false;
  });
  if (fit) return base::Done{};
  if (!mxfp4)
    return fail(
        "{}: tensor {} has a block of weights whose scale is infinite or not a number: the file is "
        "damaged; download or convert it again",
        path, tensor.name);
  return fail(
      "{}: tensor {} has a block of weights larger than 2^{}, which no model has: the file "
      "is damaged; download or convert it again",
      path, tensor.name, kMost);
}

}  // namespace

void Embedding::row(uint32_t index, float* out) const {
  if (tied_ != nullptr) return kernels::unpack_row(*tied_, index, out);
  const uint64_t columns = table_.shape[1], bytes = table_.row_bytes();
  if (table_.source == nullptr)
    return kernels::to_f32(table_.dtype, table_.data.data() + index * bytes, columns, out);
  std::vector<std::byte> row(bytes);
  table_.read_rows(index, 1, row.data());
  kernels::to_f32(table_.dtype, row.data(), columns, out);
}

WeightReader::WeightReader(const io::ModelFile& file, const LoadOptions& options,
                           MatrixPlace& place)
    : file_(file), options_(options), place_(place) {
  for (const io::Tensor& tensor : file.tensors()) total_ += tensor.bytes();
  shifted_norms_ = file.metadata().contains("kvick.norm.shifted");
}

Result<const io::Tensor*> WeightReader::find(const std::string& name, std::vector<uint64_t> shape) {
  const io::Tensor* tensor = file_.find(name);
  if (tensor == nullptr)
    return fail("{}: tensor {} is missing; the file is incomplete or of another architecture",
                file_.path(), name);
  if (tensor->shape != shape)
    return fail("{}: tensor {} is [{}], but the metadata asks for [{}]", file_.path(), name,
                fmt::join(tensor->shape, ", "), fmt::join(shape, ", "));
  return tensor;
}

void WeightReader::advance(uint64_t bytes) {
  done_ += bytes;
  if (options_.progress != nullptr) (*options_.progress)(done_, total_);
}

base::Status<> WeightReader::check_inputs(const std::string& name, uint32_t inputs) const {
  if (inputs % kernels::kGroup == 0) return base::Done{};
  return fail("{}: tensor {} has rows of {} inputs; kvick needs a multiple of {}", file_.path(),
              name, inputs, kernels::kGroup);
}

// Returns the rows of the matrix from `first` on, as many as the part has.
WeightReader::Rows WeightReader::Rows::from(uint32_t first, const kernels::Matrix& part) const {
  return {.type = type,
          .inputs = inputs,
          .data = data + first * kernels::dtype_bytes(type, inputs),
          .count = part.rows};
}

void WeightReader::copy_panels(kernels::Matrix& part, const Rows& rows) const {
  options_.pool->parallel_for(part.panels(), 8, [&](size_t begin, size_t end, unsigned) {
    kernels::pack_panels(part, rows.data, rows.count, 0, static_cast<uint32_t>(begin),
                         static_cast<uint32_t>(end));
  });
}

kernels::Matrix WeightReader::pack_rows(const std::string& name, const Rows& rows) {
  return place_.place(
      {rows.type, rows.count, rows.inputs, name},
      [&](kernels::Matrix& part, uint32_t first) { copy_panels(part, rows.from(first, part)); });
}

// Converts F16 rows of the file to BF16 panels.
void WeightReader::round_panels(kernels::Matrix& part, const Rows& rows) const {
  using kernels::DType;
  const size_t row_bytes = kernels::dtype_bytes(DType::kF16, rows.inputs);  // as of BF16
  options_.pool->parallel_for(part.panels(), 8, [&](size_t begin, size_t end, unsigned) {
    std::vector<float> row(rows.inputs);
    std::vector<std::byte> rounded(kernels::kPanel * row_bytes);
    for (size_t panel = begin; panel < end; ++panel) {
      const auto first = static_cast<uint32_t>(panel) * kernels::kPanel;
      const uint32_t count = std::min(kernels::kPanel, rows.count - first);
      for (uint32_t r = 0; r < count; ++r) {
        kernels::to_f32(DType::kF16, rows.data + (first + r) * row_bytes, rows.inputs, row.data());
        kernels::from_f32(DType::kBF16, row.data(), rows.inputs, rounded.data() + r * row_bytes);
      }
      kernels::pack_panels(part, rounded.data(), count, first, static_cast<uint32_t>(panel),
                           static_cast<uint32_t>(panel) + 1);
    }
  });
}

kernels::Matrix WeightReader::pack_linear(const std::string& name, const Rows& rows) {
  using kernels::DType;
  if (rows.type != DType::kF16 || options_.kernels->matmul_rounded == nullptr)
    return pack_rows(name, rows);
  return place_.place(
      {DType::kBF16, rows.count, rows.inputs, name},
      [&](kernels::Matrix& part, uint32_t first) { round_panels(part, rows.from(first, part)); });
}

void WeightReader::count(const kernels::Matrix& matrix) {
  part_->bytes += matrix.panel_bytes * matrix.panels();
  uint64_t& kind = kernels::pack_format(matrix.dtype).quantised     ? part_->int8
                   : takes_rounded(*options_.kernels, matrix.dtype) ? part_->bf16
                   : kernels::has_prompt_matmul(matrix.dtype)       ? part_->half
                                                                    : part_->f32;
  kind += uint64_t{matrix.rows} * matrix.inputs;
  // A matrix without data is not read in this pass. Experts under expert_bytes may stay on the
  // disk.
  const bool stays = options_.expert_bytes > 0 && part_ == &weights_.experts;
  if (!matrix.data.empty() && !stays)
    matrices_.push_back(
        kernels::matrix_over(matrix.dtype, matrix.rows, matrix.inputs, matrix.data));
}

Result<kernels::Matrix> WeightReader::pack(const std::string& name, Slice outputs, Slice inputs) {
  KVICK_TRY(const io::Tensor* tensor, find(name, {outputs.whole, inputs.whole}));
  return pack_slice(*tensor, 0, outputs, inputs);
}

// A converted tensor's rows are converted all at once; the caller frees them before the next
// tensor.
const std::byte* WeightReader::stored_rows(const io::Tensor& tensor, uint64_t first, uint64_t count,
                                           base::Buffer& converted) const {
  const uint64_t row_bytes = tensor.row_bytes();
  if (tensor.source == nullptr) return tensor.data.data() + first * row_bytes;
  converted = base::Buffer(count * row_bytes);
  options_.pool->parallel_for(count, kConvertedRows, [&](size_t begin, size_t end, unsigned) {
    tensor.read_rows(first + begin, end - begin, converted.data() + begin * row_bytes);
  });
  return converted.data();
}

Result<kernels::Matrix> WeightReader::pack_slice(const io::Tensor& tensor, uint64_t first_row,
                                                 Slice outputs, Slice inputs) {
  KVICK_TRY_VOID(check_inputs(tensor.name, inputs.size));
  const kernels::DType type = tensor.dtype;
  const size_t row_bytes = kernels::dtype_bytes(type, inputs.whole);
  const bool reads = place_.packs();
  base::Buffer converted;
  const std::byte* source =
      reads ? stored_rows(tensor, first_row + outputs.first, outputs.size, converted) : nullptr;
  std::vector<std::byte> parts;  // the slice's inputs of each row, one row after another
  if (!inputs.all()) {
    const uint32_t block = kernels::dtype_info(type).block;
    if (inputs.first % block != 0 || inputs.size % block != 0)
      return fail(
          "{}: tensor {} is {}, in blocks of {} inputs, but a rank would have those from {} to {}; "
          "start fewer ranks",
          file_.path(), tensor.name, kernels::dtype_info(type).name, block, inputs.first,
          inputs.first + inputs.size);
    const size_t first = kernels::dtype_bytes(type, inputs.first);
    const size_t bytes = kernels::dtype_bytes(type, inputs.size);
    if (reads) parts.resize(outputs.size * bytes);
    for (size_t row = 0; reads && row < outputs.size; ++row)
      std::copy_n(source + row * row_bytes + first, bytes, parts.data() + row * bytes);
    source = parts.data();
  }
  if (reads)
    KVICK_TRY_VOID(check_scales(file_.path(), tensor,
                                {source, outputs.size * kernels::dtype_bytes(type, inputs.size)},
                                *options_.pool));
  const std::string part = fmt::format("{} {}+{} {}+{}", tensor.name, first_row + outputs.first,
                                       outputs.size, inputs.first, inputs.size);
  kernels::Matrix matrix = pack_linear(
      part, {.type = type, .inputs = inputs.size, .data = source, .count = outputs.size});
  count(matrix);
  if (reads) file_.drop_pages(tensor);
  advance(outputs.size * row_bytes);
  return matrix;
}

Result<Linear> WeightReader::row(const std::string& name, uint32_t inputs) {
  const std::string full = name + ".weight";
  const io::Tensor* tensor = file_.find(full);
  const bool matrix = tensor != nullptr && tensor->shape.size() == 2;
  std::vector<uint64_t> shape = {inputs};
  if (matrix) shape.insert(shape.begin(), 1);
  KVICK_TRY(tensor, find(full, std::move(shape)));
  Linear linear;
  linear.tensor = full;
  KVICK_TRY(linear.w, pack_slice(*tensor, 0, 1, inputs));
  return linear;
}

Result<uint32_t> WeightReader::rows_of(const std::string& name) const {
  const io::Tensor* const tensor = file_.find(name);
  if (tensor == nullptr || tensor->shape.size() != 2 || tensor->shape[0] == 0 ||
      tensor->shape[0] > UINT32_MAX)
    return fail("{}: tensor {} is missing or not a matrix", file_.path(), name);
  return static_cast<uint32_t>(tensor->shape[0]);
}

Result<std::vector<Linear>> WeightReader::experts(const std::string& name,
                                                  const ExpertsConfig& config, Slice outputs,
                                                  Slice inputs, Bias bias) {
  part_ = &weights_.experts;
  weights_.expert_count = config.count, weights_.experts_used = config.used;
  std::vector<Linear> experts(config.count);
  const bool together = has(name + "_exps.weight");
  const io::Tensor* tensor = nullptr;
  if (together) {
    KVICK_TRY(tensor, find(name + "_exps.weight", {config.count, outputs.whole, inputs.whole}));
  }
  for (uint32_t e = 0; e < config.count; ++e) {
    if (!together) {
      KVICK_TRY(experts[e], linear(fmt::format("{}.{}", name, e), outputs, inputs, bias));
      experts[e].tensor = name + "_exps.weight", experts[e].expert = e;
      continue;
    }
    experts[e].tensor = tensor->name, experts[e].expert = e;
    const uint64_t first = uint64_t{e} * outputs.whole;
    KVICK_TRY(experts[e].w, pack_slice(*tensor, first, outputs, inputs));
  }
  const std::string bias_name = name + "_exps.bias";
  if (together && bias == Bias::kOptional && has(bias_name)) {
    KVICK_TRY(const io::Tensor* biases, find(bias_name, {config.count, outputs.whole}));
    const std::vector<float> all = floats(*biases);
    for (uint32_t e = 0; e < config.count; ++e) {
      const auto first = all.begin() + e * outputs.whole + outputs.first;
      experts[e].bias.assign(first, first + outputs.size);
    }
    part_->bytes += uint64_t{config.count} * outputs.size * sizeof(float);
  }
  part_ = &weights_.layers;
  return experts;
}

Result<std::vector<Linear>> WeightReader::heads(const std::string& name, uint32_t heads,
                                                uint32_t outputs, uint32_t inputs) {
  KVICK_TRY(const io::Tensor* tensor, find(name + ".weight", {heads, outputs, inputs}));
  std::vector<Linear> linears(heads);
  for (uint32_t head = 0; head < heads; ++head) {
    linears[head].tensor = tensor->name, linears[head].expert = head;
    KVICK_TRY(linears[head].w, pack_slice(*tensor, uint64_t{head} * outputs, outputs, inputs));
  }
  return linears;
}

Result<std::vector<Linear>> WeightReader::part_of_heads(const std::string& name, uint32_t heads,
                                                        Slice rows, uint32_t inputs, Turn turn) {
  const std::string full = name + ".weight";
  KVICK_TRY(const io::Tensor* tensor, find(full, {uint64_t{heads} * rows.whole, inputs}));
  if (turn == Turn::kTransposed) KVICK_TRY_VOID(check_inputs(full + ", transposed,", rows.size));
  std::vector<Linear> linears(heads);
  for (uint32_t head = 0; head < heads; ++head) {
    const uint64_t first = uint64_t{head} * rows.whole;
    if (turn == Turn::kTransposed) {
      linears[head].w = pack_columns(*tensor, first + rows.first, rows.size);
    } else {
      KVICK_TRY(linears[head].w, pack_slice(*tensor, first, rows, inputs));
    }
  }
  return linears;
}

kernels::Matrix WeightReader::pack_columns(const io::Tensor& tensor, uint64_t first_row,
                                           uint32_t rows) {
  using kernels::DType;
  const auto columns = static_cast<uint32_t>(tensor.shape[1]);
  const DType type = kernels::dtype_info(tensor.dtype).block == 1 ? tensor.dtype : DType::kF32;
  const size_t row_bytes = tensor.row_bytes(), turned_bytes = kernels::dtype_bytes(type, rows);
  std::vector<std::byte> turned;
  if (place_.packs()) {
    base::Buffer converted;
    const std::byte* const source = stored_rows(tensor, first_row, rows, converted);
    std::vector<float> row(columns), all(size_t{columns} * rows);
    for (size_t r = 0; r < rows; ++r) {
      kernels::to_f32(tensor.dtype, source + r * row_bytes, columns, row.data());
      for (size_t c = 0; c < columns; ++c) all[c * rows + r] = row[c];
    }
    turned.resize(columns * turned_bytes);
    for (size_t c = 0; c < columns; ++c)
      kernels::from_f32(type, all.data() + c * rows, rows, turned.data() + c * turned_bytes);
  }
  kernels::Matrix matrix =
      pack_linear(fmt::format("{} columns {}+{}", tensor.name, first_row, rows),
                  {.type = type, .inputs = rows, .data = turned.data(), .count = columns});
  count(matrix);
  advance(rows * row_bytes);
  return matrix;
}

Result<std::vector<kernels::Matrix>> WeightReader::keys(const std::string& name, uint32_t heads,
                                                        uint32_t slots, uint32_t inputs) {
  const std::string full = name + ".weight";
  KVICK_TRY(const io::Tensor* tensor, find(full, {uint64_t{heads} * slots, inputs}));
  KVICK_TRY_VOID(check_inputs(full, inputs));
  if (kernels::pack_format(tensor->dtype).quantised)
    return fail("{}: tensor {} is {}; kvick takes F32, F16 or BF16 here", file_.path(), full,
                kernels::dtype_info(tensor->dtype).name);
  std::vector<kernels::Matrix> matrices;
  for (uint32_t head = 0; head < heads; ++head) {
    base::Buffer converted;
    const uint64_t first = uint64_t{head} * slots;
    const std::byte* rows =
        place_.packs() ? stored_rows(*tensor, first, slots, converted) : nullptr;
    const kernels::Matrix& matrix = matrices.emplace_back(
        pack_rows(fmt::format("{} {}+{}", full, first, slots),
                  {.type = tensor->dtype, .inputs = inputs, .data = rows, .count = slots}));
    weights_.key_bytes += matrix.panel_bytes * matrix.panels();
  }
  if (place_.packs()) file_.drop_pages(*tensor);
  advance(tensor->bytes());
  return matrices;
}

std::vector<float> WeightReader::floats(const io::Tensor& tensor) {
  std::vector<float> values(tensor.elements());
  tensor.read_floats(values.data());
  advance(tensor.bytes());
  return values;
}

Result<std::vector<float>> WeightReader::vector(const std::string& name, Slice elements) {
  // llama.cpp's converter keeps the outer dimension of 1 that ERNIE's exp_probs_b has.
  const io::Tensor* tensor = file_.find(name);
  std::vector<uint64_t> shape = {elements.whole};
  if (tensor != nullptr && tensor->shape.size() == 2 && tensor->shape[0] == 1)
    shape.insert(shape.begin(), 1);
  KVICK_TRY(tensor, find(name, std::move(shape)));
  part_->bytes += elements.size * sizeof(float);
  std::vector<float> all = floats(*tensor);
  if (elements.all()) return all;
  const auto first = all.begin() + elements.first;
  return std::vector<float>(first, first + elements.size);
}

Result<std::vector<float>> WeightReader::column(const std::string& name, uint32_t elements) {
  const io::Tensor* const tensor = file_.find(name);
  if (tensor == nullptr || tensor->shape.size() != 2) return vector(name, elements);
  KVICK_TRY(const io::Tensor* found, find(name, {elements, 1}));
  part_->bytes += elements * sizeof(float);
  return floats(*found);
}

Result<std::vector<float>> WeightReader::norm_weight(const std::string& name, Slice elements) {
  // Converters omit the suffix ".weight" of Falcon-H1's ffn_norm.
  const bool bare = has(name) && !has(name + ".weight");
  KVICK_TRY(std::vector<float> weight, vector(bare ? name : name + ".weight", elements));
  if (shifted_norms_)
    for (float& w : weight) w += 1;
  return weight;
}

Result<std::vector<float>> WeightReader::rows(const std::string& name, uint32_t rows,
                                              uint32_t columns) {
  // llama-quantize writes no outer dimension of 1.
  const io::Tensor* const flat = file_.find(name + ".weight");
  if (rows == 1 && flat != nullptr && flat->shape.size() == 1)
    return vector(name + ".weight", columns);
  KVICK_TRY(const io::Tensor* tensor, find(name + ".weight", {rows, columns}));
  return floats(*tensor);
}

Result<Linear> WeightReader::linear(const std::string& name, Slice outputs, Slice inputs,
                                    Bias bias) {
  Linear linear;
  linear.tensor = name + ".weight";
  KVICK_TRY(linear.w, pack(linear.tensor, outputs, inputs));
  const std::string bias_name = name + ".bias";
  if (bias == Bias::kRequired || (bias == Bias::kOptional && has(bias_name))) {
    KVICK_TRY(linear.bias, vector(bias_name, outputs));
  }
  return linear;
}

Result<io::Tensor> WeightReader::table(const std::string& name, uint32_t rows, uint32_t columns) {
  KVICK_TRY(const io::Tensor* tensor, find(name, {rows, columns}));
  weights_.lookup_bytes += tensor->bytes() / rows;
  advance(tensor->bytes());
  return *tensor;
}

base::Result<Linear> WeightReader::some_outputs(const std::string& name, const Config& config) {
  KVICK_TRY(const io::Tensor* tensor, find(name + ".weight", {config.vocab, config.dim}));
  KVICK_TRY_VOID(check_inputs(name + ".weight", config.dim));
  const size_t bytes = kernels::dtype_bytes(tensor->dtype, config.dim);
  std::vector<std::byte> rows(options_.outputs.size() * bytes);
  for (size_t i = 0; i < options_.outputs.size(); ++i) {
    const auto token = static_cast<size_t>(options_.outputs[i]);
    KVICK_CHECK(token < config.vocab, "output {} of {}", token, config.vocab);
    tensor->read_rows(token, 1, rows.data() + i * bytes);
  }
  KVICK_TRY_VOID(check_scales(file_.path(), *tensor, rows, *options_.pool));
  Linear linear;
  linear.w = pack_linear(fmt::format("{} rows {}", tensor->name, fmt::join(options_.outputs, ",")),
                         {.type = tensor->dtype,
                          .inputs = config.dim,
                          .data = rows.data(),
                          .count = static_cast<uint32_t>(options_.outputs.size())});
  count(linear.w);
  if (has(name + ".bias")) {
    KVICK_TRY(const std::vector<float> bias, vector(name + ".bias", config.vocab));
    for (const Token token : options_.outputs)
      linear.bias.push_back(bias[static_cast<size_t>(token)]);
  }
  return linear;
}

base::Status<> WeightReader::embedding(const Config& config, const Share& share,
                                       Embedding& embedding, Linear& output) {
  part_ = &weights_.output;
  const Slice vocab = share.vocab;
  const bool own = has("output.weight"), some = !options_.outputs.empty();
  KVICK_CHECK(!some || vocab.all(), "{} outputs of one rank", options_.outputs.size());
  if (own || some || !vocab.all() || !share.embeds) {
    const char* const name = own ? "output" : "token_embd";
    if (some) {
      KVICK_TRY(output, some_outputs(name, config));
    } else if (vocab.size > 0) {
      KVICK_TRY(output, linear(name, vocab, config.dim, own ? Bias::kOptional : Bias::kNone));
    }
    if (share.embeds) {
      KVICK_TRY(io::Tensor rows, table("token_embd.weight", config.vocab, config.dim));
      embedding = Embedding(std::move(rows));
    }
  } else {
    KVICK_TRY(output, linear("token_embd", vocab, config.dim, Bias::kNone));
    weights_.lookup_bytes += kernels::dtype_bytes(output.w.dtype, config.dim);
    embedding = Embedding(&output.w);
  }
  part_ = &weights_.layers;
  return base::Done{};
}

}  // namespace kvick::model
