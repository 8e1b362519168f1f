#include "quantize/source.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "quantize/metadata.h"

#include "base/memory.h"
#include "io/gguf/gguf_pairs.h"
#include "model/core/config.h"
#include "model/families/family.h"

namespace kvick::quantize {
namespace {

using base::fail;
using base::Result;

// Reads the numbers that recipes need. Works for architectures that kvick does not run, too.
Result<ModelTraits> traits_of(const io::ModelFile& file) {
  KVICK_TRY(const std::string arch, file.get_string("general.architecture"));
  ModelTraits traits;
  const auto number = [&](const char* key, uint64_t fallback) -> uint64_t {
    if (const auto one = file.get_uint(arch + key, fallback); one.ok()) return *one;
    const auto* each = file.get_ints(arch + key);
    return each == nullptr || each->empty()
               ? fallback
               : static_cast<uint64_t>(*std::max_element(each->begin(), each->end()));
  };
  traits.layers = static_cast<uint32_t>(number(".block_count", 0));
  const uint64_t heads = number(".attention.head_count", 1);
  const uint64_t kv_heads = std::max<uint64_t>(1, number(".attention.head_count_kv", heads));
  traits.queries_each = static_cast<uint32_t>(std::max<uint64_t>(1, heads / kv_heads));
  traits.experts = static_cast<uint32_t>(number(".expert_count", 0));
  traits.tied = file.find("output.weight") == nullptr;
  return traits;
}

SourceTensor stored(const io::Tensor& tensor) {
  return {.name = tensor.name, .type = tensor.dtype, .shape = tensor.shape, .parts = {&tensor}};
}

// A tensor "blk.0.ffn_up.7.weight" is expert 7 of "blk.0.ffn_up_exps.weight".
struct ExpertName {
  std::string whole;
  uint64_t expert = 0;
};
bool split_expert(const std::string& name, ExpertName& out) {
  const size_t last = name.rfind('.');
  if (last == std::string::npos || last == 0) return false;
  const size_t before = name.rfind('.', last - 1);
  if (before == std::string::npos) return false;
  const char *const begin = name.data() + before + 1, *const end = name.data() + last;
  const auto read = std::from_chars(begin, end, out.expert);
  if (read.ec != std::errc() || read.ptr != end || name.find(".ffn_") == std::string::npos)
    return false;
  out.whole = name.substr(0, before) + "_exps" + name.substr(last);
  return true;
}

// Joins the experts of each layer and matrix to one tensor, at the position of the first expert.
Result<std::vector<SourceTensor>> join_experts(const io::ModelFile& file) {
  std::vector<SourceTensor> out;
  std::map<std::string, size_t> at;
  for (const io::Tensor& tensor : file.tensors()) {
    ExpertName name;
    if (!split_expert(tensor.name, name)) {
      out.push_back(stored(tensor));
      continue;
    }
    if (at.emplace(name.whole, out.size()).second) {
      out.push_back(stored(tensor));
      out.back().name = name.whole;
      out.back().parts.clear();
    }
    SourceTensor& whole = out[at[name.whole]];
    if (name.expert >= file.tensors().size())
      return fail("{}: tensor {} is of expert {}, past the last", file.path(), tensor.name,
                  name.expert);
    whole.parts.resize(std::max<size_t>(whole.parts.size(), name.expert + 1));
    whole.parts[name.expert] = &tensor;
  }
  for (const auto& [name, index] : at) {
    SourceTensor& whole = out[index];
    for (const io::Tensor* part : whole.parts)
      if (part == nullptr || part->shape != whole.shape || part->dtype != whole.type)
        return fail("{}: the experts of {} are not all there, or not alike", file.path(), name);
    whole.shape.insert(whole.shape.begin(), whole.parts.size());
  }
  return out;
}

// Splits tensors that hold gate and up of all experts, or of the shared one, into two.
void split_gate_up(std::vector<SourceTensor>& tensors) {
  constexpr std::string_view kBoth = ".ffn_gate_up_";  // "exps" or "shexp" follows
  std::vector<SourceTensor> out;
  for (SourceTensor& tensor : tensors) {
    const size_t at = tensor.name.find(kBoth), dims = tensor.shape.size();
    if (at == std::string::npos || !tensor.name.ends_with(".weight") || dims < 2 ||
        tensor.shape[dims - 2] % 2 != 0) {
      out.push_back(std::move(tensor));
      continue;
    }
    tensor.shape[dims - 2] /= 2;
    for (const bool up : {false, true}) {
      out.push_back(tensor);
      out.back().half = up ? SourceTensor::Half::kSecond : SourceTensor::Half::kFirst;
      out.back().name.replace(at, kBoth.size(), up ? ".ffn_up_" : ".ffn_gate_");
    }
  }
  tensors = std::move(out);
}

// Converts all other differences between a folder and a GGUF file of its architecture.
class Converter {
 public:
  Converter(const io::ModelFile& file, const model::Config& config, const model::Family& family)
      : file_(file),
        config_(config),
        turns_(config.ropes.empty() ? false
                                    : config.ropes.front().interleaved != family.interleaved),
        to_pairs_(family.interleaved),
        shifted_(file.metadata().contains("kvick.norm.shifted")) {}

  base::Status<> convert(SourceTensor& tensor) const {
    const bool plain = tensor.name.ends_with("ssm_norm.weight");  // this norm has no added 1
    if (shifted_ && !plain && tensor.name.ends_with("_norm.weight")) tensor.shifted = true;
    // A matrix with a single row becomes a vector.
    if (tensor.name.find("ffn_gate_inp_shexp") != std::string::npos && tensor.shape.size() == 2)
      tensor.shape.erase(tensor.shape.begin());
    const Part part = part_of(tensor.name);
    if (!turns_ || part.layer >= config_.layer_count()) return base::Done{};
    const model::Rope& rope = config_.rope_of(part.layer);
    if (part.role != Role::kQ && part.role != Role::kK) {
      if (part.role == Role::kQkv && rope.dims > 0)
        return fail(
            "{}: tensor {} would have to be taken apart; kvick cannot write this folder as "
            "GGUF",
            file_.path(), tensor.name);
      return base::Done{};
    }
    tensor.turned = rope.dims;
    tensor.head_rows = config_.layers[part.layer].k_dim;
    tensor.to_pairs = to_pairs_;
    return base::Done{};
  }

  // Adds the divisors of rotary frequencies, which GGUF has as tensors: LongRoPE's, Gemma 4's,
  // Llama 3's.
  void add_factors(std::vector<SourceTensor>& out) const {
    for (const char* name : {"rope_factors_long", "rope_factors_short", "rope_freqs"})
      if (const auto* values = file_.get_floats(std::string("kvick.") + name))
        add_values(std::string(name) + ".weight", *values, out);
    const auto type = file_.get_string(config_.arch + ".rope.scaling.type", std::string());
    if (!type.ok() || *type != "llama3") return;
    const model::Rope& rope = scaled_rope();
    const auto base = file_.get_float(config_.arch + ".rope.freq_base", 10000);
    std::vector<float> divisors;
    for (size_t i = 0; i < rope.frequency.size(); ++i) {
      const double plain =
          std::pow(base.ok() ? *base : 10000.0, -2.0 * static_cast<double>(i) / rope.dims);
      divisors.push_back(static_cast<float>(plain / rope.frequency[i]));
    }
    add_values("rope_freqs.weight", divisors, out);
  }

 private:
  // Returns the rotary embedding that is scaled: that of layers without a window or, where only
  // layers with a window rotate (EXAONE 4, Llama 4), theirs.
  const model::Rope& scaled_rope() const {
    const model::Rope& full = config_.rope_of_full();
    return full.dims == 0 && !config_.ropes.empty() ? config_.ropes.front() : full;
  }

  static void add_values(std::string name, std::vector<float> values,
                         std::vector<SourceTensor>& out) {
    out.push_back({.name = std::move(name),
                   .type = kernels::DType::kF32,
                   .shape = {values.size()},
                   .parts = {},
                   .values = std::move(values)});
  }

  const io::ModelFile& file_;
  const model::Config& config_;
  bool turns_, to_pairs_, shifted_;
};

}  // namespace

uint64_t SourceTensor::rows() const {
  uint64_t rows = 1;
  for (size_t d = 0; d + 1 < shape.size(); ++d) rows *= shape[d];
  return rows;
}

bool SourceTensor::as_stored() const {
  return parts.size() == 1 && parts.front()->source == nullptr && turned == 0 && !shifted &&
         half == Half::kNone;
}

uint64_t SourceTensor::origin(uint64_t row) const {
  if (half != Half::kNone) {
    const uint64_t outputs = shape[shape.size() - 2], other = half == Half::kSecond ? outputs : 0;
    return row / outputs * 2 * outputs + other + row % outputs;
  }
  const uint64_t in_head = turned > 0 ? row % head_rows : 0;
  if (in_head >= turned) return row;
  const uint64_t half = turned / 2;
  const uint64_t from =
      to_pairs ? in_head / 2 + in_head % 2 * half : 2 * (in_head % half) + in_head / half;
  return row - in_head + from;
}

void SourceTensor::read_stored(uint64_t row, std::byte* out) const {
  const bool vector = shape.size() == 1;  // a vector is one row
  parts[row / rows_each()]->read_rows(vector ? 0 : origin(row % rows_each()), 1, out);
}

void SourceTensor::read(uint64_t row, float* out) const {
  if (!values.empty()) {
    std::copy(values.begin(), values.end(), out);
    return;
  }
  const uint64_t width = inputs();
  std::vector<std::byte> stored(kernels::dtype_bytes(type, width));
  read_stored(row, stored.data());
  kernels::to_f32(type, stored.data(), width, out);
  if (shape.size() == 1 && turned > 0) {
    const std::vector<float> before(out, out + width);
    for (uint64_t i = 0; i < width; ++i) out[i] = before[origin(i)];
  }
  if (shifted)
    for (uint64_t i = 0; i < width; ++i) out[i] += 1;
}

void Source::drop_pages(const SourceTensor& tensor) const {
  for (const io::Tensor* part : tensor.parts) file_->drop_pages(*part);
}

Result<Source> Source::make(const io::ModelFile& file) {
  Source source;
  source.file_ = &file;
  KVICK_TRY(source.traits_, traits_of(file));
  if (file.container() == io::Container::kGguf) {
    KVICK_TRY(source.alignment_, file.get_uint("general.alignment", io::kGgufAlignment));
    KVICK_TRY(const base::MappedFile mapped, base::MappedFile::open(file.path()));
    io::copy_pairs(mapped.bytes(),
                   {"general.file_type", "general.quantization_version", "split.no", "split.count",
                    "split.tensors.count"},
                   source.metadata_);
    for (const io::Tensor& tensor : file.tensors()) source.tensors_.push_back(stored(tensor));
    return source;
  }
  KVICK_TRY(const model::Config config, model::read_config(file));
  const model::Family* family = model::find_family(config.arch);
  if (family == nullptr)
    return fail("{}: kvick does not know how GGUF files of the architecture {} are made",
                file.path(), config.arch);
  KVICK_TRY(source.tensors_, join_experts(file));
  split_gate_up(source.tensors_);
  const Converter converter(file, config, *family);
  for (SourceTensor& tensor : source.tensors_) KVICK_TRY_VOID(converter.convert(tensor));
  converter.add_factors(source.tensors_);
  KVICK_TRY_VOID(put_metadata(file.metadata(), source.metadata_));
  return source;
}

}  // namespace kvick::quantize
