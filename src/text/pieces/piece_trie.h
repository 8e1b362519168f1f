#pragma once
// Finds the pieces that a text begins with, in a trie of bytes that is built once and then only
// read.

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace kvick::text {

class PieceTrie {
 public:
  static constexpr int32_t kNone = -1;

  // pieces: with their tokens, none of them empty. Of equal pieces the first counts.
  explicit PieceTrie(std::vector<std::pair<std::string_view, int32_t>> pieces) {
    std::stable_sort(pieces.begin(), pieces.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    struct Range {
      size_t node, first, end, depth;
    };
    std::vector<Range> ranges = {{0, 0, pieces.size(), 0}};
    nodes_.emplace_back();
    for (size_t r = 0; r < ranges.size(); ++r) {  // breadth first: children lie together
      auto [node, at, end, depth] = ranges[r];
      for (; at < end && pieces[at].first.size() == depth; ++at)
        if (nodes_[node].token == kNone) nodes_[node].token = pieces[at].second;
      nodes_[node].child = static_cast<uint32_t>(nodes_.size());
      while (at < end) {
        const char byte = pieces[at].first[depth];
        size_t last = at;
        while (last < end && pieces[last].first[depth] == byte) ++last;
        ranges.push_back({nodes_.size(), at, last, depth + 1});
        nodes_.push_back({.byte = static_cast<uint8_t>(byte)});
        ++nodes_[node].children;
        at = last;
      }
    }
  }

  // Calls found(token, bytes) for each piece that the text begins with, the shortest first.
  template <typename Found>
  void for_each(std::string_view text, const Found& found) const {
    const Node* node = nodes_.data();
    for (size_t i = 0; i < text.size(); ++i) {
      const auto byte = static_cast<uint8_t>(text[i]);
      const Node* const first = nodes_.data() + node->child;
      const Node* const end = first + node->children;
      node =
          std::lower_bound(first, end, byte, [](const Node& a, uint8_t b) { return a.byte < b; });
      if (node == end || node->byte != byte) return;
      if (node->token != kNone) found(node->token, i + 1);
    }
  }

 private:
  struct Node {
    int32_t token = kNone;
    uint32_t child = 0;  // the first child; children are adjacent and sorted by byte
    uint16_t children = 0;
    uint8_t byte = 0;
  };
  std::vector<Node> nodes_;
};

}  // namespace kvick::text
