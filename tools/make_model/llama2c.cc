#include "make_model/llama2c.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "make_model/gguf.h"

#include "base/memory.h"

namespace kvick::tools {
namespace {

using kernels::DType;

// Reads values from the front of a file's bytes.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& path) : left_(bytes), path_(path) {}

  base::Result<std::span<const std::byte>> take(uint64_t bytes) {
    if (bytes > left_.size())
      return base::fail("{}: ends {} bytes early", path_, bytes - left_.size());
    const auto part = left_.first(bytes);
    left_ = left_.subspan(bytes);
    return part;
  }
  template <typename T>
  base::Result<T> number() {
    KVICK_TRY(const auto bytes, take(sizeof(T)));
    T value;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  bool empty() const { return left_.empty(); }

 private:
  std::span<const std::byte> left_;
  const std::string& path_;
};

struct Header {
  int32_t dim, ffn, layers, heads, kv_heads, vocab, context;
  bool tied;
};

base::Result<Header> read_header(Reader& reader, const std::string& path) {
  Header h{};
  for (int32_t* field : {&h.dim, &h.ffn, &h.layers, &h.heads, &h.kv_heads, &h.vocab, &h.context}) {
    KVICK_TRY(*field, reader.number<int32_t>());
    const bool negative_vocab = field == &h.vocab && *field < 0;  // it has its own classifier
    if (field == &h.vocab) h.tied = !negative_vocab;
    if (negative_vocab) *field = -*field;
    if (*field < 1 || *field > (1 << 20))
      return base::fail("{}: the header holds {}, which no size can be", path, *field);
  }
  if (h.dim % h.heads != 0 || h.heads % h.kv_heads != 0)
    return base::fail("{}: {} heads and {} KV heads do not divide dim {}", path, h.heads,
                      h.kv_heads, h.dim);
  return h;
}

// The location and the number of a tensor's floats.
struct Stored {
  const std::byte* data;
  uint64_t rows, inputs;
};

// Tensors in llama2.c's order: one kind of tensor over all layers, then the next kind.
struct Checkpoint {
  Header header{};
  std::vector<TensorInfo> tensors;
  std::map<std::string, Stored> stored;
};

base::Status<> add(Checkpoint& c, Reader& reader, std::string name, std::vector<uint64_t> shape) {
  TensorInfo info{std::move(name), "", std::move(shape), DType::kF32};
  KVICK_TRY(const auto bytes, reader.take(tensor_bytes(info)));
  c.stored[info.name] = {bytes.data(), info.rows(), info.inputs()};
  c.tensors.push_back(std::move(info));
  return base::Done{};
}

base::Status<> add_per_layer(Checkpoint& c, Reader& reader, const char* name,
                             std::vector<uint64_t> shape) {
  for (int32_t i = 0; i < c.header.layers; ++i)
    KVICK_TRY_VOID(add(c, reader, fmt::format("blk.{}.{}.weight", i, name), shape));
  return base::Done{};
}

base::Result<Checkpoint> read_checkpoint(std::span<const std::byte> bytes,
                                         const std::string& path) {
  Reader reader(bytes, path);
  Checkpoint c;
  KVICK_TRY(c.header, read_header(reader, path));
  const uint64_t dim = c.header.dim, ffn = c.header.ffn, vocab = c.header.vocab;
  const uint64_t head_dim = dim / c.header.heads, kv_dim = head_dim * c.header.kv_heads;
  KVICK_TRY_VOID(add(c, reader, "token_embd.weight", {vocab, dim}));
  KVICK_TRY_VOID(add_per_layer(c, reader, "attn_norm", {dim}));
  // llama2.c rotates pairs (2i, 2i+1), as GGUF's llama does, so rows keep their order.
  KVICK_TRY_VOID(add_per_layer(c, reader, "attn_q", {dim, dim}));
  KVICK_TRY_VOID(add_per_layer(c, reader, "attn_k", {kv_dim, dim}));
  KVICK_TRY_VOID(add_per_layer(c, reader, "attn_v", {kv_dim, dim}));
  KVICK_TRY_VOID(add_per_layer(c, reader, "attn_output", {dim, dim}));
  KVICK_TRY_VOID(add_per_layer(c, reader, "ffn_norm", {dim}));
  KVICK_TRY_VOID(add_per_layer(c, reader, "ffn_gate", {ffn, dim}));
  KVICK_TRY_VOID(add_per_layer(c, reader, "ffn_down", {dim, ffn}));
  KVICK_TRY_VOID(add_per_layer(c, reader, "ffn_up", {ffn, dim}));
  KVICK_TRY_VOID(add(c, reader, "output_norm.weight", {dim}));
  // Skips tables of cosines and sines, which every reader computes itself.
  KVICK_TRY_VOID(reader.take(uint64_t(c.header.context) * head_dim * sizeof(float)));
  if (!c.header.tied) KVICK_TRY_VOID(add(c, reader, "output.weight", {vocab, dim}));
  if (!reader.empty()) return base::fail("{}: is longer than its header says", path);
  return c;
}

// Widens the feed-forward layer with zeros: kvick's matrices have rows of whole groups of 32
// inputs, but stories260K has 172. Values that stay zero through silu(gate) * up change nothing.
void pad_ffn(Checkpoint& c) {
  constexpr int32_t kGroup = 32;
  const auto before = static_cast<uint64_t>(c.header.ffn);
  c.header.ffn = (c.header.ffn + kGroup - 1) / kGroup * kGroup;
  for (TensorInfo& tensor : c.tensors) {
    if (tensor.name.find(".ffn_") == std::string::npos || tensor.shape.size() != 2) continue;
    uint64_t& side = tensor.name.ends_with("ffn_down.weight") ? tensor.shape[1] : tensor.shape[0];
    KVICK_CHECK_EQ(side, before);
    side = static_cast<uint64_t>(c.header.ffn);
  }
}

void copy_row(const Stored& from, const TensorInfo& to, uint64_t row, float* out) {
  std::fill_n(out, to.inputs(), 0.0f);
  if (row >= from.rows) return;
  const uint64_t bytes = from.inputs * sizeof(float);
  std::memcpy(out, from.data + row * bytes, bytes);
}

TokenType token_type(int32_t id, std::string_view piece) {
  if (id == 0) return kUnknownToken;
  if (id <= 2) return kControlToken;
  return piece.size() == 6 && piece.starts_with("<0x") && piece.back() == '>' ? kByteToken
                                                                              : kNormalToken;
}

// Returns a piece as SentencePiece writes it. llama2.c writes spaces as they are and puts newlines
// around <s> and </s>.
std::string as_sentence_piece(int32_t id, std::string_view piece) {
  if (id == 1) return "<s>";
  if (id == 2) return "</s>";
  std::string out;
  for (const char c : piece) {
    if (c == ' ')
      out += "\u2581";
    else
      out += c;
  }
  return out;
}

base::Result<MadeVocabulary> read_tokenizer(std::span<const std::byte> bytes,
                                            const std::string& path, int32_t vocab) {
  Reader reader(bytes, path);
  MadeVocabulary v{.model = "llama", .pre = "default", .bos = 1, .eos = 2, .add_bos = true};
  KVICK_TRY([[maybe_unused]] const int32_t longest, reader.number<int32_t>());
  for (int32_t id = 0; id < vocab; ++id) {
    KVICK_TRY(const float score, reader.number<float>());
    KVICK_TRY(const int32_t length, reader.number<int32_t>());
    if (length < 0) return base::fail("{}: token {} has {} bytes", path, id, length);
    KVICK_TRY(const auto text, reader.take(static_cast<uint64_t>(length)));
    const std::string_view piece(reinterpret_cast<const char*>(text.data()), text.size());
    v.types.push_back(token_type(id, piece));
    v.pieces.push_back(as_sentence_piece(id, piece));
    v.scores.push_back(score);
  }
  if (!reader.empty()) return base::fail("{}: holds more than {} tokens", path, vocab);
  return v;
}

GgufMetadata metadata_of(const Header& h, const MadeVocabulary& vocabulary) {
  const auto number = [](int32_t value) { return static_cast<uint32_t>(value); };
  GgufMetadata metadata;
  metadata.put("general.architecture", "llama");
  metadata.put("general.name", "llama2.c");
  metadata.put("general.file_type", 0u);
  metadata.put("llama.context_length", number(h.context));
  metadata.put("llama.embedding_length", number(h.dim));
  metadata.put("llama.block_count", number(h.layers));
  metadata.put("llama.feed_forward_length", number(h.ffn));
  metadata.put("llama.attention.head_count", number(h.heads));
  metadata.put("llama.attention.head_count_kv", number(h.kv_heads));
  metadata.put("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  metadata.put("llama.rope.dimension_count", number(h.dim / h.heads));
  metadata.put("llama.rope.freq_base", 10000.0f);
  metadata.put("llama.vocab_size", number(h.vocab));
  put_vocabulary(vocabulary, metadata);
  return metadata;
}

}  // namespace

base::Status<> convert_llama2c(const std::string& checkpoint, const std::string& tokenizer,
                               const std::string& output, base::ThreadPool& pool) {
  KVICK_TRY(const base::MappedFile weights, base::MappedFile::open(checkpoint));
  KVICK_TRY(const base::MappedFile pieces, base::MappedFile::open(tokenizer));
  KVICK_TRY(Checkpoint c, read_checkpoint(weights.bytes(), checkpoint));
  pad_ffn(c);
  KVICK_TRY(const MadeVocabulary vocabulary,
            read_tokenizer(pieces.bytes(), tokenizer, c.header.vocab));
  const RowSource source = [&c](const TensorInfo& tensor, uint64_t row, float* out) {
    copy_row(c.stored.at(tensor.name), tensor, row, out);
  };
  return write_gguf(output, metadata_of(c.header, vocabulary), c.tensors, source, pool);
}

}  // namespace kvick::tools
