#include "model/matrices/matrix_place.h"

#include <algorithm>

#include "kernels/formats/packed_bytes.h"

namespace kvick::model {
namespace {

// Bytes of rows that are packed before they are written: enough to occupy all threads, and little
// compared with a model.
constexpr size_t kScratchBytes = size_t{32} << 20;

std::string name_of(const MatrixSpec& spec) {
  return fmt::format("{} {} [{}][{}]", spec.name, kernels::dtype_info(spec.type).name, spec.rows,
                     spec.inputs);
}

kernels::Matrix without_data(const MatrixSpec& spec) {
  return kernels::matrix_over(spec.type, spec.rows, spec.inputs, {});
}

}  // namespace

kernels::Matrix InMemory::place(const MatrixSpec& spec, PackRows pack) {
  kernels::Matrix matrix = kernels::make_matrix(spec.type, spec.rows, spec.inputs, &arena_);
  pack(matrix, 0);
  return matrix;
}

kernels::Matrix Listed::place(const MatrixSpec& spec, PackRows) {
  matrices_.push_back(
      {.name = name_of(spec), .bytes = kernels::packed_bytes(spec.type, spec.rows, spec.inputs)});
  return without_data(spec);
}

kernels::Matrix Written::place(const MatrixSpec& spec, PackRows pack) {
  const size_t panel_bytes = kernels::packed_bytes(spec.type, kernels::kPanel, spec.inputs);
  const auto panels = static_cast<uint32_t>(std::max<size_t>(1, kScratchBytes / panel_bytes));
  const uint32_t most = panels * kernels::kPanel;
  for (uint32_t first = 0; first < spec.rows && status_.ok(); first += most) {
    scratch_.reset();
    const uint32_t rows = std::min(most, spec.rows - first);
    kernels::Matrix part = kernels::make_matrix(spec.type, rows, spec.inputs, &scratch_);
    pack(part, first);
    status_ = writer_.append(part.data, pool_);
  }
  return without_data(spec);
}

kernels::Matrix Mapped::place(const MatrixSpec& spec, PackRows) {
  KVICK_CHECK(next_ < listed_.size() && listed_[next_].name == name_of(spec),
              "matrix {} is {}, but {} was listed", next_, name_of(spec),
              next_ < listed_.size() ? listed_[next_].name : "nothing");
  return kernels::matrix_over(spec.type, spec.rows, spec.inputs, file_.matrix(next_++));
}

}  // namespace kvick::model
