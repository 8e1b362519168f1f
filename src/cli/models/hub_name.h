#pragma once
// A model named by its repository on a Hugging Face hub, hf:owner/repo[:TAG][@revision]: which of
// the repository's files belong to it. The same rules choose among files in the cache.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvick::cli {

struct HubName {
  std::string repo;      // owner/repo
  std::string tag;       // the type of weights, such as Q4_K_M; empty: the best available
  std::string revision;  // empty: main
};

// Returns nothing if the text is not such a name; hf:owner/repo/file names a file.
std::optional<HubName> parse_hub_name(std::string_view text);
// Returns the name of one file of the repository, in the form that parse_reference takes.
std::string hub_file_name(const HubName& name, std::string_view file);
// Returns the repository's folder, relative to the model cache. Errors: those of parse_reference.
base::Result<std::string> hub_folder(const HubName& name);

struct HubChoice {
  std::vector<std::string> files;  // the first is opened; a folder has config.json last
  bool folder = false;             // a folder of safetensors with its other files
};

// Chooses the files of a repository that make the model. With a tag: the GGUF file whose name ends
// with it, in upper or lower case, with all parts of a split file. Without a tag: Q4_K_M, else the
// type with the nearest number of bits, else the folder of safetensors. Errors: nothing to choose
// from, no such tag (lists the existing ones), missing parts.
base::Result<HubChoice> choose_hub_files(std::span<const std::string> files, const HubName& name);

}  // namespace kvick::cli
