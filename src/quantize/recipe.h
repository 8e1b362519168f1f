#pragma once
// Chooses the type of each tensor of a quantised file: the mixtures behind llama.cpp's file types
// (llama-quant.cpp), as rows of a table. Tensors in which errors hurt most get more bits.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernels/formats/dtype.h"

namespace kvick::quantize {

// The role of a tensor in the model.
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

// The layers to which a rule applies.
enum class Layers : uint8_t {
  kAll,
  kFirstTwo,
  kFirstFour,
  kFirstSixteenth,
  kFirstEighth,
  kFirstEighthPlain,    // kFirstEighth, unless importance is known
  kMiddle,              // all but the first and last eighth
  kEnds,                // the first and last eighth, and every third layer between
  kEndsOfEightExperts,  // kEnds, in mixtures of eight experts
  kPlain,               // all layers, unless importance is known
  kManyQueries,         // all layers, in models with at least four query heads per KV head
  kManyOrExperts,       // kManyQueries, and all layers in mixtures of at least four experts
  kEightExperts         // all layers, in mixtures of eight experts
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
  std::span<const Rule> rules = {};               // the first matching rule applies
  bool experts_only = false;                      // base is for experts; all other tensors are Q8_0
  kernels::DType output = kernels::DType::kQ6_K;  // of the output matrix, if base is smaller
};

std::span<const Recipe> recipes();
// Ignores case. Error: an unknown name; the message lists the names.
base::Result<const Recipe*> find_recipe(std::string_view name);

// The properties of a model on which rules depend.
struct ModelTraits {
  uint32_t layers = 0;
  uint32_t queries_each = 1;  // query heads per KV head
  uint32_t experts = 0;
  bool tied = false;        // the embedding is also the output matrix
  bool importance = false;  // importance is known
};

// What a name such as "blk.3.attn_v.weight" says: role kV, layer 3. layer UINT32_MAX: not in a
// layer.
struct Part {
  Role role = Role::kOther;
  uint32_t layer = UINT32_MAX;
  bool expert = false;
};
Part part_of(std::string_view tensor);

// Returns whether a tensor is a matrix of weights. Norms, biases, routers and small tables are not;
// they are not quantised.
bool is_quantised(std::string_view tensor, std::span<const uint64_t> shape);

// Returns the type of a tensor with rows of `inputs` weights. If a row is not a whole number of the
// type's blocks, returns a type with blocks of 32 and at least as many bits, or F16.
kernels::DType type_of(const Recipe& recipe, std::string_view tensor, uint64_t inputs,
                       const ModelTraits& model);
kernels::DType fitting_type(kernels::DType type, uint64_t inputs);

// Returns whether a tensor of that type is of little use if its importance is not known. Embeddings
// and the output matrix never need it.
bool needs_importance(std::string_view tensor, kernels::DType type);

}  // namespace kvick::quantize
