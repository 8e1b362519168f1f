// GGUF, versions 2 and 3, little-endian: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
// Every number in the file is compared with the bytes that exist before it is used.
// Larger than usual because it is one parser, whose checks are best read in the order of the
// format.

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "io/file/builder.h"
#include "io/gguf/ggml_types.h"

namespace kvick::io {
namespace {

static_assert(std::endian::native == std::endian::little, "files are read as they lie in memory");

constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMaxAlignment = 1 << 20;
constexpr uint64_t kMaxKeyBytes = 65535;              // from the specification
constexpr int kMaxDepth = 4;                          // levels of nested arrays
constexpr uint64_t kMaxKeys = 1 << 16;                // files have about 40
constexpr uint64_t kMaxElements = uint64_t{1} << 24;  // in all arrays together; Llama 3 has 0.7 M
constexpr uint32_t kMaxDims = 4;
// The least bytes of a key with its value, and of a tensor's description.
constexpr uint64_t kMinKeyBytes = 8 + 1 + 4 + 1, kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

enum ValueType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64
};
constexpr uint32_t kValueTypes = 13;
// The least bytes of one element, by value type.
constexpr std::array<uint64_t, kValueTypes> kMinBytes = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

class Parser {
 public:
  Parser(std::span<const std::byte> image, const std::string& name)
      : image_(image), name_(name), builder_(Container::kGguf, name) {}

  base::Result<ModelFile> parse() {
    KVICK_TRY_VOID(read_header());
    for (uint64_t i = 0; i < keys_; ++i) KVICK_TRY_VOID(read_key(i));
    KVICK_TRY_VOID(read_alignment());
    builder_.reserve_tensors(tensors_);
    offsets_.reserve(tensors_);
    for (uint64_t i = 0; i < tensors_; ++i) KVICK_TRY_VOID(read_tensor(i));
    KVICK_TRY_VOID(place_tensors());
    KVICK_TRY_VOID(check_rope_order());
    builder_.add_file_bytes(image_.size());
    return builder_.finish();
  }

 private:
  uint64_t left() const { return image_.size() - at_; }

  template <typename T>
  bool get(T& out) {
    if (left() < sizeof(T)) return false;
    std::memcpy(&out, image_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return true;
  }

  bool get_string(std::string& out) {
    uint64_t bytes = 0;
    if (!get(bytes) || bytes > left()) return false;
    out.assign(reinterpret_cast<const char*>(image_.data() + at_), bytes);
    at_ += bytes;
    return true;
  }

  base::Error cut(std::string_view what) const {
    return base::fail("{}: {} does not fit into the file of {} bytes: it is cut off or damaged",
                      name_, what, image_.size());
  }

  base::Status<> read_header();
  base::Status<> read_key(uint64_t number);
  base::Status<> read_value(uint32_t type, Value& out, int depth);
  base::Status<> read_array(Value& out, int depth);
  base::Status<> read_strings(uint64_t count, Value& out);
  base::Status<> read_nested(uint64_t count, Value& out, int depth);
  base::Status<> read_bools(uint64_t count, Value& out);
  void read_u64s(uint64_t count, Value& out);
  template <typename Stored, typename Kept>
  void read_numbers(uint64_t count, Value& out);
  template <typename Stored, typename Kept>
  base::Status<> read_number(Value& out);
  std::string key_label() const { return "key " + in_quotes(key_); }
  base::Status<> read_alignment();
  base::Status<> read_tensor(uint64_t number);
  base::Status<> read_shape(Tensor& tensor);
  base::Result<uint64_t> tensor_bytes(Tensor& tensor, uint32_t type);
  base::Status<> place_tensors();
  base::Status<> check_rope_order() const;

  std::span<const std::byte> image_;
  const std::string& name_;
  ModelFileBuilder builder_;
  uint64_t at_ = 0, keys_ = 0, tensors_ = 0, elements_ = 0, alignment_ = kDefaultAlignment;
  std::string key_;  // the key that is being read
  struct Place {
    uint64_t offset, bytes;
  };
  std::vector<Place> offsets_;  // [tensors] from the start of the data
};

base::Status<> Parser::read_header() {
  std::array<char, 4> magic{};
  uint32_t version = 0;
  if (!get(magic)) return cut("the header");
  if (std::string_view(magic.data(), 4) != "GGUF")
    return base::fail("{}: not a GGUF file: it starts with {}", name_,
                      in_quotes({magic.data(), magic.size()}));
  if (!get(version)) return cut("the header");
  if (version != 0 && (version & 0xffff) == 0)
    return base::fail("{}: a big-endian GGUF file; kvick reads little-endian ones: convert it",
                      name_);
  if (version != 2 && version != 3)
    return base::fail("{}: GGUF version {}; kvick reads versions 2 and 3: convert it again", name_,
                      version);
  if (!get(tensors_) || !get(keys_)) return cut("the header");
  if (keys_ > left() / kMinKeyBytes) return cut(fmt::format("the metadata of {} keys", keys_));
  if (keys_ > kMaxKeys)
    return base::fail("{}: metadata of {} keys; at most {} are read", name_, keys_, kMaxKeys);
  if (tensors_ > left() / kMinTensorBytes)
    return cut(fmt::format("the list of {} tensors", tensors_));
  builder_.set_version(version);
  return base::Done{};
}

base::Status<> Parser::read_key(uint64_t number) {
  key_ = fmt::format("number {}", number);
  std::string key;
  if (!get_string(key)) return cut(key_label());
  if (key.empty() || key.size() > kMaxKeyBytes)
    return base::fail("{}: the name of key {} has {} bytes; 1 to {} are allowed", name_, number,
                      key.size(), kMaxKeyBytes);
  key_ = std::move(key);
  uint32_t type = 0;
  if (!get(type)) return cut(key_label());
  Value value;
  KVICK_TRY_VOID(read_value(type, value, 0));
  if (!builder_.metadata().emplace(key_, std::move(value)).second)
    return base::fail("{}: {} is given twice", name_, key_label());
  return base::Done{};
}

template <typename Stored, typename Kept>
base::Status<> Parser::read_number(Value& out) {
  Stored value{};
  if (!get(value)) return cut(key_label());
  out.data = static_cast<Kept>(value);
  return base::Done{};
}

base::Status<> Parser::read_value(uint32_t type, Value& out, int depth) {
  switch (type) {
    case kU8:
      return read_number<uint8_t, uint64_t>(out);
    case kI8:
      return read_number<int8_t, int64_t>(out);
    case kU16:
      return read_number<uint16_t, uint64_t>(out);
    case kI16:
      return read_number<int16_t, int64_t>(out);
    case kU32:
      return read_number<uint32_t, uint64_t>(out);
    case kI32:
      return read_number<int32_t, int64_t>(out);
    case kF32:
      return read_number<float, double>(out);
    case kU64:
      return read_number<uint64_t, uint64_t>(out);
    case kI64:
      return read_number<int64_t, int64_t>(out);
    case kF64:
      return read_number<double, double>(out);
    case kArray:
      return read_array(out, depth);
    case kBool: {
      KVICK_TRY_VOID(read_bools(1, out));
      out.data = static_cast<bool>(std::get<std::vector<bool>>(out.data).front());
      return base::Done{};
    }
    case kString:
      if (!get_string(out.data.emplace<std::string>())) return cut(key_label());
      return base::Done{};
    default:
      return base::fail("{}: {} has the value type {}; the types are 0 to {}", name_, key_label(),
                        type, kValueTypes - 1);
  }
}

base::Status<> Parser::read_array(Value& out, int depth) {
  uint32_t type = 0;
  uint64_t count = 0;
  if (depth == kMaxDepth)
    return base::fail("{}: {} has arrays nested deeper than {}", name_, key_label(), kMaxDepth);
  if (!get(type) || !get(count)) return cut(key_label());
  if (type >= kValueTypes)
    return base::fail("{}: {} has elements of the value type {}; the types are 0 to {}", name_,
                      key_label(), type, kValueTypes - 1);
  if (count > left() / kMinBytes[type])
    return cut(fmt::format("{}, an array of {} elements,", key_label(), count));
  if (count > kMaxElements - elements_)
    return base::fail("{}: {} brings the metadata's arrays to more than {} elements", name_,
                      key_label(), kMaxElements);
  elements_ += count;
  switch (type) {
    case kU8:
      read_numbers<uint8_t, int64_t>(count, out);
      break;
    case kI8:
      read_numbers<int8_t, int64_t>(count, out);
      break;
    case kU16:
      read_numbers<uint16_t, int64_t>(count, out);
      break;
    case kI16:
      read_numbers<int16_t, int64_t>(count, out);
      break;
    case kU32:
      read_numbers<uint32_t, int64_t>(count, out);
      break;
    case kI32:
      read_numbers<int32_t, int64_t>(count, out);
      break;
    case kI64:
      read_numbers<int64_t, int64_t>(count, out);
      break;
    case kF32:
      read_numbers<float, float>(count, out);
      break;
    case kF64:
      read_numbers<double, double>(count, out);
      break;
    case kU64:
      read_u64s(count, out);
      break;
    case kBool:
      return read_bools(count, out);
    case kString:
      return read_strings(count, out);
    default:
      return read_nested(count, out, depth + 1);
  }
  return base::Done{};
}

// The caller has checked that the file contains these numbers.
template <typename Stored, typename Kept>
void Parser::read_numbers(uint64_t count, Value& out) {
  auto& kept = out.data.emplace<std::vector<Kept>>(count);
  for (Kept& element : kept) {
    Stored value{};
    get(value);
    element = static_cast<Kept>(value);  // NOLINT(bugprone-signed-char-misuse): int8 is a number
  }
}

void Parser::read_u64s(uint64_t count, Value& out) {
  read_numbers<uint64_t, uint64_t>(count, out);
  const auto& wide = std::get<std::vector<uint64_t>>(out.data);
  if (std::ranges::all_of(wide, [](uint64_t value) { return value <= INT64_MAX; }))
    out.data = std::vector<int64_t>(wide.begin(), wide.end());
}

base::Status<> Parser::read_bools(uint64_t count, Value& out) {
  if (count > left()) return cut(key_label());
  auto& kept = out.data.emplace<std::vector<bool>>(count);
  for (uint64_t i = 0; i < count; ++i) {
    uint8_t value = 0;
    get(value);
    if (value > 1)
      return base::fail("{}: {} has the truth value {}, which must be 0 or 1", name_, key_label(),
                        value);
    kept[i] = value != 0;
  }
  return base::Done{};
}

base::Status<> Parser::read_strings(uint64_t count, Value& out) {
  auto& strings = out.data.emplace<std::vector<std::string>>(count);
  for (std::string& text : strings)
    if (!get_string(text))
      return cut(fmt::format("{}, string {} of {},", key_label(), &text - strings.data(), count));
  return base::Done{};
}

base::Status<> Parser::read_nested(uint64_t count, Value& out, int depth) {
  auto& array = out.data.emplace<Array>(count);
  for (Value& element : array) KVICK_TRY_VOID(read_array(element, depth));
  return base::Done{};
}

base::Status<> Parser::read_alignment() {
  const auto at = builder_.metadata().find("general.alignment");
  if (at == builder_.metadata().end()) return base::Done{};
  const auto* value = std::get_if<uint64_t>(&at->second.data);
  if (value == nullptr || *value < 8 || *value > kMaxAlignment || !std::has_single_bit(*value))
    return base::fail("{}: general.alignment must be an unsigned power of two from 8 to {}{}",
                      name_, kMaxAlignment,
                      value != nullptr ? fmt::format(", and is {}", *value) : std::string());
  alignment_ = *value;
  return base::Done{};
}

base::Status<> Parser::read_tensor(uint64_t number) {
  Tensor tensor;
  uint32_t type = 0;
  uint64_t offset = 0;
  if (!get_string(tensor.name)) return cut(fmt::format("the description of tensor {}", number));
  if (tensor.name.empty()) return base::fail("{}: tensor {} has no name", name_, number);
  KVICK_TRY_VOID(read_shape(tensor));
  const std::string label = "tensor " + in_quotes(tensor.name);
  if (!get(type) || !get(offset)) return cut(label);
  KVICK_TRY(const uint64_t bytes, tensor_bytes(tensor, type));
  if (offset % alignment_ != 0)
    return base::fail("{}: {} starts at offset {}, which is no multiple of the alignment {}", name_,
                      label, offset, alignment_);
  offsets_.push_back({offset, bytes});
  return builder_.add_tensor(std::move(tensor));
}

base::Status<> Parser::read_shape(Tensor& tensor) {
  const std::string label = "tensor " + in_quotes(tensor.name);
  uint32_t dims = 0;
  if (!get(dims)) return cut(label);
  if (dims < 1 || dims > kMaxDims)
    return base::fail("{}: {} has {} dimensions; 1 to {} are allowed", name_, label, dims,
                      kMaxDims);
  tensor.shape.resize(dims);
  uint64_t elements = 1;
  for (uint32_t i = 0; i < dims; ++i) {
    uint64_t& size = tensor.shape[dims - 1 - i];  // innermost first in the file
    if (!get(size)) return cut(label);
    if (size == 0) return base::fail("{}: {}: dimension {} is 0", name_, label, i);
    if (__builtin_mul_overflow(elements, size, &elements) || elements > INT64_MAX)
      return base::fail("{}: {} has more elements than a file can hold", name_, label);
  }
  return base::Done{};
}

base::Result<uint64_t> Parser::tensor_bytes(Tensor& tensor, uint32_t type) {
  const auto dtype = dtype_of_ggml(type);
  if (!dtype)
    return base::fail("{}: tensor {} has the type {}, which kvick does not read; it reads {}",
                      name_, in_quotes(tensor.name), ggml_type_name(type), readable_dtypes());
  tensor.dtype = *dtype;
  const kernels::DTypeInfo& info = kernels::dtype_info(*dtype);
  if (tensor.shape.back() % info.block != 0)
    return base::fail("{}: tensor {} has rows of {} elements, no multiple of {}'s block of {}",
                      name_, in_quotes(tensor.name), tensor.shape.back(), info.name, info.block);
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(tensor.elements() / info.block, uint64_t{info.block_bytes}, &bytes))
    return base::fail("{}: tensor {} has more elements than a file can hold", name_,
                      in_quotes(tensor.name));
  return bytes;
}

// Assigns each tensor its bytes. They must be in the file, must not overlap, and must be all that
// follows the header.
base::Status<> Parser::place_tensors() {
  const uint64_t start = round_up(at_, alignment_);
  const uint64_t room = image_.size() > start ? image_.size() - start : 0;
  std::vector<size_t> order(offsets_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](size_t i) { return offsets_[i].offset; });
  uint64_t end = 0;
  for (size_t n = 0; n < order.size(); ++n) {
    Tensor& tensor = builder_.tensors()[order[n]];
    const auto [offset, bytes] = offsets_[order[n]];
    if (offset > room || bytes > room - offset)
      return cut(
          fmt::format("tensor {}, {} bytes at offset {},", in_quotes(tensor.name), bytes, offset));
    if (offset < end)
      return base::fail("{}: tensors {} and {} overlap", name_,
                        in_quotes(builder_.tensors()[order[n - 1]].name), in_quotes(tensor.name));
    end = offset + bytes;
    tensor.data = image_.subspan(start + offset, bytes);
  }
  const uint64_t expected = start + round_up(end, alignment_);
  if (image_.size() > expected)
    return base::fail("{}: {} bytes follow the last tensor: the file is damaged or not only GGUF",
                      name_, image_.size() - expected);
  return base::Done{};
}

base::Status<> Parser::check_rope_order() const {
  const Metadata& metadata = builder_.file.metadata();
  const auto at = metadata.find("kvick.rope.interleaved");
  if (at == metadata.end() || std::holds_alternative<bool>(at->second.data)) return base::Done{};
  return base::fail("{}: key 'kvick.rope.interleaved' is not a truth value", name_);
}

}  // namespace

base::Result<ModelFile> ModelFile::parse_gguf(std::span<const std::byte> image,
                                              const std::string& name) {
  return Parser(image, name).parse();
}

}  // namespace kvick::io
