#include "quantize/quantize.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "quantize/encode.h"
#include "quantize/output_file.h"

#include "io/gguf/ggml_types.h"

namespace kvick::quantize {
namespace {

using base::fail;
using kernels::DType;

constexpr uint32_t kQuantisationVersion = 2;  // of GGML's blocks
constexpr uint64_t kPieceBytes = 4 << 20;

// Returns whether the pattern, in which * matches any text, matches the whole name.
bool matches(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (size_t at = star; at <= name.size(); ++at)
    if (matches(rest, name.substr(at))) return true;
  return false;
}

bool is_float(DType type) { return kernels::dtype_info(type).block == 1; }

DType wanted_type(const SourceTensor& tensor, const Options& options, const ModelTraits& traits) {
  for (const auto& [pattern, type] : options.overrides)
    if (matches(pattern, tensor.name)) return fitting_type(type, tensor.inputs());
  // Inference engines read vectors as float32.
  if (!is_quantised(tensor.name, tensor.shape))
    return is_float(tensor.type) ? DType::kF32 : tensor.type;
  return type_of(*options.recipe, tensor.name, tensor.inputs(), traits);
}

uint64_t matrices_of(const SourceTensor& tensor) {
  return std::max<uint64_t>(1, tensor.shape.size() == 3 ? tensor.shape[0] : tensor.parts.size());
}

// Returns whether the importance of any matrix of the tensor is known.
bool knows(const Importance& importance, const SourceTensor& tensor) {
  for (uint64_t m = 0; m < matrices_of(tensor); ++m)
    if (!importance.means(tensor.name, m, tensor.inputs()).empty()) return true;
  return false;
}

// Writes the rows of one tensor, encoded in pieces.
class TensorWriter {
 public:
  TensorWriter(Choice& choice, const Options& options, base::ThreadPool& pool)
      : choice_(choice), tensor_(*choice.tensor), pool_(pool) {
    const uint64_t matrices = matrices_of(tensor_);
    rows_each_ = std::max<uint64_t>(1, tensor_.rows() / matrices);
    if (!choice.weighted) return;
    for (uint64_t m = 0; m < matrices; ++m)
      means_.push_back(options.importance->means(tensor_.name, m, tensor_.inputs()));
  }

  base::Status<> write(OutputFile& file, const std::function<void(uint64_t)>& advance) {
    const uint64_t row_bytes = kernels::dtype_bytes(choice_.type, tensor_.inputs());
    const uint64_t source_bytes = kernels::dtype_bytes(tensor_.type, tensor_.inputs());
    const uint64_t piece = std::max<uint64_t>(1, kPieceBytes / row_bytes);
    std::vector<std::byte> bytes(std::min(piece, tensor_.rows()) * row_bytes);
    for (uint64_t first = 0; first < tensor_.rows(); first += piece) {
      const uint64_t rows = std::min(piece, tensor_.rows() - first);
      encode_rows(first, rows, row_bytes, bytes.data());
      if (!finite_)
        return fail("tensor {} has weights that are not finite: the source is damaged",
                    tensor_.name);
      if (!fits_)
        return fail("tensor {} has weights beyond the largest {}: choose BF16, F32 or blocks",
                    tensor_.name, kernels::dtype_info(choice_.type).name);
      KVICK_TRY_VOID(file.write(std::span(bytes).first(rows * row_bytes)));
      advance(rows * source_bytes);
    }
    return base::Done{};
  }

 private:
  struct Errors {
    double error = 0, squares = 0;
    bool finite = true, fits = true;
  };

  void encode_rows(uint64_t first, uint64_t rows, uint64_t row_bytes, std::byte* out) {
    std::mutex mutex;
    pool_.parallel_for(rows, 1, [&](size_t begin, size_t end, unsigned) {
      Errors errors;
      for (size_t i = begin; i < end; ++i) encode_row(first + i, out + i * row_bytes, errors);
      const std::lock_guard lock(mutex);
      choice_.error += errors.error;
      choice_.squares += errors.squares;
      finite_ &= errors.finite;
      fits_ &= errors.fits;
    });
  }

  void encode_row(uint64_t row, std::byte* out, Errors& errors) const {
    if (choice_.kept() && tensor_.moves_rows()) return tensor_.read_stored(row, out);
    std::vector<float> values(tensor_.inputs()), again(values.size());
    tensor_.read(row, values.data());
    for (const float value : values) errors.finite &= std::isfinite(value);
    if (!errors.finite) return;
    std::span<const float> importance;
    if (!means_.empty()) importance = means_[row / rows_each_];
    encode(choice_.type, values, importance, out);
    kernels::to_f32(choice_.type, out, again.size(), again.data());
    for (size_t i = 0; i < values.size(); ++i) {
      errors.fits &= std::isfinite(again[i]);
      const double off = again[i] - values[i];
      errors.error += off * off;
      errors.squares += double{values[i]} * values[i];
    }
  }

  Choice& choice_;
  const SourceTensor& tensor_;
  base::ThreadPool& pool_;
  uint64_t rows_each_ = 1;                 // rows per matrix
  std::vector<std::vector<float>> means_;  // [matrices][inputs]
  bool finite_ = true, fits_ = true;
};

std::string header(const Source& source, const Options& options,
                   const std::vector<Choice>& choices) {
  io::GgufMetadata metadata = source.metadata();
  metadata.put("general.file_type", options.recipe->file_type);
  metadata.put("general.quantization_version", kQuantisationVersion);
  std::vector<io::GgufTensor> tensors;
  for (const Choice& choice : choices)
    tensors.push_back({.name = choice.tensor->name,
                       .shape = choice.tensor->shape,
                       .type = io::ggml_of_dtype(choice.type),
                       .bytes = choice.bytes});
  return io::gguf_header(metadata, tensors, source.alignment());
}

uint64_t source_bytes(const SourceTensor& tensor) {
  return kernels::dtype_bytes(tensor.type, tensor.inputs()) * tensor.rows();
}

auto lacks_importance(const Choice& choice, const Options& options) {
  const auto type = kernels::dtype_info(choice.type).name;
  if (options.importance == nullptr)
    return fail(
        "tensor {} would become {}, which is of use only with an importance file: kvick train "
        "imatrix makes one for --importance; or choose a larger --type",
        choice.tensor->name, type);
  return fail(
      "tensor {} would become {}, which is of use only with its importance, and the importance "
      "file does not have it: kvick train imatrix measures this model; or choose a larger --type",
      choice.tensor->name, type);
}

}  // namespace

base::Result<std::vector<Choice>> choose(const Source& source, const Options& options) {
  ModelTraits traits = source.traits();
  traits.importance = options.importance != nullptr;
  std::vector<Choice> choices;
  for (const SourceTensor& tensor : source.tensors()) {
    Choice choice = {.tensor = &tensor, .type = wanted_type(tensor, options, traits)};
    choice.bytes = kernels::dtype_bytes(choice.type, tensor.inputs()) * tensor.rows();
    choice.weighted = options.importance != nullptr && !is_float(choice.type) &&
                      knows(*options.importance, tensor);
    if (!choice.weighted && !choice.kept() && needs_importance(tensor.name, choice.type))
      return lacks_importance(choice, options);
    choices.push_back(choice);
  }
  for (const auto& one : options.overrides)
    if (std::none_of(choices.begin(), choices.end(),
                     [&](const Choice& c) { return matches(one.first, c.tensor->name); }))
      return fail("--tensor-type {}={}: no tensor of that name; kvick inspect lists them",
                  one.first, kernels::dtype_info(one.second).name);
  return choices;
}

base::Status<> write(const Source& source, const Options& options, std::vector<Choice>& choices,
                     const std::string& to, base::ThreadPool& pool) {
  uint64_t total = 0, done = 0;
  for (const Choice& choice : choices) total += source_bytes(*choice.tensor);
  const std::function<void(uint64_t)> advance = [&](uint64_t bytes) {
    done += bytes;
    if (options.progress) options.progress(done, total);
  };
  KVICK_TRY(OutputFile file, OutputFile::open(to));
  KVICK_TRY_VOID(file.write(header(source, options, choices)));
  for (Choice& choice : choices) {
    KVICK_TRY_VOID(file.pad_to(source.alignment()));
    if (choice.kept() && choice.tensor->as_stored()) {
      KVICK_TRY_VOID(file.write(choice.tensor->parts.front()->data));
      advance(choice.bytes);
    } else {
      KVICK_TRY_VOID(TensorWriter(choice, options, pool).write(file, advance));
    }
    source.drop_pages(*choice.tensor);
  }
  KVICK_TRY_VOID(file.pad_to(source.alignment()));
  return file.finish();
}

}  // namespace kvick::quantize
