#pragma once
// Runs kvick for the tests of this folder, and finds or makes their files.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reference.h"

#include "engine/core/engine.h"

namespace kvick::parity {

// Return the default model (environment variable KVICK_TEST_MODEL), and a file in the folder of
// texts and checkpoints that are not part of the project (KVICK_TEST_DATA). Tests that need a
// missing file are skipped.
std::optional<std::string> default_model();
std::optional<std::string> data_file(const std::string& name);

// Runs make_model with these arguments. Returns the path of the new file or folder, which the next
// call may overwrite.
std::string make_model(const std::vector<std::string>& arguments, const std::string& name);

// Returns the model file of a case, made now if possible; nullopt if it needs a missing file. Fails
// the test if the bytes are not those that the peer read.
std::optional<std::string> model_of(const Case& of);

// Throws base::Bug with the message of any error.
std::unique_ptr<engine::Engine> open_engine(const std::string& path,
                                            base::Isa isa = base::best_isa());

// Returns the logits of every token, [ids][vocab], computed in one batch. The references of logits
// were made with a float32 cache.
std::vector<float> logits_of(engine::Engine& engine, const std::vector<Token>& ids,
                             kernels::DType cache = kernels::DType::kF32);

// Returns the model's result for these tokens as one text: an embedding, or a reranker's score.
std::vector<float> pooled_of(engine::Engine& engine, const std::vector<Token>& ids);

}  // namespace kvick::parity
