#include "io/safetensors/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "io/file/builder.h"
#include "io/safetensors/json.h"

namespace kvick::io {
namespace {

using kernels::DType;

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit
constexpr uint64_t kMaxDims = 8;
// Indexed by StoredType.
constexpr std::array<StoredTypeInfo, 15> kTypes = {{{"F32", 4, DType::kF32},
                                                    {"F16", 2, DType::kF16},
                                                    {"BF16", 2, DType::kBF16},
                                                    {"F8_E4M3", 1, std::nullopt},
                                                    {"I8", 1, std::nullopt},
                                                    {"U8", 1, std::nullopt},
                                                    {"I32", 4, std::nullopt},
                                                    {"I64", 8, std::nullopt},
                                                    {"F64", 8, std::nullopt},
                                                    {"F8_E5M2", 1, std::nullopt},
                                                    {"BOOL", 1, std::nullopt},
                                                    {"I16", 2, std::nullopt},
                                                    {"U16", 2, std::nullopt},
                                                    {"U32", 4, std::nullopt},
                                                    {"U64", 8, std::nullopt}}};

base::Error wrong_type(const std::string& label, std::string_view type) {
  return base::fail(
      "{}: 'dtype' is {}, which kvick does not read from safetensors; it reads F32, "
      "F16, BF16, and others where config.json describes how they are quantised",
      label, in_quotes(type));
}

struct Piece {
  StoredTensor tensor;
  uint64_t begin = 0, end = 0;  // from the start of the data
};

base::Status<> read_notes(const Json& element, const std::string& name, Safetensors& out) {
  KVICK_TRY(const JsonObject notes, JsonObject::from(element, name + ": __metadata__"));
  for (const auto& [key, value] : notes.fields()) {
    std::string_view text;
    if (value.get(text) != simdjson::SUCCESS)
      return base::fail("{} must be a string", notes.label(key));
    out.notes.emplace(key, text);
  }
  return base::Done{};
}

base::Status<> read_dtype(const JsonObject& fields, StoredTensor& tensor) {
  KVICK_TRY(const std::string written, fields.get_string("dtype"));
  for (size_t type = 0; type < kTypes.size(); ++type) {
    if (written != kTypes[type].name) continue;
    tensor.type = static_cast<StoredType>(type);
    return base::Done{};
  }
  return wrong_type(fields.name(), written);
}

base::Status<> read_shape(const JsonObject& fields, StoredTensor& tensor, uint64_t& elements) {
  KVICK_TRY(const simdjson::dom::array sizes, fields.get_array("shape"));
  elements = 1;
  for (const Json size : sizes) {
    uint64_t value = 0;
    if (size.get(value) != simdjson::SUCCESS || value == 0)
      return base::fail("{} must hold whole numbers above 0", fields.label("shape"));
    if (tensor.shape.size() == kMaxDims)
      return base::fail("{} has more than {} dimensions", fields.label("shape"), kMaxDims);
    // 2^60 elements have a size in bytes that fits in 64 bits.
    if (__builtin_mul_overflow(elements, value, &elements) || elements > uint64_t{1} << 60)
      return base::fail("{} has more elements than a file can hold", fields.label("shape"));
    tensor.shape.push_back(value);
  }
  return base::Done{};
}

base::Result<Piece> read_piece(std::string_view key, const Json& element, const std::string& name,
                               uint64_t room) {
  KVICK_TRY(const JsonObject fields,
            JsonObject::from(element, name + ": tensor " + in_quotes(key)));
  Piece piece;
  piece.tensor.name = key;
  piece.tensor.label = fields.name();
  KVICK_TRY_VOID(read_dtype(fields, piece.tensor));
  uint64_t elements = 0;
  KVICK_TRY_VOID(read_shape(fields, piece.tensor, elements));
  KVICK_TRY(const simdjson::dom::array offsets, fields.get_array("data_offsets"));
  if (offsets.size() != 2 || offsets.at(0).get(piece.begin) != simdjson::SUCCESS ||
      offsets.at(1).get(piece.end) != simdjson::SUCCESS || piece.begin > piece.end)
    return base::fail("{} must be two whole numbers, the first not above the second",
                      fields.label("data_offsets"));
  if (piece.end > room)
    return base::fail("{} ends at {}, but the file has only {} bytes of data: it is cut off",
                      fields.label("data_offsets"), piece.end, room);
  const uint64_t bytes = elements * stored_type_info(piece.tensor.type).bytes;
  if (piece.end - piece.begin != bytes)
    return base::fail("{} spans {} bytes, but the shape and the dtype make {}",
                      fields.label("data_offsets"), piece.end - piece.begin, bytes);
  return piece;
}

base::Result<uint64_t> header_bytes(std::span<const std::byte> image, const std::string& name) {
  uint64_t bytes = 0;
  if (image.size() < sizeof(bytes))
    return base::fail("{}: {} bytes are too few for a safetensors file", name, image.size());
  std::memcpy(&bytes, image.data(), sizeof(bytes));
  if (bytes > image.size() - sizeof(bytes))
    return base::fail(
        "{}: a header of {} bytes does not fit into the file of {}: it is cut off or "
        "no safetensors file",
        name, bytes, image.size());
  if (bytes > kMaxHeaderBytes)
    return base::fail("{}: the header has {} bytes; at most {} are allowed", name, bytes,
                      kMaxHeaderBytes);
  return bytes;
}

// Checks that the pieces, in order of their bytes, fill the data without gaps or overlaps.
base::Status<> place(std::vector<Piece>& pieces, std::span<const std::byte> image, uint64_t start,
                     const std::string& name) {
  const auto data = image.subspan(start);
  std::ranges::sort(pieces, {},
                    [](const Piece& piece) { return std::pair(piece.begin, piece.end); });
  uint64_t end = 0;
  for (Piece& piece : pieces) {
    if (piece.begin != end)
      return base::fail(
          "{}: tensor {}: 'data_offsets' begins at {}, {} the end of the one before, "
          "{}",
          name, in_quotes(piece.tensor.name), piece.begin, piece.begin < end ? "before" : "behind",
          end);
    end = piece.end;
    piece.tensor.data = data.subspan(piece.begin, piece.end - piece.begin);
    const size_t unit = stored_type_info(piece.tensor.type).bytes;
    if ((start + piece.begin) % unit != 0)
      return base::fail(
          "{}: tensor {} does not begin at a multiple of its elements' {} bytes: "
          "write the file again with a present-day safetensors",
          name, in_quotes(piece.tensor.name), unit);
  }
  if (end != data.size())
    return base::fail("{}: {} bytes follow the last tensor: the file is damaged", name,
                      data.size() - end);
  return base::Done{};
}

}  // namespace

const StoredTypeInfo& stored_type_info(StoredType type) {
  return kTypes[static_cast<size_t>(type)];
}

base::Result<Tensor> plain_tensor(StoredTensor stored) {
  const StoredTypeInfo& info = stored_type_info(stored.type);
  if (!info.dtype) return wrong_type(stored.label, info.name);
  return Tensor{.name = std::move(stored.name),
                .dtype = *info.dtype,
                .shape = std::move(stored.shape),
                .data = stored.data};
}

base::Result<Safetensors> parse_safetensors_image(std::span<const std::byte> image,
                                                  const std::string& name) {
  KVICK_TRY(const uint64_t bytes, header_bytes(image, name));
  const std::string_view header(reinterpret_cast<const char*>(image.data()) + sizeof(bytes), bytes);
  const uint64_t start = sizeof(bytes) + bytes;
  KVICK_TRY(const JsonDocument document,
            JsonDocument::parse(header, name + ": header", kMaxHeaderBytes));
  KVICK_TRY(const JsonObject entries, JsonObject::from(document.root(), name + ": header"));

  Safetensors out;
  std::vector<Piece> pieces;
  std::unordered_set<std::string_view> names;
  for (const auto& [key, value] : entries.fields()) {
    if (!names.insert(key).second)
      return base::fail("{}: two tensors are named {}", name, in_quotes(key));
    if (key == "__metadata__") {
      KVICK_TRY_VOID(read_notes(value, name, out));
      continue;
    }
    KVICK_TRY(Piece piece, read_piece(key, value, name, image.size() - start));
    pieces.push_back(std::move(piece));
  }
  KVICK_TRY_VOID(place(pieces, image, start, name));
  out.tensors.reserve(pieces.size());
  for (Piece& piece : pieces) out.tensors.push_back(std::move(piece.tensor));
  return out;
}

base::Result<ModelFile> ModelFile::parse_safetensors(std::span<const std::byte> image,
                                                     const std::string& name) {
  KVICK_TRY(Safetensors parsed, parse_safetensors_image(image, name));
  ModelFileBuilder builder(Container::kSafetensors, name);
  for (auto& [key, text] : parsed.notes) builder.metadata()[key].data = text;
  for (StoredTensor& stored : parsed.tensors) {
    KVICK_TRY(Tensor tensor, plain_tensor(std::move(stored)));
    KVICK_TRY_VOID(builder.add_tensor(std::move(tensor)));
  }
  builder.add_file_bytes(image.size());
  return builder.finish();
}

}  // namespace kvick::io
