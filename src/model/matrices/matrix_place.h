#pragma once
// The place of packed matrices: this process's memory, or a file of packed weights. Loading a model
// reads the same matrices in the same order each time. So a first pass can list them, a second can
// write them, and a third can find them in the mapped file.

#include <optional>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/memory.h"
#include "base/thread_pool.h"
#include "io/packed/packed_file.h"
#include "io/packed/packed_writer.h"
#include "kernels/formats/matrix.h"

namespace kvick::model {

// Describes one matrix before it is packed.
struct MatrixSpec {
  kernels::DType type;
  uint32_t rows, inputs;
  std::string name;  // the tensor, and which of its rows and inputs
};

class MatrixPlace {
 public:
  // Packs rows [first, first + part.rows) of the matrix into `part`, which holds only these rows.
  // `first` is a multiple of kernels::kPanel.
  using PackRows = base::FunctionRef<void(kernels::Matrix& part, uint32_t first)>;
  virtual ~MatrixPlace() = default;
  // Whether place() calls `pack`. If not, the tensors' data need not be read.
  virtual bool packs() const = 0;
  virtual kernels::Matrix place(const MatrixSpec& spec, PackRows pack) = 0;
};

// Packs matrices into memory, in huge pages.
class InMemory final : public MatrixPlace {
 public:
  explicit InMemory(base::Arena& arena) : arena_(arena) {}
  bool packs() const override { return true; }
  kernels::Matrix place(const MatrixSpec& spec, PackRows pack) override;

 private:
  base::Arena& arena_;
};

// Lists a model's matrices without packing them. The returned matrices have no data.
class Listed final : public MatrixPlace {
 public:
  bool packs() const override { return false; }
  kernels::Matrix place(const MatrixSpec& spec, PackRows pack) override;
  const std::vector<io::PackedMatrix>& matrices() const { return matrices_; }

 private:
  std::vector<io::PackedMatrix> matrices_;
};

// Writes matrices into a file, some rows at a time. The returned matrices have no data.
class Written final : public MatrixPlace {
 public:
  Written(io::PackedWriter& writer, base::ThreadPool& pool) : writer_(writer), pool_(pool) {}
  // False once a write has failed.
  bool packs() const override { return status_.ok(); }
  kernels::Matrix place(const MatrixSpec& spec, PackRows pack) override;
  const base::Status<>& status() const { return status_; }

 private:
  io::PackedWriter& writer_;
  base::ThreadPool& pool_;
  base::Arena scratch_;
  base::Status<> status_ = base::Done{};
};

// Finds matrices in a mapped file, which must outlive them.
class Mapped final : public MatrixPlace {
 public:
  // listed: the matrices of the file.
  Mapped(const io::PackedFile& file, const std::vector<io::PackedMatrix>& listed)
      : file_(file), listed_(listed) {}
  bool packs() const override { return false; }
  kernels::Matrix place(const MatrixSpec& spec, PackRows pack) override;

 private:
  const io::PackedFile& file_;
  const std::vector<io::PackedMatrix>& listed_;
  size_t next_ = 0;
};

}  // namespace kvick::model
