// make_model: makes model files for tests and benchmarks, from a seed or from a llama2.c
// checkpoint.

#include <CLI/CLI.hpp>
#include <exception>
#include <fmt/ranges.h>
#include <iostream>
#include <map>
#include <string>
#include <thread>

#include "make_model/families.h"
#include "make_model/gguf.h"
#include "make_model/hugging_face.h"
#include "make_model/llama2c.h"

#include "base/cpu.h"

namespace kvick::tools {
namespace {

struct Arguments {
  Spec spec;
  std::string shape, family, type = "F32", odd_type, scaling = "none", format = "gguf", output;
  std::string vocabulary = "gpt2", checkpoint, tokenizer_file;
  uint32_t shards = 1;
};

const std::map<std::string, Arch> kArchs = {{"llama", Arch::kLlama},
                                            {"qwen2", Arch::kQwen2},
                                            {"qwen3", Arch::kQwen3},
                                            {"opt", Arch::kOpt},
                                            {"bct", Arch::kBct}};

void add_options(CLI::App& app, Arguments& a) {
  Spec& s = a.spec;
  app.add_option("-o,--output", a.output, "file, or folder for --format hf")->required();
  app.add_option("--format", a.format, "gguf or hf")->check(CLI::IsMember({"gguf", "hf"}));
  app.add_option("--arch", s.arch, "llama, qwen2, qwen3, opt or bct")
      ->transform(CLI::CheckedTransformer(kArchs).description(""));
  app.add_option("--shape", a.shape,
                 "S: SmolLM2-135M, M: Llama-3.2-1B, L7: 8 layers of Llama-2-7B");
  app.add_option("--family", a.family,
                 "a small model of this family's shape: " +
                     fmt::format("{}", fmt::join(family_names(), ", ")))
      ->excludes(app.get_option("--shape"));
  app.add_option("--type", a.type,
                 "of the matrices: F32, F16, BF16, Q8_0, Q4_0, ... Q6_K, IQ4_NL, ... TQ2_0, or the "
                 "mixture Q4_K_M");
  app.add_option("--odd-type", a.odd_type,
                 "of matrices whose rows are no multiple of --type's block");
  app.add_option("--layers", s.layers);
  app.add_option("--dim", s.dim, "width of the residual stream");
  app.add_option("--ffn", s.ffn, "width of the feed-forward layer");
  app.add_option("--heads", s.heads);
  app.add_option("--kv-heads", s.kv_heads);
  app.add_option("--head-dim", s.head_dim, "dim / heads if not given");
  app.add_option("--vocab", s.vocab);
  app.add_option("--context", s.context);
  app.add_option("--window", s.features.window, "tokens that a layer's queries see, 0 for all");
  app.add_option("--window-period", s.features.window_period,
                 "the last of so many layers sees all, 0 for none");
  app.add_option("--window-head-dim", s.features.window_head_dim,
                 "of the layers with a window, --head-dim's if not given");
  app.add_option("--shared-layers", s.features.shared_layers,
                 "the last ones, which read the rows of those before them");
  app.add_option("--latent", s.features.latent,
                 "elements of a latent row that are its value, of a --family that has such rows");
  app.add_option("--q-latent", s.features.q_latent, "elements of the queries' latent vectors");
  app.add_option("--plain", s.features.plain, "elements of a head's key without RoPE");
  app.add_option("--rotated", s.rotated, "elements of a head with RoPE");
  app.add_option("--value-dim", s.features.value_dim, "elements of a head's value");
  app.add_option("--experts", s.features.experts, "of a --family that has them");
  app.add_option("--experts-used", s.features.experts_used, "by a token");
  app.add_option("--expert-ffn", s.features.expert_ffn, "width of an expert");
  app.add_option("--shared-ffn", s.features.shared_ffn, "width of the expert of all tokens");
  app.add_option("--slots", s.slots, "of bct's memory, 64 if not given");
  app.add_flag("--tied", s.tied, "the output matrix is the embedding");
  app.add_option("--rope-base", s.rope_base);
  app.add_option("--rope-scaling", a.scaling, "none, linear:F, llama3:F or yarn:F");
  app.add_option("--vocabulary", a.vocabulary, "gpt2 (byte-level) or llama (SentencePiece)")
      ->check(CLI::IsMember({"gpt2", "llama"}));
  app.add_option("--shards", a.shards, "safetensors files");
  app.add_option("--seed", s.seed);
  app.add_option("--from-llama2c", a.checkpoint, "convert this llama2.c checkpoint instead");
  app.add_option("--tokenizer", a.tokenizer_file, "the tokenizer.bin of --from-llama2c");
}

base::Result<Spec> with_scaling(Spec spec, const std::string& text) {
  static const std::map<std::string, Scaling> kKinds = {
      {"linear", Scaling::kLinear}, {"llama3", Scaling::kLlama3}, {"yarn", Scaling::kYarn}};
  if (text == "none") return spec;
  const size_t colon = text.find(':');
  const auto kind = kKinds.find(text.substr(0, colon));
  char* end = nullptr;
  const float factor = colon == std::string::npos ? 0 : std::strtof(text.c_str() + colon + 1, &end);
  if (kind == kKinds.end() || end == nullptr || *end != 0)
    return base::fail("--rope-scaling {}: none, linear:F, llama3:F or yarn:F, F a number", text);
  spec.scaling = kind->second;
  spec.scaling_factor = factor;
  return spec;
}

base::Result<Spec> spec_of(Arguments& a) {
  KVICK_TRY(Spec spec, with_scaling(a.spec, a.scaling));
  if (!a.odd_type.empty()) {
    KVICK_TRY(spec.odd_type, weight_type("--odd-type", a.odd_type));
    spec.has_odd_type = true;
  }
  KVICK_TRY(spec, with_type(std::move(spec), a.type));
  const bool latent = spec.features.family == "deepseek2" || spec.features.family == "minicpm3";
  if (latent != (spec.features.latent != 0))
    return base::fail(
        "--latent {}: --family deepseek2-..., deepseek3 and minicpm3 have latent rows, "
        "no others",
        spec.features.latent);
  if (a.vocabulary == "llama") spec.vocabulary = VocabularyKind::kSentencePiece;
  return checked(std::move(spec));
}

base::Status<> make(Arguments& a) {
  base::ThreadPool pool(base::available_cpus());
  if (!a.checkpoint.empty()) return convert_llama2c(a.checkpoint, a.tokenizer_file, a.output, pool);
  KVICK_TRY(const Spec spec, spec_of(a));
  if (a.format == "hf") return make_hugging_face(a.output, spec, a.shards, pool);
  return make_gguf(a.output, spec, pool);
}

int complain(const base::Error& error) {
  std::cerr << "make_model: " << error.message << "\n";
  return 2;
}

int main_checked(int argc, char** argv) {
  Arguments a;
  // The shape sets the defaults of the other options, so it is parsed before them.
  CLI::App first;
  first.allow_extras();
  first.set_help_flag();
  first.add_option("--shape", a.shape);
  first.add_option("--family", a.family);
  first.parse(argc, argv);
  if (!a.family.empty()) {
    const base::Result<Spec> spec = made_family(a.family);
    if (!spec.ok()) return complain(spec.error());
    a.spec = *spec;
  }
  if (!a.shape.empty()) {
    const base::Result<Spec> spec = preset(a.shape);
    if (!spec.ok()) return complain(spec.error());
    a.spec = *spec;
  }
  CLI::App app("Writes a model file with random weights that depend on the seed alone.");
  add_options(app, a);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int status = app.exit(error);
    return status == 0 ? 0 : 2;
  }
  const base::Status<> status = make(a);
  return status.ok() ? 0 : complain(status.error());
}

}  // namespace
}  // namespace kvick::tools

int main(int argc, char** argv) {
  try {
    return kvick::tools::main_checked(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "make_model: " << error.what() << "\n";
    return 1;
  }
}
