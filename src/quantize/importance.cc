#include "quantize/importance.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>

#include "quantize/importance_dat.h"

#include "base/memory.h"
#include "base/text_file.h"
#include "io/file/model_file.h"
#include "io/gguf/gguf_writer.h"

namespace kvick::quantize {
namespace {

using base::fail;

constexpr std::string_view kSquares = ".in_sum2", kTokens = ".counts";

base::Result<std::vector<float>> floats(const io::ModelFile& file, const io::Tensor& tensor) {
  if (tensor.dtype != kernels::DType::kF32)
    return fail("{}: tensor {} is not F32", file.path(), tensor.name);
  std::vector<float> values(tensor.elements());
  if (!values.empty()) std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  for (const float value : values)
    if (!std::isfinite(value) || value < 0)
      return fail("{}: tensor {} holds {}; sums of squares are finite and not negative",
                  file.path(), tensor.name, value);
  return values;
}

auto cannot_read(const std::string& path) {
  return fail("cannot read {}: {}", path, std::strerror(errno));
}

base::Result<bool> begins_as_gguf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return cannot_read(path);
  char first[4] = {};
  in.read(first, sizeof(first));
  return std::string_view(first, sizeof(first)) == "GGUF";
}

}  // namespace

std::vector<float> Importance::means(std::string_view tensor, uint64_t matrix,
                                     uint64_t inputs) const {
  const auto at = tensors.find(tensor);
  if (at == tensors.end()) return {};
  const Sums& sums = at->second;
  if (inputs == 0 || sums.squares.size() % inputs != 0) return {};
  const uint64_t matrices = sums.squares.size() / inputs;
  if (matrix >= matrices || (!sums.one_count && matrices != sums.tokens.size())) return {};
  const float tokens = sums.tokens[sums.one_count ? 0 : matrix];
  if (tokens <= 0) return {};
  std::vector<float> means(inputs);
  float most = 0;
  for (uint64_t i = 0; i < inputs; ++i) {
    means[i] = sums.squares[matrix * inputs + i] / tokens;
    most = std::max(most, means[i]);
  }
  return most > 0 ? means : std::vector<float>{};
}

base::Result<Importance> read_importance(const std::string& path) {
  KVICK_TRY(const bool newer, begins_as_gguf(path));
  if (!newer) {
    KVICK_TRY(const base::MappedFile mapped, base::MappedFile::open(path));
    return parse_importance_dat(mapped.bytes(), path);
  }
  KVICK_TRY(const io::ModelFile file, io::ModelFile::open_for_inspection(path));
  const auto type = file.get_string("general.type", std::string());
  if (!type.ok() || *type != "imatrix")
    return fail(
        "{}: not an importance file (general.type is not \"imatrix\"): kvick train imatrix "
        "makes one",
        path);
  Importance importance;
  if (const auto* texts = file.get_strings("imatrix.datasets"); texts != nullptr && !texts->empty())
    importance.text = texts->front();
  for (const io::Tensor& tensor : file.tensors()) {
    if (!tensor.name.ends_with(kSquares)) continue;
    const std::string name = tensor.name.substr(0, tensor.name.size() - kSquares.size());
    const io::Tensor* counts = file.find(name + std::string(kTokens));
    if (counts == nullptr)
      return fail("{}: tensor {} comes without {}{}", path, tensor.name, name, kTokens);
    Importance::Sums sums;
    KVICK_TRY(sums.squares, floats(file, tensor));
    KVICK_TRY(sums.tokens, floats(file, *counts));
    if (sums.tokens.empty() || sums.squares.size() % sums.tokens.size() != 0)
      return fail("{}: tensor {} has {} sums for {} matrices", path, tensor.name,
                  sums.squares.size(), sums.tokens.size());
    importance.tensors.emplace(name, std::move(sums));
  }
  if (importance.tensors.empty()) return fail("{}: an importance file of no tensor", path);
  return importance;
}

base::Status<> write_importance(const Importance& importance, const std::string& path) {
  io::GgufMetadata metadata;
  metadata.put("general.type", "imatrix");
  const std::vector<std::string> texts = {importance.text};
  metadata.put("imatrix.datasets", std::span(texts));
  metadata.put("imatrix.chunk_count", importance.chunks);
  metadata.put("imatrix.chunk_size", importance.chunk_tokens);
  std::vector<io::GgufTensor> tensors;
  for (const auto& [name, sums] : importance.tensors) {
    const uint64_t matrices = sums.tokens.size();
    const auto add = [&, &tensor = name](std::string_view suffix, uint64_t each) {
      tensors.push_back({.name = tensor + std::string(suffix),
                         .shape = {matrices, each},
                         .type = 0,
                         .bytes = matrices * each * sizeof(float)});
    };
    add(kSquares, sums.squares.size() / matrices);
    add(kTokens, 1);
  }
  std::string bytes = io::gguf_header(metadata, tensors);
  const auto append = [&bytes](const std::vector<float>& values) {
    bytes.resize((bytes.size() + io::kGgufAlignment - 1) / io::kGgufAlignment * io::kGgufAlignment);
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  };
  for (const auto& [name, sums] : importance.tensors) {
    append(sums.squares);
    append(sums.tokens);
  }
  bytes.resize((bytes.size() + io::kGgufAlignment - 1) / io::kGgufAlignment * io::kGgufAlignment);
  return base::write_file(path, bytes);
}

}  // namespace kvick::quantize
