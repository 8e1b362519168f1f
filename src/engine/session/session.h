#pragma once
// One growing sequence, of a chat or a one-shot run: takes prompts and generates answers.

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/answer/answer_writer.h"
#include "engine/core/engine.h"
#include "engine/speculation/speculation.h"

namespace kvick::engine {

struct Request {
  std::vector<Token> prompt;  // at least one token
  uint32_t max_tokens = 0;    // 0: until the model ends the answer or the context is full
  Sampling sampling;
  std::vector<std::string> stop;  // text that ends the generation; not part of the answer
  bool continues = false;         // the answer continues the prompt's text: keep its leading space
  bool ignore_end = false;        // continue past the model's end tokens
  bool stop_loops = false;        // as in AnswerForm
  bool special_text = false;      // control tokens appear as their names
  // The form that the answer must have, or null; it is cloned. Excludes ignore_end.
  std::shared_ptr<const text::Constraint> constraint;
  // Gets each piece of the answer as soon as it is certain. Returning false ends the generation.
  std::function<bool(std::string_view)> on_text;
  // Gets the prompt tokens computed so far, and all prompt tokens, after each chunk of the prompt.
  std::function<void(uint32_t done, uint32_t total)> on_prefill;
};

struct Answer {
  std::string text;
  std::vector<Token> tokens;  // generated, without the end token
  Finish finish = Finish::kLength;
  uint32_t prompt_tokens = 0, cached_tokens = 0;  // cached: rows were in the store
  double prefill_s = 0, decode_s = 0;
  uint32_t drafted = 0, accepted = 0;  // draft tokens
  std::string draft_failure;           // what ended drafting early; empty: nothing did
};

class Session {
 public:
  // The store must have been made for this engine's model; both outlive the session.
  Session(Engine& engine, kv::Store& store, base::Clock clock = base::steady_seconds);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Sets how later answers are drafted; at first there are no draft tokens. Errors: those of
  // Speculation::prepare.
  base::Status<> speculate(const SpecOptions& options);

  // Sets the role of later prompts' tokens: Engine::prompt_role() of the store's options. At first
  // it is that of answers.
  void set_prompt_role(model::Role role) { prompt_role_ = role; }

  // Sets the adapter of later prompts and answers. Call it before the first prompt: all rows of the
  // store count as rows of this adapter, so sessions with other adapters must not share the store.
  void use_adapter(AdapterUse adapter) { adapter_ = std::move(adapter); }

  // Answers a prompt. If it begins with the tokens of the earlier prompt and answer, as the next
  // turn of a chat does, it reuses their rows, each in the role that it had; otherwise the sequence
  // starts anew. Errors: a bad sampling value, a prompt that does not fit the context, no room in
  // the store. The session can be used after an error.
  base::Result<Answer> generate(const Request& request);

  // Prompt tokens of one forward. With 512 the activations of models up to 8 B fit into an L2 cache
  // of 2 MiB, and weights are not read from memory more often than necessary.
  static constexpr uint32_t kPrefillChunk = 512;

 private:
  struct Writing;  // an answer while it is generated

  base::Status<> check(const Request& request) const;
  uint32_t reuse(const std::vector<Token>& prompt);
  // Computes tokens of a prompt and commits them; the executor then has the logits of the last one.
  base::Status<> advance(std::span<const Token> tokens, Speculator* speculator);
  base::Error lose();
  base::Status<> prefill(const Request& request, uint32_t from, Speculator* speculator);
  base::Status<> decode(const Request& request, std::unique_ptr<Speculator> speculator,
                        Answer& answer);
  // Shows the speculator the final states of tokens just committed. first: the position of the
  // first one in the sequence; kept: their rows of the step.
  void show(Speculator* speculator, size_t first, std::span<const uint32_t> kept);
  // Extends the answer by one token or more. Returns false if it has ended.
  base::Result<bool> go_on(Writing& writing);
  base::Result<bool> step(Writing& writing, const Drafts& drafts);
  bool take(Writing& writing, WrittenTokens&& written);
  Drafts propose(Writing& writing);

  Engine& engine_;
  kv::Store& store_;
  base::Clock clock_;
  model::Executor executor_;
  kv::SeqId seq_{};
  std::vector<Token> committed_;  // the tokens that have rows
  Speculation speculation_;
  SpecOptions spec_;
  std::exception_ptr draft_failure_;  // of the current answer
  model::Role prompt_role_ = model::Role::kAnswer;
  AdapterUse adapter_;
};

}  // namespace kvick::engine
