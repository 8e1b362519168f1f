// What a step does for Expected Attention (expected.cc).

#include "kv/forget/forget_store.h"

namespace kvick::kv {

// Scores all rows of a group by the attention that the next queries are expected to pay.
void ForgetStep::expect(const Keeping& keeping, ForgetChoice& choice) const {
  const ForgetSequence& sequence = this->sequence(keeping.slot);
  const uint32_t heads = store_.shape().kv_heads;
  uint32_t begin = 0;
  for (size_t i = 0; i < keeping.heads; begin = choice.ends[i++].row) {
    const size_t number = keeping.first + i;
    const ExpectedHead of = {
        .setup = store_.setup(),
        .rule = store_.rule_,
        .queries = sequence.queries,
        .layer = static_cast<uint32_t>(number / heads),
        .head = static_cast<uint32_t>(number % heads),
        .tokens = sequence.length + static_cast<uint32_t>(keeping.kept.size())};
    const uint32_t held = sequence.rows.held(number);
    const auto row_at = [&](uint32_t row, bool is_v) -> const std::byte* {
      if (row < held) return sequence.rows.row(number, is_v, row);
      return fresh_[keeping.slot].row(of.layer, of.head, is_v, keeping.kept[row - held]);
    };
    expect_attention(of, row_at, std::span(choice.notes).subspan(begin, choice.ends[i].row - begin),
                     choice.floats);
  }
}

}  // namespace kvick::kv
