#include "quantize/recipe.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace kvick::quantize {
namespace {

using kernels::DType;
using enum DType;

constexpr Rule kQ2K[] = {{Role::kV, Layers::kManyQueries, kQ4_K},
                         {Role::kV, Layers::kAll, kQ3_K},
                         {Role::kDown, Layers::kAll, kQ3_K},
                         {Role::kAttentionOutput, Layers::kAll, kQ3_K}};
constexpr Rule kQ2S[] = {{Role::kV, Layers::kManyQueries, kQ4_K},
                         {Role::kDown, Layers::kFirstEighth, kQ4_K}};
constexpr Rule kQ3M[] = {
    {Role::kV, Layers::kFirstTwo, kQ5_K},          {Role::kV, Layers::kAll, kQ4_K},
    {Role::kDown, Layers::kFirstSixteenth, kQ5_K}, {Role::kDown, Layers::kAll, kQ4_K},
    {Role::kAttentionOutput, Layers::kAll, kQ4_K}, {Role::kQkv, Layers::kAll, kQ4_K}};
constexpr Rule kQ3L[] = {{Role::kV, Layers::kAll, kQ5_K},
                         {Role::kDown, Layers::kAll, kQ5_K},
                         {Role::kAttentionOutput, Layers::kAll, kQ5_K},
                         {Role::kQkv, Layers::kAll, kQ4_K}};
constexpr Rule kQ4S[] = {{Role::kV, Layers::kFirstFour, kQ5_K},
                         {Role::kDown, Layers::kFirstEighth, kQ5_K}};
constexpr Rule kQ4M[] = {{Role::kV, Layers::kEnds, kQ6_K},
                         {Role::kDown, Layers::kEnds, kQ6_K},
                         {Role::kQkv, Layers::kAll, kQ5_K}};
constexpr Rule kQ5M[] = {{Role::kV, Layers::kEnds, kQ6_K},
                         {Role::kDown, Layers::kEnds, kQ6_K},
                         {Role::kQkv, Layers::kAll, kQ6_K}};
constexpr Rule kLevels4[] = {{Role::kV, Layers::kManyQueries, kQ5_K},
                             {Role::kDown, Layers::kFirstEighthPlain, kQ5_K}};

constexpr Rule kIQ3M[] = {
    {Role::kV, Layers::kAll, kQ4_K},
    {Role::kQkv, Layers::kAll, kQ4_K},
    {Role::kDown, Layers::kFirstEighth, kQ4_K},
    {Role::kDown, Layers::kEndsOfEightExperts, kQ4_K},
    {Role::kAttentionOutput, Layers::kAll, kQ4_K},
};
constexpr Rule kIQ3S[] = {{Role::kV, Layers::kManyQueries, kQ4_K},
                          {Role::kQkv, Layers::kManyQueries, kQ4_K}};
constexpr Rule kIQ3Xs[] = {
    {Role::kV, Layers::kManyQueries, kQ4_K},  {Role::kQkv, Layers::kManyQueries, kQ4_K},
    {Role::kQ, Layers::kAll, kIQ3_XXS},       {Role::kK, Layers::kAll, kIQ3_XXS},
    {Role::kGate, Layers::kMiddle, kIQ3_XXS}, {Role::kUp, Layers::kMiddle, kIQ3_XXS},
};
constexpr Rule kIQ3Xxs[] = {
    {Role::kEmbedding, Layers::kAll, kIQ3_S},  {Role::kV, Layers::kManyQueries, kQ4_K},
    {Role::kQkv, Layers::kManyQueries, kQ4_K}, {Role::kV, Layers::kPlain, kIQ3_S},
    {Role::kQkv, Layers::kPlain, kIQ3_S},      {Role::kQ, Layers::kAll, kIQ2_S},
    {Role::kK, Layers::kAll, kIQ2_S},          {Role::kDown, Layers::kFirstEighthPlain, kQ4_K},
    {Role::kDown, Layers::kPlain, kQ3_K},      {Role::kAttentionOutput, Layers::kAll, kIQ3_S},
};
// For IQ2_M and IQ2_S.
constexpr Rule kIQ2M[] = {
    {Role::kEmbedding, Layers::kAll, kIQ3_S},
    {Role::kV, Layers::kManyOrExperts, kQ4_K},
    {Role::kQkv, Layers::kManyOrExperts, kQ4_K},
    {Role::kV, Layers::kAll, kIQ3_S},
    {Role::kQkv, Layers::kAll, kIQ3_S},
    {Role::kK, Layers::kEightExperts, kQ4_K},
    {Role::kDown, Layers::kFirstEighth, kIQ3_S},
    {Role::kAttentionOutput, Layers::kEightExperts, kQ5_K},
    {Role::kAttentionOutput, Layers::kAll, kIQ3_S},
};
constexpr Rule kIQ1[] = {
    {Role::kEmbedding, Layers::kAll, kQ2_K},
    {Role::kV, Layers::kManyOrExperts, kQ4_K},
    {Role::kQkv, Layers::kManyOrExperts, kQ4_K},
    {Role::kV, Layers::kAll, kQ2_K},
    {Role::kQkv, Layers::kAll, kQ2_K},
    {Role::kK, Layers::kEightExperts, kQ4_K},
    {Role::kDown, Layers::kFirstEighth, kQ2_K},
    {Role::kAttentionOutput, Layers::kEightExperts, kQ5_K},
    {Role::kAttentionOutput, Layers::kAll, kIQ2_XXS},
};
// For IQ2_XS and IQ2_XXS: the same rules without the attention output, which has the base type.
constexpr auto kIQ2Xs = std::span(kIQ1).first<std::size(kIQ1) - 1>();
constexpr Rule kTernary[] = {{Role::kEmbedding, Layers::kAll, kQ4_K}};

constexpr Recipe kRecipes[] = {
    {.name = "F32", .file_type = 0, .base = kF32},
    {.name = "F16", .file_type = 1, .base = kF16},
    {.name = "BF16", .file_type = 32, .base = kBF16},
    {.name = "Q8_0", .file_type = 7, .base = kQ8_0},
    {.name = "Q6_K", .file_type = 18, .base = kQ6_K},
    {.name = "Q5_K_M", .file_type = 17, .base = kQ5_K, .rules = kQ5M},
    {.name = "Q5_K_S", .file_type = 16, .base = kQ5_K},
    {.name = "Q5_1", .file_type = 9, .base = kQ5_1},
    {.name = "Q5_0", .file_type = 8, .base = kQ5_0},
    {.name = "Q4_K_M", .file_type = 15, .base = kQ4_K, .rules = kQ4M},
    {.name = "Q4_K_S", .file_type = 14, .base = kQ4_K, .rules = kQ4S},
    {.name = "IQ4_NL", .file_type = 25, .base = kIQ4_NL, .rules = kLevels4},
    {.name = "IQ4_XS", .file_type = 30, .base = kIQ4_XS, .rules = kLevels4},
    {.name = "Q4_1", .file_type = 3, .base = kQ4_1},
    {.name = "Q4_0", .file_type = 2, .base = kQ4_0},
    {.name = "MXFP4_MOE", .file_type = 38, .base = kMXFP4, .experts_only = true},
    {.name = "Q3_K_L", .file_type = 13, .base = kQ3_K, .rules = kQ3L},
    {.name = "Q3_K_M", .file_type = 12, .base = kQ3_K, .rules = kQ3M},
    {.name = "Q3_K_S", .file_type = 11, .base = kQ3_K},
    {.name = "Q2_K", .file_type = 10, .base = kQ2_K, .rules = kQ2K},
    {.name = "Q2_K_S", .file_type = 21, .base = kQ2_K, .rules = kQ2S},
    {.name = "IQ3_M", .file_type = 27, .base = kIQ3_S, .rules = kIQ3M},
    {.name = "IQ3_S", .file_type = 26, .base = kIQ3_S, .rules = kIQ3S},
    {.name = "IQ3_XS", .file_type = 22, .base = kIQ3_S, .rules = kIQ3Xs},
    {.name = "IQ3_XXS", .file_type = 23, .base = kIQ3_XXS, .rules = kIQ3Xxs, .output = kQ5_K},
    {.name = "IQ2_M", .file_type = 29, .base = kIQ2_S, .rules = kIQ2M, .output = kQ5_K},
    {.name = "IQ2_S", .file_type = 28, .base = kIQ2_XS, .rules = kIQ2M, .output = kQ5_K},
    {.name = "IQ2_XS", .file_type = 20, .base = kIQ2_XS, .rules = kIQ2Xs, .output = kQ5_K},
    {.name = "IQ2_XXS", .file_type = 19, .base = kIQ2_XXS, .rules = kIQ2Xs, .output = kQ5_K},
    {.name = "IQ1_M", .file_type = 31, .base = kIQ1_M, .rules = kIQ1, .output = kQ5_K},
    {.name = "IQ1_S", .file_type = 24, .base = kIQ1_S, .rules = kIQ1, .output = kQ5_K},
    {.name = "TQ2_0", .file_type = 37, .base = kTQ2_0, .rules = kTernary},
    {.name = "TQ1_0", .file_type = 36, .base = kTQ1_0, .rules = kTernary},
};

bool applies(Layers layers, uint32_t layer, const ModelTraits& model) {
  const uint32_t n = model.layers, eighth = n / 8;
  switch (layers) {
    case Layers::kAll:
      return true;
    case Layers::kFirstTwo:
      return layer < 2;
    case Layers::kFirstFour:
      return layer < 4;
    case Layers::kFirstSixteenth:
      return layer < n / 16;
    case Layers::kFirstEighth:
      return layer < eighth;
    case Layers::kFirstEighthPlain:
      return layer < eighth && !model.importance;
    case Layers::kMiddle:
      return layer >= eighth && layer < 7 * n / 8;
    case Layers::kEnds:
      return layer < eighth || layer >= 7 * n / 8 || (layer - eighth) % 3 == 2;
    case Layers::kEndsOfEightExperts:
      return model.experts == 8 && applies(Layers::kEnds, layer, model);
    case Layers::kPlain:
      return !model.importance;
    case Layers::kManyQueries:
      return model.queries_each >= 4;
    case Layers::kManyOrExperts:
      return model.queries_each >= 4 || model.experts >= 4;
    case Layers::kEightExperts:
      return model.experts == 8;
  }
  return false;
}

// Whether the type is one of IQ2 and IQ1.
constexpr bool is_tiny(DType type) { return type >= kIQ2_S && type <= kIQ1_M; }

// In a model of eight experts nearly all weights are the experts', so more bits for the attention
// matrices hardly make the file larger. The rules of IQ2 and IQ1 set these types themselves.
bool of_eight(const Recipe& recipe, Role role, const ModelTraits& model, DType& type) {
  if (model.experts != 8 || is_tiny(recipe.base)) return false;
  if (role == Role::kK || role == Role::kV) type = kQ8_0;
  const bool at_most_four = recipe.base == kQ4_K || recipe.base == kQ3_K || recipe.base == kQ2_K ||
                            recipe.base == kIQ4_NL || recipe.base == kIQ4_XS ||
                            recipe.base == kIQ3_S || recipe.base == kIQ3_XXS;
  if (role == Role::kAttentionOutput && at_most_four) type = kQ5_K;
  return role == Role::kK || role == Role::kV || role == Role::kAttentionOutput;
}

bool is_output(const Part& part, const ModelTraits& model) {
  return part.role == Role::kOutput || (part.role == Role::kEmbedding && model.tied);
}

DType chosen(const Recipe& recipe, const Part& part, const ModelTraits& model) {
  if (recipe.experts_only) return part.expert ? recipe.base : kQ8_0;
  if (kernels::dtype_info(recipe.base).block == 1) return recipe.base;
  if (is_output(part, model)) return recipe.base == kQ8_0 ? kQ8_0 : recipe.output;
  DType type = recipe.base;
  if (type != kQ8_0 && of_eight(recipe, part.role, model, type)) return type;
  for (const Rule& rule : recipe.rules)
    if (rule.role == part.role && applies(rule.layers, part.layer, model)) return rule.type;
  return recipe.base;
}

constexpr std::pair<std::string_view, Role> kRoles[] = {
    {"attn_q", Role::kQ},     {"attn_k", Role::kK},      {"attn_v", Role::kV},
    {"attn_qkv", Role::kQkv}, {"ffn_gate", Role::kGate}, {"attn_output", Role::kAttentionOutput},
    {"ffn_up", Role::kUp},    {"ffn_down", Role::kDown},
};

}  // namespace

std::span<const Recipe> recipes() { return kRecipes; }

base::Result<const Recipe*> find_recipe(std::string_view name) {
  const auto upper = [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; };
  std::string wanted(name), known;
  std::transform(wanted.begin(), wanted.end(), wanted.begin(), upper);
  for (const Recipe& recipe : kRecipes) {
    if (recipe.name == wanted) return &recipe;
    known += (known.empty() ? "" : ", ") + std::string(recipe.name);
  }
  return base::fail("--type {}: no such type of file; kvick writes {}", name, known);
}

Part part_of(std::string_view tensor) {
  if (tensor == "output.weight") return {.role = Role::kOutput};
  if (tensor == "token_embd.weight") return {.role = Role::kEmbedding};
  Part part;
  if (!tensor.starts_with("blk.")) return part;
  tensor.remove_prefix(4);
  const size_t dot = tensor.find('.');
  if (dot == std::string_view::npos) return part;
  const auto read = std::from_chars(tensor.data(), tensor.data() + dot, part.layer);
  if (read.ec != std::errc() || read.ptr != tensor.data() + dot) return {};
  tensor.remove_prefix(dot + 1);
  std::string_view name = tensor.substr(0, tensor.find('.'));
  part.expert = name.ends_with("_exps");
  for (const std::string_view suffix : {"_exps", "_shexp"})
    if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  for (const auto& [known, role] : kRoles)
    if (name == known) part.role = role;
  return part;
}

bool is_quantised(std::string_view tensor, std::span<const uint64_t> shape) {
  if (shape.size() < 2 || !tensor.ends_with(".weight")) return false;
  for (const std::string_view kept :
       {"_norm.weight", "ffn_gate_inp", "position_embd", "token_types", "rope_f", "altup", "laurel",
        "per_layer_model_proj", "ssm_conv1d", "shortconv.conv", "attn_sinks"})
    if (tensor.find(kept) != std::string_view::npos) return false;
  return true;
}

DType fitting_type(DType type, uint64_t inputs) {
  if (inputs % kernels::dtype_info(type).block == 0) return type;
  DType smaller = kF16;
  if (type == kIQ4_XS || type == kIQ3_S || type == kIQ3_XXS || is_tiny(type)) smaller = kIQ4_NL;
  if (type == kQ2_K || type == kQ3_K || type == kTQ1_0 || type == kTQ2_0) smaller = kQ4_0;
  if (type == kQ4_K) smaller = kQ5_0;
  if (type == kQ5_K) smaller = kQ5_1;
  if (type == kQ6_K) smaller = kQ8_0;
  return inputs % kernels::dtype_info(smaller).block == 0 ? smaller : kF16;
}

DType type_of(const Recipe& recipe, std::string_view tensor, uint64_t inputs,
              const ModelTraits& model) {
  const Part part = part_of(tensor);
  const DType type = chosen(recipe, part, model);
  // An output matrix whose rows do not fit gets a larger type.
  const bool fits = inputs % kernels::dtype_info(type).block == 0;
  return fitting_type(!fits && is_output(part, model) ? kQ8_0 : type, inputs);
}

bool needs_importance(std::string_view tensor, DType type) {
  const Role role = part_of(tensor).role;
  return is_tiny(type) && role != Role::kEmbedding && role != Role::kOutput;
}

}  // namespace kvick::quantize
