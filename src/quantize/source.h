#pragma once
// A model's tensors in the form of a GGUF file. A GGUF file's own are unchanged. A Hugging Face
// folder's get the experts of a layer in one tensor, rotated rows in GGUF's order for the
// architecture, norms with the 1 that Gemma's folders leave out, and the divisors of scaled rotary
// frequencies as tensors.

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
  // Rotated rows of a head, and all rows of a head. The rotated ones are reordered between the
  // pairs (i, i + turned/2) and (2i, 2i+1). 0: rows keep their order.
  uint32_t turned = 0, head_rows = 0;
  bool to_pairs = true;  // into pairs of neighbours
  // Where one stored tensor has gate and up, [experts][2][outputs][inputs]: which half of each
  // expert's rows this is.
  enum class Half : uint8_t { kNone, kFirst, kSecond } half = Half::kNone;
  bool shifted = false;  // 1 is added

  uint64_t inputs() const { return shape.back(); }
  uint64_t rows() const;
  uint64_t rows_each() const { return rows() / std::max<size_t>(parts.size(), 1); }  // of a part
  // Row `row` as float32 [inputs].
  void read(uint64_t row, float* out) const;
  // The same in the tensor's type, where rows are only moved (moves_rows).
  void read_stored(uint64_t row, std::byte* out) const;
  bool moves_rows() const {
    return !parts.empty() && !shifted && (shape.size() > 1 || turned == 0);
  }
  // Whether the bytes of the file can be copied as they are.
  bool as_stored() const;

 private:
  uint64_t origin(uint64_t row) const;  // the folder's row that becomes `row`
};

class Source {
 public:
  // file outlives it. Errors: a folder of an architecture whose GGUF form is not known.
  static base::Result<Source> make(const io::ModelFile& file);

  const std::vector<SourceTensor>& tensors() const { return tensors_; }
  // Gives pages back to the system, for a tensor that has been written.
  void drop_pages(const SourceTensor& tensor) const;
  const ModelTraits& traits() const { return traits_; }
  uint64_t alignment() const { return alignment_; }
  // All metadata pairs except those about how the weights are stored.
  const io::GgufMetadata& metadata() const { return metadata_; }

 private:
  const io::ModelFile* file_ = nullptr;
  std::vector<SourceTensor> tensors_;
  ModelTraits traits_;
  uint64_t alignment_ = io::kGgufAlignment;
  io::GgufMetadata metadata_;
};

}  // namespace kvick::quantize
