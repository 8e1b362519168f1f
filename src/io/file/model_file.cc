#include "io/file/model_file.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "io/file/builder.h"

namespace kvick::io {
namespace {

constexpr size_t kQuotedBytes = 60;

bool starts_as_gguf(std::span<const std::byte> bytes) {
  return bytes.size() >= 4 && std::memcmp(bytes.data(), "GGUF", 4) == 0;
}

bool looks_like_safetensors(const std::string& path, std::span<const std::byte> bytes) {
  return path.ends_with(".safetensors") || (bytes.size() > 8 && bytes[8] == std::byte{'{'});
}

base::Error wrong_type(const std::string& path, std::string_view key, std::string_view wanted) {
  return base::fail("{}: key {} is not {}", path, in_quotes(key), wanted);
}

base::Error missing(const std::string& path, std::string_view key) {
  return base::fail("{}: key {} is missing", path, in_quotes(key));
}

// Some files have one more factor per NVFP4 tensor. Weights without it would be wrong.
base::Status<> check_scales(const ModelFile& file, const std::string& path) {
  constexpr std::string_view kWeight = ".weight";
  for (const Tensor& tensor : file.tensors()) {
    if (tensor.dtype != kernels::DType::kNVFP4 || !tensor.name.ends_with(kWeight)) continue;
    const std::string scale = tensor.name.substr(0, tensor.name.size() - kWeight.size()) + ".scale";
    if (file.find(scale) != nullptr)
      return base::fail(
          "{}: tensor {} is NVFP4 with a factor of its own, {}, which kvick does not "
          "apply: use another type of this model",
          path, in_quotes(tensor.name), in_quotes(scale));
  }
  return base::Done{};
}

}  // namespace

std::string in_quotes(std::string_view text) {
  std::string out = "'";
  for (const char c : text.substr(0, kQuotedBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  if (text.size() > kQuotedBytes) out += "...";
  return out + "'";
}

base::Status<> ModelFileBuilder::add_tensor(Tensor tensor) {
  const auto [at, fresh] = file.index_.emplace(tensor.name, file.tensors_.size());
  if (!fresh) return base::fail("{}: two tensors are named {}", file.path_, in_quotes(tensor.name));
  file.tensors_.push_back(std::move(tensor));
  return base::Done{};
}

base::Status<> ModelFileBuilder::take(ModelFile part) {
  for (Tensor& tensor : part.tensors_) KVICK_TRY_VOID(add_tensor(std::move(tensor)));
  for (base::MappedFile& mapped : part.files_) hold(std::move(mapped));
  add_file_bytes(part.file_bytes_);
  return base::Done{};
}

base::Result<ModelFile> ModelFile::open_for_inspection(const std::string& path) {
  if (std::error_code error; std::filesystem::is_directory(path, error))
    return open_huggingface(path);
  KVICK_TRY(base::MappedFile mapped, base::MappedFile::open(path));
  const auto bytes = mapped.bytes();
  const bool gguf = starts_as_gguf(bytes);
  if (!gguf && !looks_like_safetensors(path, bytes))
    return base::fail(
        "{}: not a model: neither a GGUF file (it does not start with the bytes GGUF), nor a "
        "safetensors file, nor a folder with config.json",
        path);
  KVICK_TRY(ModelFile file, gguf ? parse_gguf(bytes, path) : parse_safetensors(bytes, path));
  file.files_.push_back(std::move(mapped));
  return file;
}

base::Result<ModelFile> ModelFile::open(const std::string& path) {
  KVICK_TRY(ModelFile file, open_for_inspection(path));
  if (file.container() == Container::kSafetensors)
    return base::fail(
        "{}: a safetensors file holds tensors but not what model they make: give its folder, with "
        "config.json in it",
        path);
  KVICK_TRY(const uint64_t parts, file.get_uint("split.count", 1));
  if (parts > 1) {
    KVICK_TRY(file, open_split_gguf(std::move(file), parts));
  }
  KVICK_TRY_VOID(check_scales(file, path));
  return file;
}

const Tensor* ModelFile::find(std::string_view name) const {
  const auto at = index_.find(name);
  return at == index_.end() ? nullptr : &tensors_[at->second];
}

base::Result<uint64_t> ModelFile::get_uint(std::string_view key) const {
  const auto at = metadata_.find(key);
  if (at == metadata_.end()) return missing(path_, key);
  if (const auto* u = std::get_if<uint64_t>(&at->second.data)) return *u;
  if (const auto* i = std::get_if<int64_t>(&at->second.data)) {
    if (*i >= 0) return static_cast<uint64_t>(*i);
    return base::fail("{}: key {} is {}, which must not be negative", path_, in_quotes(key), *i);
  }
  return wrong_type(path_, key, "an integer");
}

base::Result<uint64_t> ModelFile::get_uint(std::string_view key, uint64_t fallback) const {
  return metadata_.contains(key) ? get_uint(key) : fallback;
}

bool ModelFile::is_array(std::string_view key) const {
  const auto at = metadata_.find(key);
  return at != metadata_.end() &&
         std::visit(
             [](const auto& value) {
               return requires { value.size(); }
               &&!std::is_same_v<std::decay_t<decltype(value)>, std::string>;
             },
             at->second.data);
}

base::Result<std::vector<uint64_t>> ModelFile::get_uint_each(std::string_view key,
                                                             size_t count) const {
  if (!is_array(key)) {
    KVICK_TRY(const uint64_t value, get_uint(key));
    return std::vector<uint64_t>(count, value);
  }
  const auto& data = metadata_.find(key)->second.data;
  std::vector<uint64_t> out;
  if (const auto* u = std::get_if<std::vector<uint64_t>>(&data)) {
    out = *u;
  } else if (const auto* b = std::get_if<std::vector<bool>>(&data)) {
    out.assign(b->begin(), b->end());
  } else if (const auto* i = std::get_if<std::vector<int64_t>>(&data)) {
    for (const int64_t value : *i) {
      if (value < 0)
        return base::fail("{}: key {} holds {}, which must not be negative", path_, in_quotes(key),
                          value);
      out.push_back(static_cast<uint64_t>(value));
    }
  } else {
    return wrong_type(path_, key, "an integer, nor an array of them");
  }
  if (out.size() != count)
    return base::fail("{}: key {} holds {} numbers for {} layers", path_, in_quotes(key),
                      out.size(), count);
  return out;
}

base::Result<double> ModelFile::get_float(std::string_view key) const {
  const auto at = metadata_.find(key);
  if (at == metadata_.end()) return missing(path_, key);
  if (const auto* f = std::get_if<double>(&at->second.data)) return *f;
  if (const auto* u = std::get_if<uint64_t>(&at->second.data)) return static_cast<double>(*u);
  if (const auto* i = std::get_if<int64_t>(&at->second.data)) return static_cast<double>(*i);
  return wrong_type(path_, key, "a number");
}

base::Result<double> ModelFile::get_float(std::string_view key, double fallback) const {
  return metadata_.contains(key) ? get_float(key) : fallback;
}

base::Result<bool> ModelFile::get_bool(std::string_view key, bool fallback) const {
  const auto at = metadata_.find(key);
  if (at == metadata_.end()) return fallback;
  if (const auto* b = std::get_if<bool>(&at->second.data)) return *b;
  return wrong_type(path_, key, "a truth value");
}

base::Result<std::string> ModelFile::get_string(std::string_view key) const {
  const auto at = metadata_.find(key);
  if (at == metadata_.end()) return missing(path_, key);
  if (const auto* s = std::get_if<std::string>(&at->second.data)) return *s;
  return wrong_type(path_, key, "a string");
}

base::Result<std::string> ModelFile::get_string(std::string_view key, std::string fallback) const {
  if (metadata_.contains(key)) return get_string(key);
  return fallback;
}

const std::vector<std::string>* ModelFile::get_strings(std::string_view key) const {
  const auto at = metadata_.find(key);
  return at == metadata_.end() ? nullptr : std::get_if<std::vector<std::string>>(&at->second.data);
}

const std::vector<int64_t>* ModelFile::get_ints(std::string_view key) const {
  const auto at = metadata_.find(key);
  return at == metadata_.end() ? nullptr : std::get_if<std::vector<int64_t>>(&at->second.data);
}

const std::vector<float>* ModelFile::get_floats(std::string_view key) const {
  const auto at = metadata_.find(key);
  return at == metadata_.end() ? nullptr : std::get_if<std::vector<float>>(&at->second.data);
}

void ModelFile::drop_bytes(std::span<const std::byte> dropped) const {
  for (const base::MappedFile& file : files_) {
    const auto bytes = file.bytes();
    if (!std::less<>()(dropped.data(), bytes.data()) &&
        std::less<>()(dropped.data(), bytes.data() + bytes.size()))
      return file.drop_pages(dropped);
  }
}

void ModelFile::drop_pages(const Tensor& tensor) const {
  if (tensor.source == nullptr) return drop_bytes(tensor.data);
  for (const std::span<const std::byte> part : tensor.source->parts()) drop_bytes(part);
}

}  // namespace kvick::io
