#include "server/openai/kv_transfer.h"

namespace kvick::server {
namespace {

// The characters of PrefixLoader::arithmetic(), as in "avx512+bf16+2 ranks int8+shift:64,16".
constexpr std::string_view kOfArithmetic = "abcdefghijklmnopqrstuvwxyz0123456789_+ :,";

}  // namespace

using engine::Handover;

ApiResult<std::optional<Handover>> read_handover(Fields& fields) {
  const Json* value = fields.find("kv_transfer_params");
  if (value == nullptr) return std::optional<Handover>();
  KVICK_TRY(Fields params, fields.inside(*value, "kv_transfer_params"));
  KVICK_TRY(const bool gives, params.get_bool("do_remote_decode", false));
  KVICK_TRY(const bool takes, params.get_bool("do_remote_prefill", false));
  KVICK_TRY(const std::string arithmetic, params.get_string("kvick_arithmetic", ""));
  // Other engines use these fields to find each other.
  params.ignore({"remote_engine_id", "remote_block_ids", "remote_host", "remote_port",
                 "remote_request_id", "tp_size", "transfer_id"});
  KVICK_TRY_VOID(params.check_rest());
  if (gives && takes)
    return bad_field(
        "kv_transfer_params",
        "kv_transfer_params has both do_remote_decode and do_remote_prefill; set only one of them");
  if (arithmetic.size() > Handover::kMostArithmetic ||
      arithmetic.find_first_not_of(kOfArithmetic) != std::string::npos)
    return bad_field(
        "kv_transfer_params.kvick_arithmetic",
        "kv_transfer_params.kvick_arithmetic must be copied from the answer of the other server");
  if (gives) return std::optional(Handover{.side = Handover::Side::kGive, .arithmetic = {}});
  // The first server ran another engine, whose rows this one cannot use.
  if (!takes || arithmetic.empty()) return std::optional<Handover>();
  return std::optional(Handover{.side = Handover::Side::kTake, .arithmetic = arithmetic});
}

Json kv_transfer_json(const std::string& given) {
  return {{"do_remote_prefill", true},   {"do_remote_decode", false},
          {"remote_engine_id", "kvick"}, {"remote_block_ids", Json::array()},
          {"remote_host", nullptr},      {"remote_port", nullptr},
          {"kvick_arithmetic", given}};
}

}  // namespace kvick::server
