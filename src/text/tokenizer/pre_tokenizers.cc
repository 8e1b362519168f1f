// The pre-tokenizers that model files may name. The regular expressions are those in the models'
// tokenizer.json; https://github.com/ggml-org/llama.cpp, src/llama-vocab.cpp, lists them.

#include <fmt/ranges.h>
#include <vector>

#include "text/tokenizer/pretokenize.h"

namespace kvick::text {
namespace {

constexpr Split kWords = {
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
    Scanner::kGpt2};
constexpr Split kNumber = {R"(\p{N})", Scanner::kNumber};
constexpr Split kNumbers = {R"(\p{N}+)", Scanner::kNumbers};
constexpr Split kThreeDigits = {"[0-9][0-9][0-9]", Scanner::kThreeDigits};
// Follows kNumbers. The expression alone takes quadratic time.
constexpr Split kThrees = {R"(\p{N}{1,3}(?=(?:\p{N}{3})*$))", Scanner::kThrees};

constexpr Split kGpt2[] = {kWords};
constexpr Split kSmollm[] = {kNumber, kWords};
constexpr Split kDefault[] = {
    {R"([\p{P}\$\+<=>\^~\|]+)", Scanner::kPunctuation}, kWords, kNumbers, kThreeDigits};
constexpr Split kFalcon[] = {
    {R"([\p{P}\$\+<=>\^~\|`]+)", Scanner::kFalconPunctuation}, kWords, kThreeDigits};
constexpr Split kLlama3[] = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
     R"(\s*[\r\n]+|\s+(?!\S)|\s+)",
     Scanner::kLlama3}};
constexpr Split kQwen2[] = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
     R"(\s*[\r\n]+|\s+(?!\S)|\s+)",
     Scanner::kQwen2}};

// Without English contractions: an apostrophe stays with the Turkish suffix behind it.
constexpr Split kUfakzeka[] = {
    {R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

// gpt-oss, Llama 4, Phi-4-mini: words are split by case.
constexpr Split kGpt4o[] = {
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};
constexpr Split kTekken[] = {
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
     R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};
constexpr Split kQwen35[] = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
     R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

constexpr Split kAsciiWords = {
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
    R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr Split kDeepseek3[] = {
    {R"(\p{N}{1,3})"}, {"[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"}, kAsciiWords};
// Spark's line ends stay alone, and so does each digit.
constexpr Split kSpark[] = {
    kDeepseek3[0],
    kDeepseek3[1],
    {R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
     R"( ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)"},
    kNumber};
constexpr Split kDeepseekCoder[] = {{R"([\r\n])"},
                                    {R"(\s?\p{L}+)"},
                                    {R"(\s?\p{P}+)"},
                                    {"[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"},
                                    kNumber};
// Numbers in groups of three from the right; scripts without spaces; then words.
constexpr Split kAfmoe[] = {
    kNumbers,
    kThrees,
    {"[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf"
     "\u0e40-\u0e7f\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af"
     "\u1100-\u11ff]+"},
    kAsciiWords};
// Kimi K2's "&&[^\p{Han}]" is a look-ahead here.
constexpr Split kKimiK2[] = {
    {R"([\p{sc:Han}]+|)"
     R"([^\r\n\p{L}\p{N}]?(?:(?!\p{sc:Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])*)"
     R"((?:(?!\p{sc:Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"([^\r\n\p{L}\p{N}]?(?:(?!\p{sc:Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])+)"
     R"((?:(?!\p{sc:Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};
constexpr Split kBailing[] = {
    {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|)"
     R"(\s*[\r\n]|\s+(?!\S)|\s+)"}};
constexpr Split kSeedCoder[] = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|)"
     R"(\s*[\r\n]+|\s+(?!\S)|\s+)"}};
constexpr Split kExaoneMoe[] = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}|)"
     R"( ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)"}};
constexpr Split kMinicpm5[] = {
    {R"(\p{N}{1,3})"},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
     R"(\s*[\r\n]+|\s+(?!\S)|\s+)"}};
constexpr Split kJais2[] = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
     R"(\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|)"
     R"(\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})"}};
constexpr Split kBloom[] = {{" ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"}};
constexpr Split kViking[] = {kBloom[0], kNumber};
constexpr Split kLines[] = {{R"([^\n]+|[\n]+)"}, kQwen2[0]};
// The letters of scripts that distinguish upper and lower case.
constexpr Split kDeepseekLlm[] = {
    {R"([\r\n])"},
    {"\\s?["
     "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-"
     "\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1"
     "\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-"
     "\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15"
     "\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d"
     "\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb"
     "\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d"
     "\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183"
     "\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b"
     "\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-"
     "\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb"
     "\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
     "]+"},
    {"\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"},
    {R"(\s+$)"},
    {"[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"},
    kNumbers};
// DeepSeek-V2-Lite's folder. Its GGUF files are named deepseek-llm, whose runs of numbers stay
// whole.
constexpr Split kDeepseekV2[] = {kDeepseekLlm[0], kDeepseekLlm[1], kDeepseekLlm[2],
                                 kDeepseekLlm[3], kDeepseekLlm[4], kNumber};
constexpr Split kYoutu[] = {
    {"[\uac00-\ud7a3\u3131-\u318e]+|"
     "[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f\ufe30-\ufe4f]+|"
     "[\u3105-\u312f]+|[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"},
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};
// Digits that no word follows, \d{1,3}(?=(?:\d{3})*\b), in two steps, because one expression takes
// quadratic time; then words split by case.
constexpr Split kTinyAya[] = {{R"((?<!\d)\d++(?![\p{L}\p{M}\p{Pc}]))"},
                              {R"(\d{1,3}(?=(?:\d{3})*$))", Scanner::kDigitThrees},
                              kGpt4o[0]};
constexpr Split kChameleon[] = {{"<sentinel:[0-9]+>"},       {"IMGIMG[A-I]{1,4}Z"},
                                {R"([\t\n]|    |  )"},       kNumber,
                                {R"([\p{P}!-/:-@\[-`{-~])"}, kWords};
constexpr Split kSuperBpe[] = {kNumbers, kThrees};

constexpr PreTokenizer kKnown[] = {
    {"default", kDefault},
    {"", kDefault},
    {"gpt-2", kGpt2},
    {"gpt2", kGpt2},
    {"phi-2", kGpt2},
    {"mpt", kGpt2},
    {"olmo", kGpt2},
    {"jais", kGpt2},
    {"trillion", kGpt2},
    {"gigachat", kGpt2},
    {"a.x-4.0", kGpt2},
    {"mellum", kGpt2},
    {"exaone4", kGpt2},
    {"granite-docling", kGpt2},
    {"modern-bert", kGpt2},
    {"jina-es", kGpt2},
    {"jina-de", kGpt2},
    {"jina-v1-en", kGpt2},
    {"jina-v2-es", kGpt2},
    {"jina-v2-de", kGpt2},
    {"jina-v2-code", kGpt2},
    {"roberta-bpe", kGpt2},
    {"smollm", kSmollm},
    {"starcoder", kSmollm},
    {"refact", kSmollm},
    {"command-r", kSmollm},
    {"codeshell", kSmollm},
    {"exaone", kSmollm},
    {"minerva-7b", kSmollm},
    {"mellum2", kSmollm},
    {"falcon", kFalcon},
    {"llama-bpe", kLlama3, true, true},
    {"llama3", kLlama3, true, true},
    {"llama-v3", kLlama3, true, true},
    {"falcon3", kLlama3, true, true},
    {"falcon-h1", kLlama3, true, true},
    {"pixtral", kLlama3, true, true},
    {"midm-2.0", kLlama3, true, true},
    {"lfm2", kLlama3, true, true},
    {"jina-v5-nano", kLlama3, true, true},
    {"dbrx", kLlama3},
    {"smaug-bpe", kLlama3},
    {"glm4", kLlama3, true},
    {"glm5", kLlama3, true},
    {"chatglm-bpe", kLlama3},
    {"qwen2", kQwen2},
    {"deepseek-r1-qwen", kQwen2},
    {"megrez", kQwen2},
    {"stablelm2", kQwen2},
    {"hunyuan", kQwen2},
    {"grok-2", kQwen2},
    {"solar-open", kQwen2},
    {"kormo", kQwen2},
    {"f2llmv2", kQwen2},
    {"ufakzeka", kUfakzeka},
    {"qwen35", kQwen35},
    {"gpt-4o", kGpt4o},
    {"llama4", kGpt4o},
    {"kanana2", kGpt4o},
    {"talkie", kGpt4o},
    {"minimax-m2", kGpt4o},
    {"granite-embed-multi-97m", kGpt4o, true},
    {"tekken", kTekken, true, true},
    {"deepseek-v3", kDeepseek3},
    {"hunyuan-dense", kDeepseek3},
    {"joyai-llm", kDeepseek3},
    {"hy_v4", kDeepseek3},
    {"spark2_5", kSpark},
    {"deepseek-coder", kDeepseekCoder},
    {"afmoe", kAfmoe},
    {"kimi-k2", kKimiK2},
    {"bailingmoe", kBailing},
    {"bailingmoe2", kBailing},
    {"llada-moe", kBailing},
    {"seed-coder", kSeedCoder},
    {"exaone-moe", kExaoneMoe},
    {"minicpm5", kMinicpm5, true},
    {"jais-2", kJais2},
    {"poro-chat", kBloom},
    {"bloom", kBloom},
    {"gpt3-finnish", kBloom},
    {"viking", kViking},
    {"laguna", kLines},
    {"superbpe", kSuperBpe},
    {"deepseek-llm", kDeepseekLlm},
    {"deepseek-v2", kDeepseekV2},
    {"youtu", kYoutu, true},
    {"tiny_aya", kTinyAya},
    {"cohere2moe", kTinyAya},
    {"chameleon", kChameleon, false, true},
};

}  // namespace

std::span<const PreTokenizer> pre_tokenizers() { return kKnown; }

const PreTokenizer* find_pre_tokenizer(std::string_view name) {
  for (const PreTokenizer& pre : kKnown)
    if (pre.name == name) return &pre;
  return nullptr;
}

std::string pre_tokenizer_names() {
  std::vector<std::string_view> names;
  for (const PreTokenizer& pre : kKnown)
    if (!pre.name.empty()) names.push_back(pre.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace kvick::text
