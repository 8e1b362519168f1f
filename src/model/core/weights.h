#pragma once
// Reads a file's tensors into the form that layers compute with.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/file/model_file.h"
#include "kernels/formats/matrix.h"
#include "model/core/model.h"
#include "model/core/share.h"
#include "model/matrices/matrix_place.h"

namespace kvick::model {

// y = W x + bias.
struct Linear {
  kernels::Matrix w;
  std::vector<float> bias;  // [w.rows], or empty
  std::string tensor = {};  // the tensor of w: "blk.0.attn_q.weight"
  uint32_t expert = 0;      // index of the matrix in that tensor
};

// Token vectors by row: from the tied output matrix, or from the file's own tensor, which is not
// copied.
class Embedding {
 public:
  Embedding() = default;
  explicit Embedding(const kernels::Matrix* tied) : tied_(tied) {}
  explicit Embedding(io::Tensor table) : table_(std::move(table)) {}
  void row(uint32_t index, float* out) const;  // [dim]

 private:
  const kernels::Matrix* tied_ = nullptr;
  io::Tensor table_;
};

// Reads tensors with the shapes that the caller expects; every error names the tensor. Returns the
// pages of a tensor to the system once it is repacked, so that loading needs little more memory
// than the packed weights. Reads no data of matrices that the place does not pack.
class WeightReader {
 public:
  WeightReader(const io::ModelFile& file, const LoadOptions& options, MatrixPlace& place);
  WeightReader(const WeightReader&) = delete;
  WeightReader& operator=(const WeightReader&) = delete;

  // Reads `name`.weight, [outputs][inputs], and `name`.bias if the file has it (kRequired: a
  // missing one is an error). Reads only the slices. kElsewhere: another rank adds the bias.
  enum class Bias { kNone, kOptional, kRequired, kElsewhere };
  base::Result<Linear> linear(const std::string& name, Slice outputs, Slice inputs, Bias bias);
  // Reads a linear layer per expert: `name`_exps.weight, [experts][outputs][inputs], and
  // `name`_exps.bias, or one tensor per expert, `name`.<expert>.weight.
  base::Result<std::vector<Linear>> experts(const std::string& name, const ExpertsConfig& config,
                                            Slice outputs, Slice inputs, Bias bias);
  // Reads a linear layer per head: `name`.weight, [heads][outputs][inputs].
  base::Result<std::vector<Linear>> heads(const std::string& name, uint32_t heads, uint32_t outputs,
                                          uint32_t inputs);
  // Does the same from one matrix `name`.weight, [heads * rows.whole][inputs], taking the slice
  // `rows` of each head. kTransposed: the matrices have rows.size inputs, and block types become
  // F32.
  enum class Turn : uint8_t { kAsStored, kTransposed };
  base::Result<std::vector<Linear>> part_of_heads(const std::string& name, uint32_t heads,
                                                  Slice rows, uint32_t inputs, Turn turn);
  // Reads `name`.weight, [inputs], as a linear layer with one output.
  base::Result<Linear> row(const std::string& name, uint32_t inputs);
  base::Result<std::vector<float>> vector(const std::string& name, Slice elements);
  // Reads the tensor `name`, [elements] or [elements][1]: files have both forms.
  base::Result<std::vector<float>> column(const std::string& name, uint32_t elements);
  // Reads `name`.weight of a norm, and adds the 1 that Gemma's Hugging Face files omit.
  base::Result<std::vector<float>> norm_weight(const std::string& name, Slice elements);
  // Reads `name`.weight, [rows][columns], as float32.
  base::Result<std::vector<float>> rows(const std::string& name, uint32_t rows, uint32_t columns);
  // Reads `name`.weight, [heads * slots][inputs], one matrix per head. Attention multiplies with
  // these, so they must be F32, F16 or BF16.
  base::Result<std::vector<kernels::Matrix>> keys(const std::string& name, uint32_t heads,
                                                  uint32_t slots, uint32_t inputs);
  // Reads the input embedding and the output layer, which are tied if the file has no
  // output.weight. The output layer has only the rows of LoadOptions::outputs if given, else those
  // of the share; if these are not all rows, the embedding is read from the file's own tensor. A
  // share may have one of the two, or none.
  base::Status<> embedding(const Config& config, const Share& share, Embedding& embedding,
                           Linear& output);
  // Returns a table of token or position vectors, which is not copied.
  base::Result<io::Tensor> table(const std::string& name, uint32_t rows, uint32_t columns);
  // Returns the number of rows of a matrix.
  base::Result<uint32_t> rows_of(const std::string& name) const;
  bool has(std::string_view name) const { return file_.find(name) != nullptr; }
  const std::string& path() const { return file_.path(); }
  // Sizes of the weights read so far.
  const Weights& weights() const { return weights_; }
  // The matrices of linear layers that are in memory, in the order in which they were read, as
  // views that own no memory.
  std::span<const kernels::Matrix> matrices() const { return matrices_; }

 private:
  base::Result<const io::Tensor*> find(const std::string& name, std::vector<uint64_t> shape);
  base::Result<kernels::Matrix> pack(const std::string& name, Slice outputs, Slice inputs);
  // Packs slices of one matrix of a tensor: the matrix whose rows begin at `first_row`.
  base::Result<kernels::Matrix> pack_slice(const io::Tensor& tensor, uint64_t first_row,
                                           Slice outputs, Slice inputs);
  // Returns rows of a tensor: in the mapped file, or converted into the buffer.
  const std::byte* stored_rows(const io::Tensor& tensor, uint64_t first, uint64_t count,
                               base::Buffer& converted) const;
  // Packs the transpose of some rows of a tensor.
  kernels::Matrix pack_columns(const io::Tensor& tensor, uint64_t first_row, uint32_t rows);
  // Does what linear() does, but only for the rows LoadOptions::outputs.
  base::Result<Linear> some_outputs(const std::string& name, const Config& config);
  base::Status<> check_inputs(const std::string& name, uint32_t inputs) const;
  // Rows in the file's format, one after another.
  struct Rows {
    kernels::DType type;
    uint32_t inputs;
    const std::byte* data;  // null: not read
    uint32_t count;
    Rows from(uint32_t first, const kernels::Matrix& part) const;
  };
  // Packs rows. name: the tensor, and which rows and inputs of it.
  kernels::Matrix pack_rows(const std::string& name, const Rows& rows);
  // Does the same for a linear layer: F16 becomes BF16 if the kernels multiply it as BF16
  // (kernels::rounding_table).
  kernels::Matrix pack_linear(const std::string& name, const Rows& rows);
  void copy_panels(kernels::Matrix& part, const Rows& rows) const;
  void round_panels(kernels::Matrix& part, const Rows& rows) const;
  void count(const kernels::Matrix& matrix);
  std::vector<float> floats(const io::Tensor& tensor);
  void advance(uint64_t bytes);

  const io::ModelFile& file_;
  const LoadOptions& options_;
  MatrixPlace& place_;
  uint64_t done_ = 0, total_ = 0;
  bool shifted_norms_ = false;
  Weights weights_;
  std::vector<kernels::Matrix> matrices_;
  WeightPart* part_ = &weights_.layers;  // the part that counts what is read now
};

}  // namespace kvick::model
