#pragma once
// The Python module's parts without Python: a model, its cache and one sequence. Calls throw
// kvick::Error for a user's mistake.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "extension/batch.h"
#include "kvick/kvick.h"

#include "engine/answer/pool.h"
#include "engine/core/engine.h"
#include "engine/eval/perplexity.h"
#include "engine/eval/speed.h"
#include "engine/session/session.h"

namespace kvick::python {

template <typename T>
T value_or_throw(base::Result<T> result) {
  if (!result.ok()) throw Error(result.error().message);
  return std::move(result).value();
}

// Each text is the value of the option of `kvick run`; empty: its default.
struct OpenOptions {
  std::string path, kv, kv_type, kv_tier, kv_select, spec, prompt_arithmetic;
  uint32_t context = 0;    // limit of a sequence in tokens; 0: the model's
  uint64_t kv_memory = 0;  // limit of keys and values in bytes; 0: the free memory
  unsigned threads = 0;    // 0: all that this process may use
};

// Any thread may call. Calls that compute take turns.
class Model {
 public:
  explicit Model(const OpenOptions& options);

  const engine::Engine& engine() const { return *engine_; }
  const engine::KvOptions& kv() const { return kv_; }
  uint32_t most_tokens() const { return store_->most_tokens(); }

  std::vector<engine::Token> text_prompt(const std::string& text) const;
  // messages: JSON [{"role", "content"}, ...]. variables: a JSON object with further variables for
  // the template.
  std::vector<engine::Token> chat_prompt(const std::string& messages,
                                         const std::string& variables) const;
  std::vector<engine::Token> tokenize(const std::string& text, bool special) const;
  std::string detokenize(const std::vector<engine::Token>& tokens, bool special) const;

  // schema: a JSON Schema for the answer; empty: any text.
  engine::Answer generate(engine::Request request, const std::string& schema,
                          const Between& between);
  // Returns the answers of the jobs, which are computed together, at most `parallel` at once, in a
  // cache of their own. schema: as above, for all answers.
  std::vector<JobEnd> batch(std::vector<engine::Job> jobs, const std::string& schema,
                            uint32_t parallel, const OnEnd& on_end, const Between& between);
  // Returns a vector per text. pooling: last, mean or cls; empty: that of the model's file.
  std::vector<std::vector<float>> embed(const std::vector<std::string>& texts,
                                        const std::string& pooling, engine::EmbeddingForm form,
                                        const Between& between);
  // Returns a score per document, higher if it answers the query better. A model that scores pairs
  // returns its own score. For other models the score is the cosine of the two vectors, with
  // pooling as in embed().
  std::vector<double> scores(const std::string& query, const std::vector<std::string>& documents,
                             const std::string& pooling, const Between& between);
  // rows: [tokens][vocabulary], or [vocabulary] for only the last token.
  void logits(std::span<const engine::Token> tokens, std::span<float> rows, const Between& between);
  engine::Perplexity perplexity(const std::string& text, engine::PerplexityOptions options,
                                const Between& between);
  std::vector<engine::Measurement> bench(std::span<const engine::Case> cases,
                                         engine::SpeedOptions options, const Between& between);

 private:
  class Turn;
  void check_tokens(std::span<const engine::Token> tokens) const;
  std::shared_ptr<const text::Constraint> constraint(const std::string& schema) const;
  engine::EngineThreadOptions thread_options() const;

  std::unique_ptr<engine::Engine> engine_;
  engine::KvOptions kv_;
  engine::SpecOptions spec_;
  std::unique_ptr<kv::Store> store_;
  std::unique_ptr<engine::Session> session_;
  std::timed_mutex turn_;
  std::atomic<std::thread::id> caller_{};  // the thread whose turn it is
};

// Adds the strategies of a plugin to the table. Call it before the first model is opened: the table
// is read without a lock.
void load_plugin(const std::string& file);

}  // namespace kvick::python
