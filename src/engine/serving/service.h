#pragma once
// What a server asks of an engine that answers many requests at once. The scheduler is one; tests
// of the server have simpler ones.

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

// Something new of one answer of a job.
struct AnswerPiece {
  uint32_t choice = 0;
  std::string text;                 // whole UTF-8 characters; may be empty
  std::optional<Token> token;       // that it came of, without beams; none: the model's end
  std::vector<TokenReport> tokens;  // if the job asked for them: those that became certain now
  bool of_prompt = false;           // those are the prompt's, all of them; there is no text
  std::optional<Finish> finish;     // in the choice's last piece
  std::string stop = {};            // with it: the stop text that ended the choice, if one did
};

// Why a job was not taken, or could not go on.
struct Refusal {
  enum class Why {
    kInvalid,   // never possible: a bad value
    kTooLong,   // a prompt longer than the context
    kTooLarge,  // needs more memory than there is in all
    kLost,      // its rows are: a slower tier of the cache failed
    kFailed,    // something of the engine broke: no memory, scores that are not numbers, a bug
    kBusy,  // not now: the queue is full, the service drains, too many kinds of cache are in use
  };
  Why why = Why::kInvalid;
  std::string message;       // one sentence
  std::string field;         // of the Job, if one is to blame: "max_tokens"
  double retry_seconds = 0;  // of kBusy: when it may be taken; 0: nobody knows
};

// How a job ended. Tokens generated are summed over its choices.
struct JobOutcome {
  uint32_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
  uint32_t moved_tokens = 0;           // of those cached: from another place (ReuseOptions::shift)
  uint32_t drafted = 0, accepted = 0;  // speculative tokens
  std::optional<Refusal> error;        // it could not go on; choices without a finish have none
  // With Job::pooling: one float per model dimension, not normalised, or a single score.
  std::vector<float> embedding;
  // Its prompt's rows are in the store or about to be, if the job gives them: Handover::arithmetic.
  std::optional<std::string> given;
  JobTimes times = {};
};

// A prompt that one process computes and another goes on with: its rows go through the store.
struct Handover {
  enum class Side { kGive, kTake };
  Side side = Side::kGive;
  std::string arithmetic;  // of the rows that are taken, as their giver called it
  static constexpr size_t kMostArithmetic = 64;  // characters
};

struct Job {
  std::vector<Token> prompt;  // at least one token
  std::string request = {};   // its name for logs and crash reports
  uint32_t max_tokens = 0;    // 0: until the model ends or the context is full
  Sampling sampling;          // choice i draws with seed + i
  uint32_t choices = 1;       // answers, each from a fork of the prompt
  uint32_t beams = 0;         // not 0: beam search of that width, which answers with its best
                              // `choices` at the end, and samples nothing
  float length_penalty = 1;   // of beams: the sum of logprobs is divided by length to this power
  std::vector<std::string> stop;
  uint32_t min_tokens = 0;           // AnswerForm::least; not with beams, as the next three
  std::vector<Token> stop_tokens;    // as in AnswerForm
  bool with_stop = false;            // as in AnswerForm
  bool special_text = false;         // as in AnswerForm
  bool reuse = true;                 // false: its prompt is computed, though it be cached
  bool continues = false;            // as in Request
  bool ignore_end = false;           // as in Request
  bool stop_loops = false;           // as in AnswerForm; beams have none
  std::optional<uint32_t> logprobs;  // report chosen tokens, each with this many likeliest
  // With logprobs: the prompt's tokens too, before any other. It is computed for that, though it
  // be cached.
  bool prompt_logprobs = false;
  int32_t priority = 0;             // higher goes first
  std::string salt;                 // prompts share rows only with those of the same salt
  std::optional<KvOptions> kv;      // none: the service's default
  std::optional<SpecOptions> spec;  // the same; not with beams
  std::optional<Handover> handover;
  AdapterUse adapter;  // of the engine; prompts share rows only with those of the same one
  // The job ends with one vector of its prompt and samples nothing: there is one choice, and no
  // piece of an answer. Rows that are cached are used where their tokens' states are not needed.
  std::optional<Pooling> pooling;
  uint32_t second_text = UINT32_MAX;  // where the second of a pair of texts begins in the prompt
  std::shared_ptr<const text::Constraint> constraint;  // cloned for each choice; null: none
  // Called on the service's thread, which waits for them: they hand on and return. on_end comes
  // exactly once, last, and after a cancellation too. on_piece may throw, which ends the job; one
  // of on_end that throws is called again later.
  std::function<void(AnswerPiece)> on_piece;
  std::function<void(const JobOutcome&)> on_end;
};

enum class JobId : uint64_t {};

class Service {
 public:
  virtual ~Service() = default;
  // All calls may come from any thread.
  virtual base::Result<JobId, Refusal> submit(Job job) = 0;
  // Why no job would be taken now, whatever it is, so that nobody need make one to hear it. Counts
  // as a job that was refused.
  virtual std::optional<Refusal> refuses_now() { return std::nullopt; }
  // Its rows are free at once; nothing happens if it has ended.
  virtual void cancel(JobId job) = 0;
  // Drops what the prefix cache holds in memory and no running job uses. Jobs submitted after it
  // find nothing of it.
  virtual void flush() = 0;
  virtual Metrics metrics() const = 0;
  // Of each instance, where a service has several; metrics() is of all together.
  virtual std::vector<Metrics> instances() const { return {}; }
  virtual CacheState cache() const = 0;
  // The most tokens of one sequence, prompt and answer, by default.
  virtual uint32_t context() const = 0;
};

}  // namespace kvick::engine
