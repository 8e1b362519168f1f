#pragma once
// What types of cache rows cost on one model, as it was measured, in a file beside the model:
// from it --kv-type auto chooses.

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
  std::string type;                // with all its options
  double bytes_per_token = 0;      // of a full window
  double kl_mean = 0, kl_p99 = 0;  // KL(f16 || type) of the next token's distributions, in nats
  double perplexity = 0, top1_agreement = 1;
  bool operator==(const TypeMeasured&) const = default;
};

struct TypesFile {
  ModelIdentity model;
  std::string text;     // the name of the one that was read
  uint64_t tokens = 0;  // predicted, by each type
  uint32_t window = 0;  // tokens of one sequence
  double f16_perplexity = 0;
  std::vector<TypeMeasured> types;
};

// Adds to `file` the types of `before` that it has not. Error: they are not of the same
// measurement, which is the same text as far as its name, its tokens, the window and f16's
// perplexity (within 1 %: processors round otherwise) tell.
base::Status<> keep_others(TypesFile& file, const TypesFile& before);

// Where --kv-type auto looks: NAME.kvt beside NAME.gguf, model.kvt in a folder.
std::string types_path(const std::string& model_path);

// A JSON object: {kvick_kv_types: 1, model: {arch, layers, kv_heads, head_dim, weights}, text,
// tokens, window, f16_perplexity, types: [{type, bytes_per_token, kl_mean, kl_p99, perplexity,
// top1_agreement}], checksum}. A perplexity or divergence that is infinite or no number is null,
// and infinite when it is read.
std::string types_text(const TypesFile& file);
// The inverse. Errors: what is wrong with the text, without its name.
base::Result<TypesFile> parse_types(std::string_view text);

// The file appears whole or not at all. Error: what the system says.
base::Status<> write_types(const std::string& path, const TypesFile& file);
// For this model. Errors, all naming the file: it cannot be read, is damaged, or is another
// model's.
base::Result<TypesFile> read_types(const std::string& path, const ModelIdentity& model);

// Reads each file once, whoever asks: what requests choose by does not change while a server runs.
class TypesFiles {
 public:
  // Any thread. Errors are read_types's, and are asked for again.
  base::Result<std::shared_ptr<const TypesFile>> read(const std::string& path,
                                                      const ModelIdentity& model);

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const TypesFile>> files_;
};

}  // namespace kvick::engine
