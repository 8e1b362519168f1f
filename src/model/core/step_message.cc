#include "model/core/step_message.h"

namespace kvick::model {

void add_batch(MessageWriter& message, const Batch& batch) {
  message.add(static_cast<uint64_t>(batch.slots.size()));
  for (const Slot& slot : batch.slots) {
    message.add(slot.seq);
    message.add(slot.past);
    message.add(slot.role);
    message.add(slot.prompt);
    message.add(slot.reusable);
    message.add_list(slot.tokens);
    message.add_list(slot.parents);
  }
  std::vector<uint8_t> skipped;
  if (batch.skipped != nullptr) skipped.assign(batch.skipped->begin(), batch.skipped->end());
  message.add_list(std::span<const uint8_t>(skipped));
}

OwnedBatch take_batch(MessageReader& message) {
  OwnedBatch owned;
  const uint64_t count = message.take_count();
  for (uint64_t i = 0; i < count; ++i) {
    Slot& slot = owned.slots.emplace_back();
    slot.seq = message.take<kv::SeqId>();
    slot.past = message.take<uint32_t>();
    slot.role = message.take<Role>();
    slot.prompt = message.take<bool>();
    slot.reusable = message.take<bool>();
    owned.tokens.push_back(message.take_list<Token>());
    owned.parents.push_back(message.take_list<int32_t>());
  }
  for (uint64_t i = 0; i < count; ++i) {
    owned.slots[i].tokens = owned.tokens[i];
    owned.slots[i].parents = owned.parents[i];
  }
  const std::vector<uint8_t> skipped = message.take_list<uint8_t>();
  owned.skipped.assign(skipped.begin(), skipped.end());
  return owned;
}

}  // namespace kvick::model
