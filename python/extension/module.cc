// The module kvick._kvick: the functions that Python calls, with plain values. Only the package
// kvick uses it; that package checks the arguments and has the documentation.
//
// Python's lock is released while kvick computes and acquired between two steps. Then Ctrl-C can
// end the call, and the program receives the text so far.

#include <algorithm>
#include <fmt/format.h>
#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "extension/model.h"
#include "extension/policy.h"

#include "kv/registry/policies.h"
#include "kv/registry/registry.h"

namespace kvick::python {
namespace {

namespace py = pybind11;
using Released = py::call_guard<py::gil_scoped_release>;

// Reads one field of a Python dict into `value`, if the field exists.
template <typename T>
void read(const py::dict& fields, const char* name, T& value) {
  if (!fields.contains(name)) return;
  try {
    value = fields[name].cast<T>();
  } catch (const py::cast_error&) {
    throw Error(fmt::format("{} cannot be {}", name, std::string(py::repr(fields[name]))));
  }
}

void look_for_signals() {
  const py::gil_scoped_acquire held;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

std::unique_ptr<Model> open(const py::dict& fields) {
  OpenOptions options;
  read(fields, "path", options.path);
  read(fields, "kv", options.kv);
  read(fields, "kv_type", options.kv_type);
  read(fields, "kv_tier", options.kv_tier);
  read(fields, "kv_select", options.kv_select);
  read(fields, "spec", options.spec);
  read(fields, "prompt_arithmetic", options.prompt_arithmetic);
  read(fields, "context", options.context);
  read(fields, "kv_memory", options.kv_memory);
  read(fields, "threads", options.threads);
  const py::gil_scoped_release released;
  return std::make_unique<Model>(options);
}

// Returns the sampling options. Missing fields come from the model's file, as in `kvick run`.
engine::Sampling sampling_of(const Model& model, const py::dict& fields) {
  engine::Sampling sampling;
  read(fields, "temperature", sampling.temperature);
  read(fields, "top_k", sampling.top_k);
  read(fields, "top_p", sampling.top_p);
  read(fields, "min_p", sampling.min_p);
  read(fields, "repetition_penalty", sampling.repetition_penalty);
  read(fields, "presence_penalty", sampling.presence_penalty);
  read(fields, "frequency_penalty", sampling.frequency_penalty);
  read(fields, "seed", sampling.seed);
  read(fields, "logit_bias", sampling.logit_bias);
  engine::apply_model_sampling(model.engine().sampling(),
                               {.temperature = fields.contains("temperature"),
                                .top_k = fields.contains("top_k"),
                                .top_p = fields.contains("top_p"),
                                .min_p = fields.contains("min_p"),
                                .repetition_penalty = fields.contains("repetition_penalty")},
                               sampling);
  return sampling;
}

py::dict answer_dict(const engine::Answer& answer) {
  py::dict out;
  out["text"] = answer.text;
  out["tokens"] = answer.tokens;
  out["finish_reason"] = std::string(engine::finish_name(answer.finish));
  out["prompt_tokens"] = answer.prompt_tokens;
  out["cached_tokens"] = answer.cached_tokens;
  out["prefill_s"] = answer.prefill_s;
  out["decode_s"] = answer.decode_s;
  out["drafted"] = answer.drafted;
  out["accepted"] = answer.accepted;
  return out;
}

engine::Answer answer_of(const JobEnd& end) {
  const engine::JobOutcome& outcome = end.outcome;
  engine::Answer answer;
  answer.text = end.text;
  answer.tokens = end.tokens;
  answer.finish = end.finish.value_or(engine::Finish::kCancelled);
  answer.prompt_tokens = outcome.prompt_tokens;
  answer.cached_tokens = outcome.cached_tokens;
  if (outcome.times.started && outcome.times.first_token) {
    answer.prefill_s = *outcome.times.first_token - *outcome.times.started;
    answer.decode_s = end.ended - *outcome.times.first_token;
  }
  answer.drafted = outcome.drafted;
  answer.accepted = outcome.accepted;
  return answer;
}

// on_text: None, or a function that receives each piece of the answer, and "" while the prompt is
// read; returning false ends the answer.
py::dict generate(Model& model, const py::dict& fields, const py::object& on_text) {
  struct Unwanted {};  // thrown while the prompt is read, when there is no answer to end
  engine::Request request;
  std::string schema;
  read(fields, "prompt", request.prompt);
  read(fields, "max_tokens", request.max_tokens);
  read(fields, "stop", request.stop);
  read(fields, "continues", request.continues);
  read(fields, "ignore_end", request.ignore_end);
  read(fields, "schema", schema);
  request.sampling = sampling_of(model, fields);
  request.special_text = !request.continues && schema.empty() && model.engine().marks_are_special();
  request.on_text = [&](std::string_view piece) {
    const py::gil_scoped_acquire held;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (on_text.is_none()) return true;
    const py::object said = on_text(piece);
    return said.is_none() || said.cast<bool>();  // None continues
  };
  request.on_prefill = [&](uint32_t, uint32_t) {
    if (!request.on_text("")) throw Unwanted();
  };
  engine::Answer answer;
  try {
    const py::gil_scoped_release released;
    answer = model.generate(request, schema, look_for_signals);
  } catch (const Unwanted&) {
    answer.prompt_tokens = static_cast<uint32_t>(request.prompt.size());
    answer.finish = engine::Finish::kCancelled;
  }
  return answer_dict(answer);
}

// on_answer: None, or a function that receives each prompt's number and answer as it ends;
// returning false cancels the others.
py::list batch(Model& model, const py::list& prompts, const py::dict& fields, uint32_t parallel,
               const py::object& on_answer) {
  std::string schema;
  read(fields, "schema", schema);
  engine::Job form;
  read(fields, "max_tokens", form.max_tokens);
  read(fields, "stop", form.stop);
  read(fields, "ignore_end", form.ignore_end);
  form.sampling = sampling_of(model, fields);
  std::vector<engine::Job> jobs(prompts.size(), form);
  for (size_t i = 0; i < jobs.size(); ++i) {
    const py::dict prompt = prompts[i];
    read(prompt, "prompt", jobs[i].prompt);
    read(prompt, "continues", jobs[i].continues);
    jobs[i].sampling.seed += i;
    jobs[i].special_text =
        !jobs[i].continues && schema.empty() && model.engine().marks_are_special();
  }
  const auto told = [&](size_t number, const JobEnd& end) {
    const py::gil_scoped_acquire held;
    if (on_answer.is_none()) return true;
    const py::object said = on_answer(number, answer_dict(answer_of(end)));
    return said.is_none() || said.cast<bool>();  // None continues
  };
  std::vector<JobEnd> ends;
  {
    const py::gil_scoped_release released;
    ends = model.batch(std::move(jobs), schema, parallel, told, look_for_signals);
  }
  py::list out;
  for (const JobEnd& end : ends) out.append(answer_dict(answer_of(end)));
  return out;
}

py::array_t<float> embed(Model& model, const std::vector<std::string>& texts,
                         const std::string& pooling, uint32_t dimensions, bool normalised) {
  std::vector<std::vector<float>> vectors;
  {
    const py::gil_scoped_release released;
    vectors = model.embed(texts, pooling, {.dimensions = dimensions, .normalised = normalised},
                          look_for_signals);
  }
  const size_t width = dimensions != 0 ? dimensions : model.engine().model().config().dim;
  py::array_t<float> out({vectors.size(), width});
  float* row = out.mutable_data();
  for (const std::vector<float>& vector : vectors) row = std::ranges::copy(vector, row).out;
  return out;
}

std::vector<double> scores(Model& model, const std::string& query,
                           const std::vector<std::string>& documents, const std::string& pooling) {
  const py::gil_scoped_release released;
  return model.scores(query, documents, pooling, look_for_signals);
}

py::array_t<float> logits(Model& model, const std::vector<engine::Token>& tokens, bool all) {
  const auto rows = static_cast<py::ssize_t>(all || tokens.empty() ? tokens.size() : 1);
  const auto vocab = static_cast<py::ssize_t>(model.engine().model().outputs());
  py::array_t<float> out({rows, vocab});
  const std::span<float> floats(out.mutable_data(), static_cast<size_t>(out.size()));
  {
    const py::gil_scoped_release released;
    model.logits(tokens, floats, look_for_signals);
  }
  return out;
}

py::dict perplexity(Model& model, const std::string& text, const py::dict& fields) {
  engine::PerplexityOptions options;
  read(fields, "window", options.window);
  read(fields, "prompt", options.prompt);
  read(fields, "most", options.most);
  options.progress = [](uint64_t, uint64_t) { look_for_signals(); };
  engine::Perplexity result;
  {
    const py::gil_scoped_release released;
    result = model.perplexity(text, options, look_for_signals);
  }
  py::dict out;
  out["perplexity"] = result.perplexity;
  out["nll"] = result.nll;
  out["nll_error"] = result.nll_error;
  out["tokens"] = result.tokens;
  out["kv_bytes"] = result.kv_bytes;
  out["kv_read_bytes_per_token"] = result.kv_read_bytes_per_token;
  return out;
}

py::list bench(Model& model, const py::dict& fields) {
  engine::Sweep sweep;
  engine::SpeedOptions options;
  read(fields, "prompt_tokens", sweep.prompts);
  read(fields, "new_tokens", sweep.decodes);
  read(fields, "depth", sweep.depths);
  read(fields, "parallel", sweep.parallels);
  read(fields, "repeats", options.repeats);
  options.progress = [](uint64_t, uint64_t) { look_for_signals(); };
  std::vector<engine::Measurement> measured;
  {
    const py::gil_scoped_release released;
    measured = model.bench(engine::cases_of(sweep), options, look_for_signals);
  }
  py::list out;
  for (const engine::Measurement& one : measured) {
    py::dict row;
    row["phase"] = std::string(engine::phase_name(one.what.phase));
    row["tokens"] = one.what.tokens;
    row["depth"] = one.what.depth;
    row["parallel"] = one.what.parallel;
    row["tok_s"] = engine::median(one.tok_s);
    row["spread"] = engine::spread(one.tok_s);
    row["rounds"] = one.tok_s;
    row["kv_used_bytes"] = one.usage.used_bytes;
    row["kv_allocated_bytes"] = one.usage.allocated_bytes;
    row["kv_copied_bytes"] = one.usage.copied_bytes;
    out.append(row);
  }
  return out;
}

py::dict facts(const Model& model) {
  const engine::Engine& engine = model.engine();
  py::dict out;
  out["name"] = engine.model().config().name;
  out["family"] = engine.model().config().arch;
  out["context"] = model.most_tokens();
  out["vocabulary"] = engine.model().outputs();
  out["weight_bytes"] = engine.model().weight_bytes();
  out["kv"] = kv::spec_text(model.kv().spec);
  out["kv_type"] = engine::kv_type_text(model.kv());
  out["isa"] = std::string(base::isa_name(engine.kernels().isa));
  out["has_chat_template"] = engine.has_chat_template();
  return out;
}

py::list options_list(std::span<const kv::Option> options) {
  py::list out;
  for (const kv::Option& option : options) {
    py::dict row;
    row["name"] = std::string(option.name);
    row["summary"] = std::string(option.summary);
    row["default"] = std::string(option.fallback);
    out.append(row);
  }
  return out;
}

py::list strategies() {
  py::list out;
  for (const kv::Strategy& strategy : kv::strategies()) {
    py::dict row;
    row["name"] = std::string(strategy.name);
    row["summary"] = std::string(strategy.summary);
    row["options"] = options_list(strategy.options);
    row["exact"] = strategy.traits.exact;
    row["shares_prefix"] = strategy.traits.shares_prefix;
    row["endless"] = strategy.traits.endless;
    row["tiered"] = strategy.traits.tiered;
    row["slots"] = strategy.traits.slots;
    out.append(row);
  }
  return out;
}

py::list policies() {
  py::list out;
  for (const kv::Policy& policy : kv::policies()) {
    py::dict row;
    row["name"] = std::string(policy.name);
    row["summary"] = std::string(policy.summary);
    row["options"] = options_list(policy.options);
    kv::Traits traits;
    policy.change_traits(traits);
    row["forgets"] = traits.forgets;
    row["needs_file"] = kv::needs_file(policy);
    out.append(row);
  }
  return out;
}

// A Python function that may be copied and released without Python's lock.
using Function = std::shared_ptr<const py::object>;
Function hold(py::object function) {
  return {new py::object(std::move(function)), [](const py::object* held) {
            const py::gil_scoped_acquire lock;
            delete held;
          }};
}

py::array_t<float> matrix(std::span<const float> values, uint32_t columns) {
  const auto rows = static_cast<py::ssize_t>(values.size() / columns);
  return py::array_t<float>({rows, py::ssize_t{columns}}, values.data());
}

void score_rows(const Function& score, const Candidates& rows, std::span<float> out) {
  const py::gil_scoped_acquire held;
  const py::object values =
      rows.values.empty() ? py::object(py::none()) : matrix(rows.values, rows.value_dims);
  const py::object said =
      (*score)(rows.layer, rows.head, rows.first, rows.take, matrix(rows.queries, rows.dims),
               matrix(rows.keys, rows.dims), values);
  const auto scores = said.cast<py::array_t<float, py::array::c_style | py::array::forcecast>>();
  if (static_cast<size_t>(scores.size()) != out.size())
    throw Error("a policy gave scores of other rows");
  std::copy_n(scores.data(), out.size(), out.data());
}

// make: receives the options' values and returns the function that scores rows.
void add_python_policy(const std::string& name, const std::string& summary,
                       const OptionTexts& options, bool values, const py::object& make) {
  NewPolicy policy = {.name = name, .summary = summary, .options = options, .values = values};
  policy.make = [maker = hold(make)](const OptionTexts& texts) -> ScoreRows {
    const py::gil_scoped_acquire held;
    py::dict given;
    for (const auto& [option, value] : texts) given[py::str(option)] = value;
    return [score = hold((*maker)(given))](const Candidates& rows, std::span<float> scores) {
      score_rows(score, rows, scores);
    };
  };
  const py::gil_scoped_release released;
  add_policy(std::move(policy));
}

void add_model(py::module_& module) {
  py::class_<Model>(module, "Model")
      .def(py::init(&open))
      .def("generate", &generate)
      .def("text_prompt", &Model::text_prompt, Released())
      .def("chat_prompt", &Model::chat_prompt, Released())
      .def("tokenize", &Model::tokenize, Released())
      // Returns bytes, because a text's tokens may end within a character.
      .def("detokenize", [](const Model& model, const std::vector<engine::Token>& tokens,
                            bool special) { return py::bytes(model.detokenize(tokens, special)); })
      .def("batch", &batch)
      .def("embed", &embed)
      .def("scores", &scores)
      .def("logits", &logits)
      .def("perplexity", &perplexity)
      .def("bench", &bench)
      .def("facts", &facts);
}

}  // namespace
}  // namespace kvick::python

PYBIND11_MODULE(_kvick, module) {
  pybind11::register_exception<kvick::Error>(module, "Error", PyExc_ValueError);
  kvick::python::add_model(module);
  module.def("strategies", &kvick::python::strategies);
  module.def("policies", &kvick::python::policies);
  module.def("add_policy", &kvick::python::add_python_policy);
  module.def("load_plugin", &kvick::python::load_plugin, kvick::python::Released());
}
