#pragma once
// kvick as the tests of this folder run it, and the files that they run it on.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reference.h"

#include "engine/core/engine.h"

namespace kvick::parity {

// Where the default model is (environment variable KVICK_TEST_MODEL), and the folder of texts and
// checkpoints that are not part of the project (KVICK_TEST_DATA). Tests that need what is not there
// are skipped.
std::optional<std::string> default_model();
std::optional<std::string> data_file(const std::string& name);

// Runs make_model with these arguments; the path of the new file (or folder), which the next call
// may overwrite.
std::string make_model(const std::vector<std::string>& arguments, const std::string& name);

// The model file of a case, made now if it can be; nullopt if it takes what is not there. Fails the
// test if the bytes are not those that the peer read.
std::optional<std::string> model_of(const Case& of);

// Throws base::Bug with the message of any error.
std::unique_ptr<engine::Engine> open_engine(const std::string& path,
                                            base::Isa isa = base::best_isa());

// Logits of every token, [ids][vocab], all in one batch. The references of logits were made with a
// float32 cache.
std::vector<float> logits_of(engine::Engine& engine, const std::vector<Token>& ids,
                             kernels::DType cache = kernels::DType::kF32);

// What the model makes of these tokens as one text: an embedding, or a reranker's score.
std::vector<float> pooled_of(engine::Engine& engine, const std::vector<Token>& ids);

}  // namespace kvick::parity
