#pragma once
// Measured losses of types of cache rows on one model, in a file beside the model; --kv-type auto
// chooses by it.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/artifacts/identity.h"

namespace kvick::engine {

struct TypeMeasured {
  std::string type;                // the type with all its options
  double bytes_per_token = 0;      // of a full window
  double kl_mean = 0, kl_p99 = 0;  // KL(f16 || type) of the next token's distributions, in nats
  double perplexity = 0, top1_agreement = 1;
  bool operator==(const TypeMeasured&) const = default;
};

struct TypesFile {
  ModelIdentity model;
  std::string text;     // name of the text that was read
  uint64_t tokens = 0;  // tokens predicted with each type
  uint32_t window = 0;  // tokens of one sequence
  double f16_perplexity = 0;
  std::vector<TypeMeasured> types;
};

// Adds the types of `before` that `file` lacks. Error: the two are not of the same measurement. It
// counts as the same if the text's name, its tokens, the window and f16's perplexity (within 1 %,
// since processors round differently) agree.
base::Status<> keep_others(TypesFile& file, const TypesFile& before);

// Where --kv-type auto looks: NAME.kvt beside NAME.gguf, model.kvt in a folder.
std::string types_path(const std::string& model_path);

// A JSON object: {kvick_kv_types: 1, model: {arch, layers, kv_heads, head_dim, weights}, text,
// tokens, window, f16_perplexity, types: [{type, bytes_per_token, kl_mean, kl_p99, perplexity,
// top1_agreement}], checksum}. A perplexity or divergence that is not finite is written as null and
// read as infinity.
std::string types_text(const TypesFile& file);
// The inverse of types_text. Errors say what is wrong, without the file's name.
base::Result<TypesFile> parse_types(std::string_view text);

// Writes the whole file or none. Error: what the system reports.
base::Status<> write_types(const std::string& path, const TypesFile& file);
// Reads the types for this model. Errors, which name the file: it cannot be read, is damaged, or is
// another model's.
base::Result<TypesFile> read_types(const std::string& path, const ModelIdentity& model);

// Reads each file once for all callers, so that the types that requests choose from do not change
// while a server runs.
class TypesFiles {
 public:
  // On any thread. Errors: those of read_types; the next call tries again.
  base::Result<std::shared_ptr<const TypesFile>> read(const std::string& path,
                                                      const ModelIdentity& model);

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const TypesFile>> files_;
};

}  // namespace kvick::engine
