// libFuzzer: reads any bytes as a message of rank 0: once as a batch, once as a list and a text.
// Either succeeds or throws Bug, and needs no more memory than the message has. Writing what was
// read must give the same bytes again.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "base/check.h"
#include "model/core/step_message.h"

namespace {

namespace model = kvick::model;

void expect_same(std::span<const std::byte> read, const model::MessageWriter& written) {
  const auto bytes = written.bytes();
  if (read.size() < bytes.size() || !std::equal(bytes.begin(), bytes.end(), read.begin()))
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    model::MessageReader reader(bytes);
    const model::OwnedBatch owned = model::take_batch(reader);
    model::MessageWriter again;
    model::add_batch(again, owned.batch());
    // The input may have any byte but 0 for true, which is written as 1. So the first written
    // message is compared, not the input.
    const model::MessageWriter first = again;
    model::MessageReader second(first.bytes());
    model::MessageWriter third;
    model::add_batch(third, model::take_batch(second).batch());
    expect_same(first.bytes(), third);
  } catch (const kvick::base::Bug&) {
  }
  try {
    model::MessageReader reader(bytes);
    const std::vector<uint32_t> wanted = reader.take_list<uint32_t>();
    const std::string text = reader.take_text();
    model::MessageWriter again;
    again.add_list(std::span<const uint32_t>(wanted));
    again.add_text(text);
    expect_same(bytes, again);
  } catch (const kvick::base::Bug&) {
  }
  return 0;
}
