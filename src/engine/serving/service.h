#pragma once
// The interface of an engine that answers many requests at once, as servers use it. EngineThread
// and Instances implement it; tests of the server have simpler implementations.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/answer/answer_writer.h"
#include "engine/answer/job_times.h"
#include "engine/answer/pool.h"
#include "engine/core/adapters.h"
#include "engine/core/service_state.h"
#include "engine/options/kv_options.h"
#include "engine/options/spec_options.h"

namespace kvick::engine {

// The next part of one answer of a job.
struct AnswerPiece {
  uint32_t choice = 0;
  std::string text;  // whole UTF-8 characters; may be empty
  // The token that the text came from; none with beams and at the model's end.
  std::optional<Token> token;
  std::vector<TokenReport> tokens;  // if the job asked for them: reports of this piece's tokens
  bool of_prompt = false;           // `tokens` are all of the prompt's, and there is no text
  std::optional<Finish> finish;     // in the choice's last piece
  std::string stop = {};            // with finish: the stop text that ended the choice, if one did
};

// Why a job was not accepted, or could not continue.
struct Refusal {
  enum class Why {
    kInvalid,   // never possible: a bad value
    kTooLong,   // a prompt longer than the context
    kTooLarge,  // needs more memory than there is in all
    kLost,      // its rows are lost: a slower tier of the cache failed
    kFailed,    // the engine failed: no memory, logits that are not finite, a bug
    kBusy,  // not now: the queue is full, the service drains, too many kinds of cache are in use
  };
  Why why = Why::kInvalid;
  std::string message;       // one sentence
  std::string field;         // the Job's field that caused it, if one did: "max_tokens"
  double retry_seconds = 0;  // with kBusy: when to try again; 0: unknown
};

// How a job ended. Tokens generated are summed over its choices.
struct JobOutcome {
  uint32_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
  // The cached tokens that were moved from another position (ReuseOptions::shift).
  uint32_t moved_tokens = 0;
  uint32_t drafted = 0, accepted = 0;  // speculative tokens
  std::optional<Refusal> error;  // why it could not continue; then some choices may have no finish
  // With Job::pooling: one float per model dimension, not normalised, or a single score.
  std::vector<float> embedding;
  // With Handover::Side::kGive: the prompt's rows are in the store or about to be, computed with
  // this Handover::arithmetic.
  std::optional<std::string> given;
  JobTimes times = {};
};

// A prompt that one process computes and another process continues. Its rows go through the store
// that both share.
struct Handover {
  enum class Side { kGive, kTake };
  Side side = Side::kGive;
  std::string arithmetic;  // with kTake: how the rows were computed, JobOutcome::given of the giver
  static constexpr size_t kMostArithmetic = 64;  // characters
};

struct Job {
  std::vector<Token> prompt;  // at least one token
  std::string request = {};   // its name for logs and crash reports
  uint32_t max_tokens = 0;    // 0: until the model ends or the context is full
  Sampling sampling;          // choice i draws with seed + i
  uint32_t choices = 1;       // answers, each from a fork of the prompt
  // Not 0: width of a beam search, which samples nothing and answers with its best `choices` at the
  // end.
  uint32_t beams = 0;
  float length_penalty = 1;  // of beams: the sum of logprobs is divided by length to this power
  std::vector<std::string> stop;
  uint32_t min_tokens = 0;           // AnswerForm::least; like the next two, not with beams
  std::vector<Token> stop_tokens;    // as in AnswerForm
  bool with_stop = false;            // as in AnswerForm
  bool special_text = false;         // as in AnswerForm
  bool reuse = true;                 // false: the whole prompt is computed, even if it is cached
  bool continues = false;            // as in Request
  bool ignore_end = false;           // as in Request
  bool stop_loops = false;           // as in AnswerForm; ignored with beams
  std::optional<uint32_t> logprobs;  // report each chosen token with this many likeliest tokens
  // With logprobs: also report the prompt's tokens, before any other token. For that the prompt is
  // computed even if it is cached.
  bool prompt_logprobs = false;
  int32_t priority = 0;             // higher goes first
  std::string salt;                 // prompts share rows only with those of the same salt
  std::optional<KvOptions> kv;      // none: the service's default
  std::optional<SpecOptions> spec;  // none: the service's default; not with beams
  std::optional<Handover> handover;
  AdapterUse adapter;  // one of the engine's; prompts share rows only with those of the same one
  // The job ends with one vector of its prompt and samples nothing: there is one choice, and
  // on_piece is not called. Cached rows are used for tokens whose states the vector does not need.
  std::optional<Pooling> pooling;
  uint32_t second_text = UINT32_MAX;  // where the second of a pair of texts begins in the prompt
  std::shared_ptr<const text::Constraint> constraint;  // cloned for each choice; null: none
  // Called on the service's thread, which waits for them, so they must return at once. on_end comes
  // last, exactly once, also after a cancellation. If on_piece throws, the job ends; if on_end
  // throws, it is called again later.
  std::function<void(AnswerPiece)> on_piece;
  std::function<void(const JobOutcome&)> on_end;
};

enum class JobId : uint64_t {};

class Service {
 public:
  virtual ~Service() = default;
  // All calls may come from any thread.
  virtual base::Result<JobId, Refusal> submit(Job job) = 0;
  // Returns why the service would refuse every job now, so that a caller need not make one to learn
  // it. A refusal counts as a refused job.
  virtual std::optional<Refusal> refuses_now() { return std::nullopt; }
  // Ends a job and frees its rows before the next step. Does nothing if the job has ended.
  virtual void cancel(JobId job) = 0;
  // Evicts all rows that the prefix cache holds in memory and no running job uses. Jobs submitted
  // later do not find them.
  virtual void flush() = 0;
  virtual Metrics metrics() const = 0;
  // Metrics of each instance, if the service has several; metrics() is their sum.
  virtual std::vector<Metrics> instances() const { return {}; }
  virtual CacheState cache() const = 0;
  // The most tokens of one sequence, prompt and answer, by default.
  virtual uint32_t context() const = 0;
};

}  // namespace kvick::engine
