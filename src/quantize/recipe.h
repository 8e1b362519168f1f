#pragma once
// Which type each tensor of a quantised file gets: the mixtures that llama.cpp's file types name
// (llama-quant.cpp), as rows of a table. Tensors that hurt most have more bits.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernels/formats/dtype.h"

namespace kvick::quantize {

// What a tensor does in the model.
enum class Role : uint8_t {
  kOther,
  kOutput,
  kEmbedding,
  kQ,
  kK,
  kV,
  kQkv,
  kAttentionOutput,
  kGate,
  kUp,
  kDown
};

// The layers that a rule is for.
enum class Layers : uint8_t {
  kAll,
  kFirstTwo,
  kFirstFour,
  kFirstSixteenth,
  kFirstEighth,
  kFirstEighthPlain,    // unless importance is known
  kMiddle,              // all but the first and last eighth
  kEnds,                // the first and last eighth, and every third between
  kEndsOfEightExperts,  // kEnds, in mixtures of eight experts
  kPlain,               // all, unless importance is known
  kManyQueries,         // all, of models with four queries or more to a KV head
  kManyOrExperts,       // kManyQueries, and all in mixtures of four or more experts
  kEightExperts         // all, of mixtures of eight experts
};

struct Rule {
  Role role;
  Layers layers;
  kernels::DType type;
};

struct Recipe {
  std::string_view name;
  uint32_t file_type;  // llama_ftype, the value of general.file_type
  kernels::DType base;
  std::span<const Rule> rules = {};               // the first that fits
  bool experts_only = false;                      // base is for experts; all else is Q8_0
  kernels::DType output = kernels::DType::kQ6_K;  // of the output matrix, if base is smaller
};

std::span<const Recipe> recipes();
// Upper and lower case are alike. Error: lists the names.
base::Result<const Recipe*> find_recipe(std::string_view name);

// The facts about a model that rules depend on.
struct ModelTraits {
  uint32_t layers = 0;
  uint32_t queries_each = 1;  // query heads to a KV head
  uint32_t experts = 0;
  bool tied = false;        // the embedding is the output matrix too
  bool importance = false;  // it is known (Importance)
};

// What a name such as "blk.3.attn_v.weight" says: role kV, layer 3. UINT32_MAX: in no layer.
struct Part {
  Role role = Role::kOther;
  uint32_t layer = UINT32_MAX;
  bool expert = false;
};
Part part_of(std::string_view tensor);

// Whether a tensor is a matrix of weights; norms, biases, routers and small tables are not, and
// stay as they are.
bool is_quantised(std::string_view tensor, std::span<const uint64_t> shape);

// The type of a tensor with rows of `inputs` weights. If that is no whole number of its blocks: a
// type with blocks of 32 and at least as many bits, or F16.
kernels::DType type_of(const Recipe& recipe, std::string_view tensor, uint64_t inputs,
                       const ModelTraits& model);
kernels::DType fitting_type(kernels::DType type, uint64_t inputs);

// Whether a tensor of that type is of little use if its importance is not known. Embeddings and the
// output matrix never need it.
bool needs_importance(std::string_view tensor, kernels::DType type);

}  // namespace kvick::quantize
