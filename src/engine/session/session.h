#pragma once
// One sequence that grows: prompts in, tokens out. What a chat or a one-shot run holds.

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
  uint32_t max_tokens = 0;    // 0: until the model ends or the context is full, if ever
  Sampling sampling;
  std::vector<std::string> stop;  // text that ends the generation; not part of the answer
  bool continues = false;         // the answer goes on the prompt's text: its leading space is kept
  bool ignore_end = false;        // go on past the model's end tokens
  bool stop_loops = false;        // as in AnswerForm
  bool special_text = false;      // control tokens give their names
  // What the answer has to be, or null; cloned. Not together with ignore_end.
  std::shared_ptr<const text::Constraint> constraint;
  // Each piece of the answer as soon as it is certain; false ends the generation.
  std::function<bool(std::string_view)> on_text;
  // Prompt tokens done and in all, while the prompt is read.
  std::function<void(uint32_t done, uint32_t total)> on_prefill;
};

struct Answer {
  std::string text;
  std::vector<Token> tokens;  // generated, without the end token
  Finish finish = Finish::kLength;
  uint32_t prompt_tokens = 0, cached_tokens = 0;  // of the prompt, rows that were here already
  double prefill_s = 0, decode_s = 0;
  uint32_t drafted = 0, accepted = 0;  // speculative tokens
};

class Session {
 public:
  // The store must have been made for this engine's model; both outlive the session.
  Session(Engine& engine, kv::Store& store, base::Clock clock = base::steady_seconds);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // How later answers are drafted ahead; at first they are not. Errors: those of
  // Speculation::prepare.
  base::Status<> speculate(const SpecOptions& options);

  // The role of later prompts' tokens: Engine::prompt_role of the store's options. At first that of
  // answers.
  void set_prompt_role(model::Role role) { prompt_role_ = role; }

  // What later prompts and answers are computed with. Before the first prompt: the store's rows are
  // taken for those of this adapter, so it must not be shared with sessions of others.
  void use_adapter(AdapterUse adapter) { adapter_ = std::move(adapter); }

  // Answers a prompt. Rows of an earlier prompt and answer are used again if the new prompt begins
  // with their tokens, as the next turn of a chat does, each in the role that it had; otherwise the
  // sequence starts anew. Errors:
  // a bad sampling value, a prompt that does not fit the context, no room in the store. After an
  // error the session can be used on.
  base::Result<Answer> generate(const Request& request);

  // Tokens of prompt processed in one forward. 512 keeps activations of models up to 8 B in a 2 MiB
  // L2 and is past the point where weights are read from memory more often than they need to be.
  static constexpr uint32_t kPrefillChunk = 512;

 private:
  struct Writing;  // an answer as it grows

  base::Status<> check(const Request& request) const;
  uint32_t reuse(const std::vector<Token>& prompt);
  // Runs tokens of a prompt through the model and commits them; the executor then has the logits of
  // the last.
  base::Status<> advance(std::span<const Token> tokens, Speculator* speculator);
  base::Error lose();
  base::Status<> prefill(const Request& request, uint32_t from, Speculator* speculator);
  base::Status<> decode(const Request& request, std::unique_ptr<Speculator> speculator,
                        Answer& answer);
  // Shows the speculator the final states of tokens just committed. first: their first position in
  // the sequence; kept: which rows of the step they were.
  void show(Speculator* speculator, size_t first, std::span<const uint32_t> kept) const;
  // Takes the answer on from its last token, by one token or more; false: it has ended.
  base::Result<bool> go_on(Writing& writing);
  base::Result<bool> step(Writing& writing, const Drafts& drafts);
  bool take(Writing& writing, WrittenTokens&& written);
  Drafts propose(const Writing& writing);

  Engine& engine_;
  kv::Store& store_;
  base::Clock clock_;
  model::Executor executor_;
  kv::SeqId seq_{};
  std::vector<Token> committed_;  // what the sequence's rows hold
  Speculation speculation_;
  SpecOptions spec_;
  model::Role prompt_role_ = model::Role::kAnswer;
  AdapterUse adapter_;
};

}  // namespace kvick::engine
