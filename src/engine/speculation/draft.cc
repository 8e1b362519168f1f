#include "engine/speculation/draft.h"

namespace kvick::engine {

int32_t DraftTree::child(int32_t parent, Token token) const {
  for (size_t i = static_cast<size_t>(parent + 1); i < nodes.size(); ++i)
    if (nodes[i].parent == parent && nodes[i].token == token) return static_cast<int32_t>(i);
  return -1;
}

int32_t DraftTree::add(int32_t parent, Token token, Kind kind) {
  if (const int32_t known = child(parent, token); known >= 0) return known;
  const uint32_t depth = parent < 0 ? 1 : nodes[static_cast<size_t>(parent)].depth + 1;
  nodes.push_back({.token = token, .parent = parent, .kind = kind, .depth = depth});
  return static_cast<int32_t>(nodes.size() - 1);
}

void DraftTree::add_all(const DraftTree& other) {
  std::vector<int32_t> here;
  for (const Node& node : other.nodes)
    here.push_back(
        add(node.parent < 0 ? -1 : here[static_cast<size_t>(node.parent)], node.token, node.kind));
}

void DraftTree::keep(const std::vector<bool>& kept) {
  std::vector<int32_t> moved(nodes.size(), -1);
  int32_t next = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!kept[i]) continue;
    Node node = nodes[i];
    if (node.parent >= 0) node.parent = moved[static_cast<size_t>(node.parent)];
    moved[i] = next;
    nodes[static_cast<size_t>(next++)] = node;
  }
  nodes.resize(static_cast<size_t>(next));
}

}  // namespace kvick::engine
