#include "make_model/dequantise.h"

#include <array>
#include <cstring>
#include <filesystem>

#include "make_model/gguf.h"

#include "base/check.h"
#include "base/memory.h"
#include "io/file/model_file.h"

namespace kvick::tools {
namespace {

using kernels::DType;

constexpr uint32_t kUint32 = 4, kString = 8, kArray = 9;
// Bytes of each value type; 0: strings and arrays say it themselves.
constexpr std::array<uint64_t, 13> kBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
constexpr size_t kHeaderBytes = 24;  // magic, version, number of tensors, number of keys

bool is_float(DType type) { return kernels::dtype_info(type).block == 1; }

// Walks over the metadata of a file that io::ModelFile has found right, as it gives values without
// the types that they were written in.
class Walker {
 public:
  explicit Walker(std::string_view file) : file_(file) { std::memcpy(&count_, &file[16], 8); }

  // Copies all pairs, with general.file_type set to `type` where it is there.
  GgufMetadata metadata(DType type) {
    std::string pairs;
    for (uint64_t i = 0; i < count_; ++i) {
      const size_t begin = at_;
      const std::string_view key = text();
      const auto kind = number<uint32_t>();
      const size_t value = at_;
      skip(kind);
      pairs.append(file_.substr(begin, at_ - begin));
      if (key != "general.file_type" || kind != kUint32) continue;
      const uint32_t file_type = gguf_file_type(type);
      std::memcpy(pairs.data() + pairs.size() - (at_ - value), &file_type, sizeof file_type);
    }
    GgufMetadata result;
    result.put_encoded(pairs, count_);
    return result;
  }

 private:
  template <typename T>
  T number() {
    T value;
    KVICK_CHECK(file_.size() - at_ >= sizeof value, "metadata ends at {}", at_);
    std::memcpy(&value, &file_[at_], sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::string_view text() {
    const auto bytes = number<uint64_t>();
    at_ += bytes;
    return file_.substr(at_ - bytes, bytes);
  }
  void skip(uint32_t kind) {
    if (kind == kString) {
      text();
    } else if (kind == kArray) {
      const auto elements = number<uint32_t>();
      for (auto left = number<uint64_t>(); left > 0; --left) skip(elements);
    } else {
      at_ += kBytes.at(kind);
    }
  }

  std::string_view file_;
  size_t at_ = kHeaderBytes;
  uint64_t count_ = 0;
};

}  // namespace

base::Status<> dequantise_gguf(const std::string& from, DType type, const std::string& to,
                               base::ThreadPool& pool) {
  if (!is_float(type))
    return base::fail("--type {}: weights can be turned into F32, F16 or BF16",
                      kernels::dtype_info(type).name);
  KVICK_TRY(const io::ModelFile model, io::ModelFile::open(from));
  if (model.container() != io::Container::kGguf) return base::fail("{}: not a GGUF file", from);
  std::error_code none;
  if (std::filesystem::equivalent(from, to, none))
    return base::fail("{}: is the file to be read and the one to be written", to);
  KVICK_TRY(const uint64_t alignment, model.get_uint("general.alignment", kGgufAlignment));
  KVICK_TRY(const base::MappedFile mapped, base::MappedFile::open(from));
  const std::string_view bytes(reinterpret_cast<const char*>(mapped.bytes().data()),
                               mapped.bytes().size());
  std::vector<TensorInfo> tensors;
  for (const io::Tensor& tensor : model.tensors())
    tensors.push_back({.name = tensor.name,
                       .hf_name = {},
                       .shape = tensor.shape,
                       .type = is_float(tensor.dtype) ? tensor.dtype : type});
  const RowSource source = [&model](const TensorInfo& info, uint64_t row, float* out) {
    const io::Tensor& tensor = *model.find(info.name);
    std::vector<std::byte> bytes(tensor.row_bytes());
    tensor.read_rows(row, 1, bytes.data());
    kernels::to_f32(tensor.dtype, bytes.data(), info.inputs(), out);
  };
  return write_gguf(to, Walker(bytes).metadata(type), tensors, source, pool, alignment);
}

}  // namespace kvick::tools
