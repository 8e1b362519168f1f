#pragma once
// libkvick: run a language model on this machine's processor, with the cache strategy of your
// choice.
//
//   kvick::Model model = kvick::Model::open({.path = "model.gguf"});
//   std::cout << model.chat({{"user", "What is gravity?"}}).text;

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace kvick {

// One sentence for a person: what is wrong with a file, an option or a prompt, and what to do about
// it.
class Error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Options {
  std::string path;  // a .gguf file or a Hugging Face folder
  // A cache strategy, NAME[:key=value,...], as `kvick run --kv` takes it; empty: the model's
  // default.
  std::string kv;
  std::string
      kv_type;  // of keys and values, as `kvick run --kv-type` takes it; empty: the default, f16
  // A slower tier for keys and values, as `kvick run --kv-tier` takes it; empty: all in memory.
  std::string kv_tier;
  // How tokens are guessed ahead, NAME[:key=value,...], as `kvick run --spec` takes it; empty: not
  // at all. Answers are the same.
  std::string spec;
  std::string kv_select;  // which rows are read, as `kvick run --kv-select` takes it; empty: all
  uint32_t context = 0;   // most tokens of a sequence; 0: the model's
  unsigned threads = 0;   // 0: as many as this process may use
  // scalar, avx2, avx512, avx512_vnni, avx512_bf16 or amx, on AArch64 scalar, neon_dot or
  // neon_i8mm; empty: the best that this processor has
  std::string isa;
};

struct Message {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
};

struct Generation {
  uint32_t max_tokens = 256;  // 0: until the model ends or the context is full
  float temperature = 0.8F;   // 0: greedy
  uint32_t top_k = 40;        // 0: all
  float top_p = 0.95F;
  float min_p = 0;
  float repetition_penalty = 1;
  float presence_penalty = 0, frequency_penalty = 0;
  uint64_t seed = 0;
  std::vector<std::string> stop;
  std::map<int32_t, float> logit_bias;
  // Called with each piece of the answer, always whole UTF-8 characters; false ends the generation.
  std::function<bool(std::string_view)> on_text;
};

struct Answer {
  std::string text;
  std::vector<int32_t> tokens;
  std::string finish_reason;  // "stop", "length" or "cancelled"
  uint32_t prompt_tokens = 0;
  uint32_t cached_tokens = 0;  // of the prompt, not computed again
  double prefill_seconds = 0, decode_seconds = 0;
  uint32_t drafted = 0, accepted = 0;  // tokens guessed ahead, and those that came true
};

// One model with one sequence. Calls throw Error for what a user can do wrong. One thread at a
// time.
class Model {
 public:
  static Model open(const Options& options);
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  // Goes on from a text as it is.
  Answer complete(std::string_view prompt, const Generation& generation = {});
  // Answers as the assistant, by the model's own chat template. Give the whole conversation each
  // time: what it has in common with the last call is not computed again.
  Answer chat(const std::vector<Message>& messages, const Generation& generation = {});

  std::vector<int32_t> tokenize(std::string_view text) const;
  std::string detokenize(const std::vector<int32_t>& tokens) const;

 private:
  struct State;
  explicit Model(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace kvick
