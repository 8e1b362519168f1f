#include "model/states/state_block.h"

namespace kvick::model {

base::Result<std::unique_ptr<Block>> read_state_block(const BlockReader& reader) {
  const StateConfig::Kind kind = reader.numbers().state.kind;
  switch (kind) {
    case StateConfig::Kind::kShortConv:
      return read_short_conv(reader);
    case StateConfig::Kind::kMamba2:
      return read_mamba2(reader);
    case StateConfig::Kind::kGatedDelta:
      return read_gated_delta(reader);
    case StateConfig::Kind::kNone:
      break;
  }
  KVICK_CHECK(false, "layer {} keeps a state of kind {}", reader.layer, static_cast<int>(kind));
}

}  // namespace kvick::model
