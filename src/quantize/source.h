#pragma once
// A model's tensors in the form of a GGUF file. Those of a GGUF file are unchanged. Those of a
// Hugging Face folder change: the experts of a layer become one tensor, rotated rows get GGUF's
// order for the architecture, norms include the 1 that Gemma's folders omit, and the divisors of
// scaled rotary frequencies become tensors.

#include <cstdint>
#include <string>
#include <vector>

#include "quantize/recipe.h"

#include "base/result.h"
#include "io/file/model_file.h"
#include "io/gguf/gguf_writer.h"
#include "kernels/formats/dtype.h"

namespace kvick::quantize {

struct SourceTensor {
  std::string name;
  kernels::DType type{};
  std::vector<uint64_t> shape;           // outermost first
  std::vector<const io::Tensor*> parts;  // one, or one per expert
  std::vector<float> values = {};        // used if there are no parts
  // Numbers of rotated rows and of all rows of a head. The rotated rows are reordered between the
  // pairs (i, i + turned/2) and (2i, 2i+1). 0: rows keep their order.
  uint32_t turned = 0, head_rows = 0;
  bool to_pairs = true;  // reorder to pairs of neighbours (2i, 2i+1)
  // If one stored tensor holds gate and up, [experts][2][outputs][inputs]: which half of each
  // expert's rows this tensor is.
  enum class Half : uint8_t { kNone, kFirst, kSecond } half = Half::kNone;
  bool shifted = false;  // 1 is added to the values

  uint64_t inputs() const { return shape.back(); }
  uint64_t rows() const;
  uint64_t rows_each() const { return rows() / std::max<size_t>(parts.size(), 1); }  // of a part
  // Reads a row as float32 [inputs].
  void read(uint64_t row, float* out) const;
  // Reads a row in the tensor's type. Only if rows are at most reordered (moves_rows).
  void read_stored(uint64_t row, std::byte* out) const;
  bool moves_rows() const {
    return !parts.empty() && !shifted && (shape.size() > 1 || turned == 0);
  }
  // Returns whether the file's bytes can be copied unchanged.
  bool as_stored() const;

 private:
  uint64_t origin(uint64_t row) const;  // the stored row that becomes `row`
};

class Source {
 public:
  // file: must outlive the result. Error: the GGUF form of the folder's architecture is not known.
  static base::Result<Source> make(const io::ModelFile& file);

  const std::vector<SourceTensor>& tensors() const { return tensors_; }
  // Returns the pages of a written tensor to the system.
  void drop_pages(const SourceTensor& tensor) const;
  const ModelTraits& traits() const { return traits_; }
  uint64_t alignment() const { return alignment_; }
  // All metadata pairs except those that describe how weights are stored.
  const io::GgufMetadata& metadata() const { return metadata_; }

 private:
  const io::ModelFile* file_ = nullptr;
  std::vector<SourceTensor> tensors_;
  ModelTraits traits_;
  uint64_t alignment_ = io::kGgufAlignment;
  io::GgufMetadata metadata_;
};

}  // namespace kvick::quantize
