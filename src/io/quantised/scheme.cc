#include "io/quantised/scheme.h"

#include <string>
#include <string_view>

#include "io/file/builder.h"

namespace kvick::io {
namespace {

using Method = Scheme::Method;

constexpr uint64_t kMaxGroup = uint64_t{1} << 31;
constexpr std::string_view kMethods =
    "fp8, gptq, awq, mxfp4 and compressed-tensors (pack-quantized, int-quantized, float-quantized)";

// group_size -1: all inputs share a scale, which the shapes show too.
base::Status<> read_group(const JsonObject& fields, Scheme& scheme) {
  const auto element = fields.find("group_size");
  int64_t group = 0;
  if (!element) return base::Done{};
  if (element->get(group) != simdjson::SUCCESS || group < -1 || group == 0 ||
      group > static_cast<int64_t>(kMaxGroup))
    return base::fail("{} must be -1 or a whole number above 0", fields.label("group_size"));
  scheme.group = group < 0 ? kMaxGroup : static_cast<uint64_t>(group);
  return base::Done{};
}

base::Status<> read_gptq(const JsonObject& fields, Scheme& scheme) {
  KVICK_TRY(const uint64_t bits, fields.get_uint("bits"));
  if (bits != 4 && bits != 8)
    return base::fail("{} is {}; of gptq kvick reads 4 and 8 bits", fields.label("bits"), bits);
  scheme.bits = static_cast<uint32_t>(bits);
  KVICK_TRY(const std::string format, fields.get_string("checkpoint_format", std::string("gptq")));
  if (format != "gptq" && format != "gptq_v2")
    return base::fail("{} is {}; of gptq kvick reads gptq and gptq_v2",
                      fields.label("checkpoint_format"), in_quotes(format));
  KVICK_TRY(const bool marlin, fields.get_bool("is_marlin_format", false));
  if (marlin)
    return base::fail("{} is true; of gptq kvick reads gptq and gptq_v2",
                      fields.label("is_marlin_format"));
  scheme.zero_added = format == "gptq" ? 1 : 0;
  return read_group(fields, scheme);
}

base::Status<> read_awq(const JsonObject& fields, Scheme& scheme) {
  KVICK_TRY(const uint64_t bits, fields.get_uint("bits", 4));
  if (bits != 4)
    return base::fail("{} is {}; of awq kvick reads 4 bits", fields.label("bits"), bits);
  scheme.bits = 4;
  KVICK_TRY(std::string version, fields.get_string("version", std::string("gemm")));
  for (char& c : version) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (version != "gemm")
    return base::fail("{} is {}; of awq kvick reads gemm", fields.label("version"),
                      in_quotes(version));
  return read_group(fields, scheme);
}

base::Status<> read_blocks(const JsonObject& fields, std::string_view key, Scheme& scheme) {
  if (!fields.find(key)) return base::Done{};
  KVICK_TRY(const simdjson::dom::array sizes, fields.get_array(key));
  if (sizes.size() != 2 || sizes.at(0).get(scheme.block_outputs) != simdjson::SUCCESS ||
      sizes.at(1).get(scheme.block_inputs) != simdjson::SUCCESS || scheme.block_outputs == 0 ||
      scheme.block_inputs == 0)
    return base::fail("{} must be two whole numbers above 0", fields.label(key));
  return base::Done{};
}

// Refuses rotations that a model applies at run time.
base::Status<> refuse_transforms(const JsonObject& fields) {
  if (!fields.find("transform_config")) return base::Done{};
  KVICK_TRY(const JsonObject transforms, fields.get_object("transform_config"));
  size_t count = transforms.fields().size();
  if (transforms.find("config_groups")) {
    KVICK_TRY(const JsonObject groups, transforms.get_object("config_groups"));
    count = groups.fields().size();
  }
  if (count == 0) return base::Done{};
  return base::fail("{}: kvick does not apply transforms of compressed-tensors",
                    fields.label("transform_config"));
}

// Types and groups of each module follow from its tensors.
base::Status<> read_compressed(const JsonObject& fields, Scheme& scheme) {
  KVICK_TRY_VOID(refuse_transforms(fields));
  KVICK_TRY(const std::string format, fields.get_string("format"));
  for (const std::string_view known : {"pack-quantized", "int-quantized", "float-quantized",
                                       "naive-quantized", "mixed-precision", "dense"}) {
    if (format != known) continue;
    if (!fields.find("config_groups")) return base::Done{};
    KVICK_TRY(const JsonObject groups, fields.get_object("config_groups"));
    for (const auto& [name, value] : groups.fields()) {
      KVICK_TRY(const JsonObject group, JsonObject::from(value, groups.label(name)));
      if (!group.find("weights")) continue;
      KVICK_TRY(const JsonObject weights, group.get_object("weights"));
      KVICK_TRY_VOID(read_blocks(weights, "block_structure", scheme));
    }
    return base::Done{};
  }
  return base::fail(
      "{} is {}; of compressed-tensors kvick reads pack-quantized, int-quantized and "
      "float-quantized",
      fields.label("format"), in_quotes(format));
}

// MLX writes its numbers under both keys and names no method.
base::Status<> check_not_mlx(const JsonObject& config) {
  for (const std::string_view key : {"quantization", "quantization_config"}) {
    if (!config.find(key)) continue;
    const auto fields = config.get_object(key);
    if (!fields.ok() || fields->find("quant_method")) continue;
    if (fields->find("group_size") && fields->find("bits"))
      return base::fail(
          "{} is that of MLX, whose weights kvick does not read: take a GGUF file of the model, or "
          "its folder without quantisation",
          config.label(key));
  }
  return base::Done{};
}

}  // namespace

base::Result<Scheme> read_scheme(const JsonObject& config) {
  Scheme scheme;
  KVICK_TRY_VOID(check_not_mlx(config));
  // The first versions of compressed-tensors wrote the second key.
  for (const std::string_view key : {"quantization_config", "compression_config"}) {
    if (!config.find(key)) continue;
    KVICK_TRY(const JsonObject fields, config.get_object(key));
    KVICK_TRY(const std::string method, fields.get_string("quant_method"));
    if (method == "fp8") {
      scheme.method = Method::kFp8;
      KVICK_TRY_VOID(read_blocks(fields, "weight_block_size", scheme));
    } else if (method == "gptq") {
      scheme.method = Method::kGptq;
      KVICK_TRY_VOID(read_gptq(fields, scheme));
    } else if (method == "awq") {
      scheme.method = Method::kAwq;
      KVICK_TRY_VOID(read_awq(fields, scheme));
    } else if (method == "compressed-tensors") {
      scheme.method = Method::kCompressed;
      KVICK_TRY_VOID(read_compressed(fields, scheme));
    } else if (method == "mxfp4") {
      scheme.method = Method::kMxfp4;
    } else {
      return base::fail("{} is {}, which kvick does not read; it reads {}",
                        fields.label("quant_method"), in_quotes(method), kMethods);
    }
    return scheme;
  }
  return scheme;
}

}  // namespace kvick::io
