#pragma once
// A model by its repository on a Hugging Face hub, hf:owner/repo[:TAG][@revision]: which of the
// repository's files it is. The same rules choose among files that have been fetched.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvick::cli {

struct HubName {
  std::string repo;      // owner/repo
  std::string tag;       // the type of weights, such as Q4_K_M; empty: whatever is best
  std::string revision;  // empty: main
};

// Nothing if the text is no such name; hf:owner/repo/file is one of a file.
std::optional<HubName> parse_hub_name(std::string_view text);
// The name of one of the repository's files, as parse_reference takes it.
std::string hub_file_name(const HubName& name, std::string_view file);
// The folder of the repository, relative to the model cache. Errors: those of parse_reference.
base::Result<std::string> hub_folder(const HubName& name);

struct HubChoice {
  std::vector<std::string> files;  // the first is what is opened, or config.json last of a folder
  bool folder = false;             // safetensors and what belongs to them
};

// Which of a repository's files make the model. With a tag: the GGUF file whose name ends with it,
// in small or capital letters, with all of its parts if it is split. Without: Q4_K_M, else the type
// with the nearest number of bits, else the folder of safetensors. Errors: nothing to choose from,
// no such tag (lists the existing ones), missing parts.
base::Result<HubChoice> choose_hub_files(std::span<const std::string> files, const HubName& name);

}  // namespace kvick::cli
