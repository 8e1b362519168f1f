#include "cli/models/hub_name.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>
#include <tuple>

#include "cli/models/reference.h"
#include "io/file/split_name.h"

namespace kvick::cli {
namespace {

constexpr std::string_view kPreferred = "q4_k_m";
constexpr int kPreferredBits = 4;

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::string_view base_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? path : path.substr(slash + 1);
}

// A GGUF file, or the parts of one.
struct Candidate {
  std::vector<std::string> files;
  std::string stem;  // the name in lower case, without folder, part number and .gguf
  std::string type;  // q4_k_m; empty: the name does not end with one
};

// Returns whether a lower-case word looks like a type, such as Q4_K_M, IQ2_XXS, TQ1_0, F16, BF16 or
// MXFP4: letters, then a digit.
bool looks_like_type(std::string_view small) {
  for (const std::string_view letters : {"q", "iq", "tq", "f", "bf", "mxfp", "nvfp", "fp"})
    if (small.size() > letters.size() && small.starts_with(letters) &&
        std::isdigit(static_cast<unsigned char>(small[letters.size()])))
      return true;
  return false;
}

std::string type_of(const std::string& stem) {
  const size_t mark = stem.find_last_of("-.");
  const std::string end = mark == std::string::npos ? stem : stem.substr(mark + 1);
  return looks_like_type(end) ? end : std::string();
}

// Returns whether the stem ends with the tag as a whole word: UD-Q4_K_XL ends with Q4_K_XL, but
// Q4_K_M does not end with K_M.
bool ends_with_tag(std::string_view stem, std::string_view tag) {
  if (tag.empty() || !stem.ends_with(tag)) return false;
  if (stem.size() == tag.size()) return true;
  const char before = stem[stem.size() - tag.size() - 1];
  return before == '-' || before == '.' || (before == '_' && looks_like_type(tag));
}

int bits_of(std::string_view type) {
  const size_t digit = type.find_first_of("0123456789");
  return digit == type.npos ? 99 : std::atoi(std::string(type.substr(digit)).c_str());
}

// Returns the sort key of candidates; without a tag, the smallest is chosen.
auto rank_of(const Candidate& one) {
  const int bits = bits_of(one.type);
  return std::tuple(one.type != kPreferred, std::abs(bits - kPreferredBits), bits < kPreferredBits,
                    !one.type.ends_with("_k_m"), one.stem.size(), one.stem);
}

// Leaves out image projectors and importance matrices, which are GGUF files but not models.
bool is_model_file(std::string_view path) {
  const std::string small = lower(base_name(path));
  return small.ends_with(".gguf") && !small.starts_with('.') &&
         small.find("mmproj") == std::string::npos && small.find("imatrix") == std::string::npos;
}

std::vector<Candidate> candidates_of(std::span<const std::string> files) {
  std::vector<Candidate> out;
  for (const std::string& file : files) {
    if (!is_model_file(file)) continue;
    const auto split = io::parse_split_name(file);
    if (split && split->part > 1) continue;
    const std::string whole = split ? split->prefix : file.substr(0, file.size() - 5);
    Candidate one = {.files = io::split_paths(file), .stem = lower(base_name(whole)), .type = {}};
    one.type = type_of(one.stem);
    out.push_back(std::move(one));
  }
  return out;
}

std::string tags_of(std::span<const Candidate> candidates) {
  std::set<std::string> tags;
  for (const Candidate& one : candidates) {
    std::string tag = one.type.empty() ? one.stem : one.type;
    std::transform(tag.begin(), tag.end(), tag.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    tags.insert(std::move(tag));
  }
  return fmt::format("{}", fmt::join(tags, ", "));
}

base::Result<HubChoice> chosen(const Candidate& one, std::span<const std::string> files,
                               const HubName& name) {
  for (const std::string& part : one.files)
    if (std::find(files.begin(), files.end(), part) == files.end())
      return base::fail("hf:{} does not have {}, which is a part of {}", name.repo, part,
                        one.files.front());
  return HubChoice{.files = one.files};
}

// Chooses the files of a safetensors folder. config.json comes last, because a folder that has it
// counts as a model.
base::Result<HubChoice> folder_choice(std::span<const std::string> files, const HubName& name) {
  HubChoice out{.files = {}, .folder = true};
  bool weights = false, config = false;
  for (const std::string& file : files) {
    const size_t dot = file.rfind('.');
    const std::string kind = dot == std::string::npos ? "" : file.substr(dot);
    const bool is_weights = kind == ".safetensors";
    if (file.find('/') != std::string::npos || file.starts_with('.') ||
        file.starts_with("consolidated"))
      continue;
    config |= file == "config.json";
    weights |= is_weights;
    if ((is_weights || kind == ".json" || kind == ".jinja" || kind == ".model") &&
        file != "config.json")
      out.files.push_back(file);
  }
  if (!weights || !config)
    return base::fail("hf:{} has neither a GGUF file nor a folder of safetensors with config.json",
                      name.repo);
  out.files.emplace_back("config.json");
  return out;
}

}  // namespace

std::optional<HubName> parse_hub_name(std::string_view text) {
  if (!text.starts_with("hf:")) return std::nullopt;
  const std::string_view rest = text.substr(3);
  if (std::count(rest.begin(), rest.end(), '/') != 1) return std::nullopt;
  const size_t end = std::min(rest.find_first_of(":@"), rest.size());
  HubName name{.repo = std::string(rest.substr(0, end)), .tag = {}, .revision = {}};
  if (name.repo.empty() || name.repo.front() == '/' || name.repo.back() == '/') return std::nullopt;
  for (size_t at = end; at < rest.size();) {
    const size_t next = std::min(rest.find_first_of(":@", at + 1), rest.size());
    std::string& part = rest[at] == ':' ? name.tag : name.revision;
    if (!part.empty() || next == at + 1) return std::nullopt;
    part = rest.substr(at + 1, next - at - 1);
    at = next;
  }
  return name;
}

std::string hub_file_name(const HubName& name, std::string_view file) {
  return fmt::format("hf:{}{}{}/{}", name.repo, name.revision.empty() ? "" : "@", name.revision,
                     file);
}

base::Result<std::string> hub_folder(const HubName& name) {
  KVICK_TRY(const Reference file,
            parse_reference(hub_file_name(name, "x"), "https://huggingface.co"));
  return file.cache_path.substr(0, file.cache_path.size() - 2);
}

base::Result<HubChoice> choose_hub_files(std::span<const std::string> files, const HubName& name) {
  const std::vector<Candidate> candidates = candidates_of(files);
  if (candidates.empty() && name.tag.empty()) return folder_choice(files, name);
  if (candidates.empty())
    return base::fail("hf:{} has no GGUF file, and :{} names a type of GGUF file: leave it out",
                      name.repo, name.tag);
  const std::string tag = lower(name.tag);
  const Candidate* best = nullptr;
  for (const Candidate& one : candidates) {
    if (!tag.empty() && !ends_with_tag(one.stem, tag)) continue;
    if (best == nullptr || rank_of(one) < rank_of(*best)) best = &one;
  }
  if (best == nullptr)
    return base::fail("hf:{} has no {}; it has {}", name.repo, name.tag, tags_of(candidates));
  return chosen(*best, files, name);
}

}  // namespace kvick::cli
