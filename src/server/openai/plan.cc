#include "server/openai/plan.h"

#include <algorithm>

#include "engine/sampling/bad_words.h"
#include "server/answer/answer_parts.h"
#include "server/answer/template_messages.h"
#include "server/openai/fill_in.h"
#include "server/openai/openai_format.h"
#include "text/forms/allowed_tokens.h"
#include "text/forms/behind_thoughts.h"

namespace kvick::server {
namespace {

// format: the request's own, or that of a call too (Tools::or_call()).
ApiResult<std::shared_ptr<const text::Constraint>> constraint_of(const GenerationRequest& request,
                                                                 const Json& format,
                                                                 const PlanContext& context) {
  if (format.is_null()) return std::shared_ptr<const text::Constraint>();
  auto made = context.constraint(format);
  if (!made.ok()) {
    std::string what = made.error().message;
    // An error in the request's own schema names its place in that one.
    const auto own = context.constraint(request.response_format);
    if (!own.ok()) what = own.error().message;
    const bool many =
        request.format_field == "tools" && what.starts_with("the schema cannot be used");
    return bad_field(request.format_field, "{}{}", what,
                     many ? " (it is that of a call of any of the tools: offer fewer, or leave "
                            "tool_choice at auto)"
                          : "");
  }
  if (request.min_tokens > 0)
    return bad_field("min_tokens",
                     "a constrained answer (schema, grammar, choice or tool call) ends where it is "
                     "complete; leave min_tokens out");
  if (!request.bad_words.empty())
    return bad_field("bad_words",
                     "bad_words cannot be combined with a constrained answer (schema, grammar, "
                     "choice or tool call); leave them out");
  return *std::move(made);
}

// Returns the constraint of a request with allowed_token_ids. vocab: tokens of the vocabulary.
ApiResult<std::shared_ptr<const text::Constraint>> allowed_of(const GenerationRequest& request,
                                                              const Json& format, uint32_t vocab) {
  const std::string name = "allowed_token_ids";
  const std::vector<engine::Token>& tokens = request.allowed_tokens;
  if (tokens.size() > vocab)
    return bad_field(name, "{} has {} ids, more than the vocabulary's {} tokens", name,
                     tokens.size(), vocab);
  for (const engine::Token token : tokens)
    if (static_cast<uint32_t>(token) >= vocab)
      return bad_field(name, "{} has token {}, but the vocabulary ends at {}", name, token,
                       vocab - 1);
  if (!format.is_null())
    return bad_field(name, "{} and {} exclude each other", name, request.format_field);
  if (request.min_tokens > 0)
    return bad_field("min_tokens",
                     "min_tokens cannot be combined with {}: leave it out, and the end token out "
                     "of the list, for an answer of max_tokens tokens",
                     name);
  if (request.ignore_end)
    return bad_field("ignore_eos",
                     "ignore_eos cannot be combined with {}: leave the end token out of the list "
                     "instead",
                     name);
  if (!request.bad_words.empty())
    return bad_field("bad_words", "bad_words cannot be combined with {}; leave them out", name);
  return text::allowed_tokens(tokens, vocab);
}

// Refuses a prompt of as many tokens as fit (truncate_prompt_tokens of -1) if max_tokens leaves
// room for none.
ApiStatus check_room(const GenerationRequest& request, uint32_t context) {
  if (request.max_prompt_tokens != 0U || request.max_tokens < context) return base::Done{};
  return bad_field(
      "max_tokens",
      "max_tokens is {}, which leaves no room for a prompt in the context of {} tokens: "
      "lower it, or give truncate_prompt_tokens a number",
      request.max_tokens, context);
}

// Refuses fields that exclude each other, by their names in the request; the engine would refuse
// them by its own. format: that of the answer.
ApiStatus check_together(const GenerationRequest& request, const Json& format) {
  const auto no_beams = [](const std::string& name) {
    return bad_field(name, "{} does not go with use_beam_search; leave one of them out", name);
  };
  if (request.beams > 0 && request.logprobs) return no_beams("logprobs");
  if (request.beams > 0 && !format.is_null()) return no_beams(request.format_field);
  if (request.ignore_end && !format.is_null())
    return bad_field("ignore_eos",
                     "a constrained answer (schema, grammar, choice or tool call) ends where it is "
                     "complete; leave ignore_eos out");
  return base::Done{};
}

// Fills in all of a job except its prompt. format: that of its answer.
ApiResult<engine::Job> job_of(const GenerationRequest& request, const Json& format,
                              const PlanContext& context) {
  KVICK_TRY_VOID(check_room(request, context.most_tokens));
  KVICK_TRY_VOID(check_together(request, format));
  const auto vocab = static_cast<uint32_t>(context.engine.tokenizer().vocabulary().pieces.size());
  const auto checked = engine::check(request.sampling, vocab);
  if (!checked.ok())
    return bad_field(request.sampling.logit_bias.empty() ? "" : "logit_bias", "{}",
                     checked.error().message);
  for (const engine::Token token : request.stop_tokens)
    if (static_cast<uint32_t>(token) >= vocab)
      return bad_field("stop_token_ids",
                       "stop_token_ids has token {}, but the vocabulary ends at {}", token,
                       vocab - 1);
  engine::Job job;
  job.min_tokens = request.min_tokens;
  job.max_tokens = request.max_tokens;
  job.sampling = request.sampling;
  engine::apply_model_sampling(context.engine.sampling(), request.given, job.sampling);
  job.sampling.bad_words = engine::bad_word_tokens(context.engine.tokenizer(), request.bad_words);
  job.sampling.seed = request.seed ? *request.seed : context.random();
  job.choices = request.choices;
  job.beams = request.beams;
  job.length_penalty = request.length_penalty;
  job.stop = request.stop;
  job.stop_tokens = request.stop_tokens;
  job.with_stop = request.with_stop;
  job.special_text = request.special_text;
  job.reuse = request.reuse;
  job.ignore_end = request.ignore_end;
  job.stop_loops = request.stop_loops.value_or(context.stop_loops);
  job.logprobs = request.logprobs;
  job.prompt_logprobs = request.prompt_logprobs.has_value();
  if (job.prompt_logprobs)
    job.logprobs = std::max(request.logprobs.value_or(0), *request.prompt_logprobs);
  job.priority = request.priority;
  job.salt = request.salt;
  job.kv = request.kv;
  job.spec = request.spec;
  job.handover = request.handover;
  KVICK_TRY(job.adapter, choose_adapter(request.lora, context.engine.adapters(), context.adapter));
  KVICK_TRY(job.constraint, request.allowed_tokens.empty() ? constraint_of(request, format, context)
                                                           : allowed_of(request, format, vocab));
  return job;
}

// Returns the seed of one of several prompts. The first prompt has the request's seed. Others have
// it mixed with their index (SplitMix64), so that no two prompts share a seed, nor do their
// choices, whose seeds count up from it. Steele, Lea, Flood 2014, "Fast splittable pseudorandom
// number generators".
uint64_t seed_of_prompt(uint64_t seed, size_t prompt) {
  if (prompt == 0) return seed;
  uint64_t z = seed + prompt * 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

void copy_delivery(const GenerationRequest& request, Plan& plan) {
  plan.choices = request.choices;
  plan.stream = request.stream;
  plan.include_usage = request.include_usage;
  plan.token_ids = request.token_ids;
  plan.logprobs = request.logprobs;
  plan.prompt_logprobs = request.prompt_logprobs;
}

// Plans how to parse the answer. A constrained answer has thoughts only if it thinks first.
void plan_syntax(const ChatRequest& request, const engine::Engine& engine, bool thinks_first,
                 engine::Job& job, Plan& plan) {
  if (job.constraint != nullptr && !thinks_first) return;
  job.special_text |= engine.marks_are_special();
  if (request.thoughts == Thoughts::kInContent) return;
  plan.syntax = &engine.answer_syntax();
  plan.drops_thoughts = request.thoughts == Thoughts::kDropped;
  plan.inside_thoughts = inside_thoughts(engine, job.prompt);
}

// Returns the tokens of a prompt that truncate_prompt_tokens leaves: the last ones. context: most
// tokens of a sequence.
std::vector<engine::Token> truncated(const GenerationRequest& request, uint32_t context,
                                     std::vector<engine::Token> tokens) {
  if (!request.max_prompt_tokens) return tokens;
  const uint32_t asked = *request.max_prompt_tokens;
  // Where as many as fit are asked for, check_room() has found room.
  const size_t most = asked > 0 ? asked : context - std::max(request.max_tokens, 1U);
  if (tokens.size() > most)
    tokens.erase(tokens.begin(), tokens.end() - static_cast<ptrdiff_t>(most));
  return tokens;
}

// Returns whether the format makes an answer JSON from its first token on. Other forms may describe
// thoughts too.
bool is_json(const Json& format) {
  return !format.is_null() && (format["type"] == "json_schema" || format["type"] == "json_object");
}

ApiResult<std::vector<engine::Token>> rendered(const ChatRequest& request, const Json& variables,
                                               const PlanContext& context) {
  const engine::Engine& engine = context.engine;
  auto tokens = engine.chat_tokens(
      template_messages(request.messages, request.tools.list, engine.answer_syntax()), variables,
      request.end);
  if (!tokens.ok()) return bad_field("messages", "{}", tokens.error().message);
  return truncated(request, context.most_tokens, *std::move(tokens));
}

// Returns the token that a text is, if it is one.
std::optional<engine::Token> one_token(const std::string& text, const text::Tokenizer& tokenizer) {
  const std::vector<engine::Token> tokens = tokenizer.encode(text, false, true);
  if (tokens.size() != 1 || tokenizer.piece(tokens[0], true) != text) return std::nullopt;
  return tokens[0];
}

// Returns whether the request asks for thoughts or declines them, if it does either. variables: of
// the chat template, as the request sets them. An effort asks for thoughts only beside nothing
// else: Anthropic's clients also send it with thinking disabled.
std::optional<bool> wants_thoughts(const Json& variables) {
  std::optional<bool> wants;
  for (const char* name : {"enable_thinking", "thinking"})
    if (variables.contains(name) && variables[name].is_boolean())
      wants = wants.value_or(false) || variables[name] == true;
  if (wants || !variables.contains("reasoning_effort")) return wants;
  const Json& effort = variables["reasoning_effort"];
  if (effort.is_string()) wants = effort != "none";
  return wants;
}

// Returns whether an answer in JSON has thoughts before it, where the template opens them: an agent
// thinks about which tool to call, unless the request declines thoughts, and who asks for thoughts
// waits for them. The token that closes thoughts tells where the JSON begins, so the mark must be
// one.
bool thinks_before_json(const ChatRequest& request, const engine::Engine& engine) {
  const Tools::Choice choice = request.tools.choice;
  return request.thoughts != Thoughts::kInContent && choice != Tools::Choice::kRequired &&
         wants_thoughts(request.variables).value_or(choice == Tools::Choice::kAuto) &&
         one_token(engine.answer_syntax().think_close, engine.tokenizer());
}

std::shared_ptr<const text::Constraint> behind_thoughts(
    std::shared_ptr<const text::Constraint> answer, const engine::Engine& engine) {
  const text::Tokenizer& tokenizer = engine.tokenizer();
  return text::behind_thoughts(std::move(answer),
                               {.mark = *one_token(engine.answer_syntax().think_close, tokenizer),
                                .spaces = one_token("\n\n", tokenizer),
                                .ends = tokenizer.ends()});
}

struct ChatPrompt {
  std::vector<engine::Token> tokens;
  bool thinks_first = false;  // the answer is JSON behind thoughts, which the prompt has opened
};

// json: the answer is JSON. Where it has no thoughts, the prompt must not leave thoughts open: the
// template is told not to think, unless the client has decided that, and thoughts that it still
// opens are closed.
ApiResult<ChatPrompt> prompt_of(const ChatRequest& request, bool json, const PlanContext& context) {
  const engine::Engine& engine = context.engine;
  Json variables =
      template_variables(request.variables, engine.tokenizer().vocabulary().chat_template);
  ChatPrompt prompt;
  KVICK_TRY(prompt.tokens, rendered(request, variables, context));
  const auto opens = [&] {
    return json && request.end == engine::ChatEnd::kNewTurn &&
           inside_thoughts(engine, prompt.tokens);
  };
  prompt.thinks_first = opens() && thinks_before_json(request, engine);
  if (prompt.thinks_first) return prompt;
  if (opens() && !variables.contains("enable_thinking") && !variables.contains("thinking")) {
    variables["enable_thinking"] = false;
    variables["thinking"] = false;
    KVICK_TRY(prompt.tokens, rendered(request, variables, context));
  }
  if (opens()) {
    const std::vector<engine::Token> close =
        engine.tokenizer().encode("\n" + engine.answer_syntax().think_close + "\n\n", false, true);
    prompt.tokens.insert(prompt.tokens.end(), close.begin(), close.end());
    prompt.tokens = truncated(request, context.most_tokens, std::move(prompt.tokens));
  }
  return prompt;
}

}  // namespace

ApiResult<Plan> plan_completion(const CompletionRequest& request, const PlanContext& context) {
  KVICK_TRY(const engine::Job job, job_of(request, request.response_format, context));
  Plan plan;
  copy_delivery(request, plan);
  plan.format = completion_format(context.engine.tokenizer());
  if (request.prompts.size() * request.choices > kMostPrompts)
    return bad_field("n", "n times the number of prompts is more than {}", kMostPrompts);
  for (const Prompt& prompt : request.prompts) {
    plan.jobs.push_back(job);
    plan.jobs.back().sampling.seed = seed_of_prompt(job.sampling.seed, plan.jobs.size() - 1);
    plan.jobs.back().continues = true;
    plan.jobs.back().prompt_logprobs |= request.echo && request.logprobs.has_value();
    KVICK_TRY(plan.jobs.back().prompt, request.suffix
                                           ? fill_in_tokens(request, prompt, context.engine)
                                           : prompt_tokens(prompt, "prompt", context.engine));
    const size_t whole = plan.jobs.back().prompt.size();
    plan.jobs.back().prompt =
        truncated(request, context.most_tokens, std::move(plan.jobs.back().prompt));
    if (!request.echo) continue;
    const bool cut = plan.jobs.back().prompt.size() < whole;
    const auto* text = std::get_if<std::string>(&prompt);
    plan.echo.push_back(text != nullptr && !cut
                            ? *text
                            : context.engine.tokenizer().decode(plan.jobs.back().prompt));
  }
  return plan;
}

ApiResult<Plan> plan_chat(const ChatRequest& request, const PlanContext& context) {
  const Json format = request.tools.or_call(request.response_format);
  KVICK_TRY(engine::Job job, job_of(request, format, context));
  KVICK_TRY(ChatPrompt prompt, prompt_of(request, is_json(format), context));
  job.prompt = std::move(prompt.tokens);
  if (prompt.thinks_first)
    job.constraint = behind_thoughts(std::move(job.constraint), context.engine);
  job.continues = request.end == engine::ChatEnd::kLastMessage;
  if (job.prompt.empty())
    return bad_field("messages", "the chat template makes an empty prompt of the messages");
  Plan plan;
  copy_delivery(request, plan);
  plan_syntax(request, context.engine, prompt.thinks_first, job, plan);
  plan.format = chat_format(context.engine.tokenizer());
  plan.tools = request.tools;
  plan.jobs.push_back(std::move(job));
  return plan;
}

}  // namespace kvick::server
