#pragma once
// Scores the rows of one document for the policy kvzip (KVzip, Kim et al. 2025, arXiv 2505.23416):
// the model reads the document, is asked to repeat it, and gets the answer, chunk by chunk. A row's
// score is the largest share of attention that a token of a question or an answer pays to it.
//
// The paper's shares are of the rows of a chunk and of the question and answer alone, which takes
// less time; here they are of all rows that a token sees, as in the model.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "distil/distil.h"

namespace kvick::distil {

// Where a document stands in the prompts that begin with it.
enum class Stands : uint8_t {
  kSystem,  // at the beginning of the system message
  kUser,    // at the beginning of the user's message, without a system message
  kRaw,     // at the beginning of a prompt without a chat template
};

struct Document {
  // As prompts begin, whatever follows the document: what a chat template puts before it included,
  // and without its last tokens where these depend on what follows.
  std::vector<engine::Token> tokens;
  // Returns the tokens behind these that ask the model for something.
  std::function<base::Result<std::vector<engine::Token>>(const std::string& request)> ask;
};
// White space at the text's end is left out. The engine must outlive the document. Errors: those of
// Engine::chat_tokens; a text of too few tokens.
base::Result<Document> document_of(const engine::Engine& engine, const std::string& text,
                                   Stands stands);

struct KvzipOptions {
  uint32_t chunk = 2048;  // tokens of the document that are repeated at a time
  std::function<void(uint64_t done, uint64_t total)> progress = {};  // tokens
};

struct DocumentScores {
  kv::Predictor predictor;  // of the form document
  uint64_t tokens = 0;      // of the document
  uint32_t chunks = 0;
  // Share of all rows of all heads that never get as much as a hundredth of a token's attention.
  double unused = 0;
};

// Deterministic: the result does not depend on the number of threads. Errors: a model whose layers
// are not alike, or keep no rows; a document that, with what repeats it, is longer than the
// context; no room; activations that are not finite.
base::Result<DocumentScores> score_document(engine::Engine& engine, const Document& document,
                                            const KvzipOptions& options);

// One layer's queries of the fresh tokens, and the keys of all tokens that these see.
struct FreshQueries {
  uint32_t past = 0, fresh = 0;  // tokens before, and the fresh ones
  const float* q = nullptr;      // after rotary position, [fresh][heads][head_dim]
  const float* k = nullptr;      // after rotary position, [past + fresh][kv_heads][head_dim]
};
// Raises each number of `most`, [kv_heads][past], to the largest share of attention that a query of
// the KV head's group pays to the row.
void raise_to_shares(const FreshQueries& layer, const model::LayerConfig& heads,
                     const kernels::Table& kernels, base::ThreadPool& pool, std::span<float> most);

// The predictor file to write. text: the name of the document.
engine::PredictorFile file_of(const DocumentScores& made, const engine::ModelIdentity& model,
                              const std::string& text);

}  // namespace kvick::distil
