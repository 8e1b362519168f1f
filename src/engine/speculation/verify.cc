#include "engine/speculation/verify.h"

#include <algorithm>

#include "kv/strategy/facet_calls.h"

namespace kvick::engine {

FreshTokens::FreshTokens(Token last, const DraftTree& tree) : tokens{last}, parents{-1} {
  for (const DraftTree::Node& node : tree.nodes) {
    tokens.push_back(node.token);
    parents.push_back(node.parent + 1);
  }
}

std::vector<float> states_of_rows(const model::Executor& executor, std::span<const uint32_t> kept,
                                  size_t first) {
  const size_t dim = executor.model().config().dim;
  std::vector<float> states;
  for (const uint32_t row : kept) {
    const auto state = executor.states().subspan((first + row) * dim, dim);
    states.insert(states.end(), state.begin(), state.end());
  }
  return states;
}

uint32_t draft_room(kv::Store& store, kv::SeqId seq, bool grow) {
  const uint64_t length = store.length(seq);
  // Every token of the step must still see all rows, so none may leave a window or become old.
  uint64_t most = store.most_tokens();
  for (const kv::Shape& shape : store.info().groups) {
    most = std::min<uint64_t>(most, shape.max_tokens);
    if (!shape.aging) continue;
    const uint32_t old = shape.aging->old_rows(static_cast<uint32_t>(length));
    most = std::min<uint64_t>(most, uint64_t{shape.aging->window} + old + kv::kAgingRows);
  }
  uint64_t room = most > length ? most - length - 1 : 0;
  if (!grow) room = std::min<uint64_t>(room, kv::spare_rows(store, seq) - 1);
  return static_cast<uint32_t>(room);
}

std::vector<uint32_t> verify(AnswerWriter& writer, const DraftTree& tree, std::span<float> logits,
                             const RowsBefore& before,
                             base::FunctionRef<bool(WrittenTokens&&)> on_written) {
  const size_t stride = logits.size() / (tree.nodes.size() + 1);
  std::vector<uint32_t> path;
  for (int32_t node = -1;;) {
    const auto row = static_cast<uint32_t>(node + 1);
    path.push_back(row);
    const auto rows = static_cast<uint32_t>(before.committed + path.size());
    WrittenTokens written = writer.next(logits.subspan(row * stride, stride), rows < before.most);
    const std::optional<Token> token = written.token;
    const bool ended = written.finish.has_value();
    if (!on_written(std::move(written)) || ended) return path;
    node = tree.child(node, *token);
    if (node < 0) return path;
  }
}

}  // namespace kvick::engine
