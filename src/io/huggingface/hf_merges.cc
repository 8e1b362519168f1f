#include "io/huggingface/hf_merges.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "io/file/builder.h"

namespace kvick::io {
namespace {

constexpr uint32_t kNever = UINT32_MAX;
constexpr size_t kMaxPieceBytes = 512;  // the work on a piece is quadratic in its length

struct Pair {
  std::string_view left, right;
};

base::Result<Pair> read_pair(const Json& element, const JsonObject& model, size_t rank) {
  Pair pair;
  simdjson::dom::array parts;
  std::string_view text;
  if (element.get(text) == simdjson::SUCCESS) {
    const size_t space = text.find(' ');
    if (space != std::string_view::npos && text.find(' ', space + 1) == std::string_view::npos)
      pair = {text.substr(0, space), text.substr(space + 1)};
  } else if (element.get(parts) == simdjson::SUCCESS && parts.size() == 2) {
    if (parts.at(0).get(pair.left) != simdjson::SUCCESS ||
        parts.at(1).get(pair.right) != simdjson::SUCCESS)
      pair = {};
  }
  if (pair.left.empty() || pair.right.empty())
    return base::fail("{}: number {} must be two pieces, as 'left right' or ['left', 'right']",
                      model.label("merges"), rank);
  return pair;
}

bool one_character(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }) <= 1;
}

// Looks up ids and merges by text. Borrows from the pieces.
class MergeTable {
 public:
  explicit MergeTable(const Pieces& pieces)
      : pieces_(pieces), first_rank_(pieces.texts.size(), kNever) {
    ids_.reserve(pieces.texts.size());
    for (uint32_t id = 0; id < pieces.texts.size(); ++id)
      if (pieces.kinds[id] != PieceKind::kUnused) ids_.emplace(pieces.texts[id], id);
  }

  uint32_t id(std::string_view text) const {
    const auto at = ids_.find(text);
    return at == ids_.end() ? kNever : at->second;
  }

  base::Status<> add(const Pair& pair, uint32_t rank, const JsonObject& model) {
    const uint32_t left = id(pair.left), right = id(pair.right);
    const uint32_t whole = id(std::string(pair.left).append(pair.right));
    if (left == kNever || right == kNever || whole == kNever)
      return base::fail("{}: number {}, {} and {}: one of them, or both together, is no token",
                        model.label("merges"), rank, in_quotes(pair.left), in_quotes(pair.right));
    first_rank_[whole] = std::min(first_rank_[whole], rank);
    pairs_.insert(uint64_t{left} << 32 | right);
    return base::Done{};
  }

  uint32_t first_rank(uint32_t whole) const { return first_rank_[whole]; }

  // Returns true if two known pieces make up this one but no merge joins them.
  bool lacks_merge(uint32_t whole) const {
    const std::string_view text = pieces_.texts[whole];
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const uint32_t left = id(text.substr(0, cut));
      if (left == kNever) continue;
      const uint32_t right = id(text.substr(cut));
      if (right != kNever && !pairs_.contains(uint64_t{left} << 32 | right)) return true;
    }
    return false;
  }

 private:
  const Pieces& pieces_;
  std::unordered_map<std::string_view, uint32_t> ids_;
  std::unordered_set<uint64_t> pairs_;
  std::vector<uint32_t> first_rank_;
};

}  // namespace

bool is_byte_piece(std::string_view piece) {
  const auto hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'); };
  return piece.size() == 6 && piece.starts_with("<0x") && piece[5] == '>' && hex(piece[3]) &&
         hex(piece[4]);
}

base::Result<std::vector<std::string>> read_merges(const JsonObject& model) {
  KVICK_TRY(const simdjson::dom::array list, model.get_array("merges"));
  std::vector<std::string> merges;
  merges.reserve(list.size());
  for (const Json element : list) {
    KVICK_TRY(const Pair pair, read_pair(element, model, merges.size()));
    if (pair.left.find(' ') != std::string_view::npos ||
        pair.right.find(' ') != std::string_view::npos)
      return base::fail("{}: number {} has a space in a piece, which byte-level pieces never have",
                        model.label("merges"), merges.size());
    std::string& merge = merges.emplace_back(pair.left);
    merge += ' ';
    merge += pair.right;
  }
  return merges;
}

// A file of this form was made from a SentencePiece model: for each piece, in order of score, every
// way to split it into two pieces became one merge. So the order of pieces by the rank of their
// first merge is the order by score, and -rank can replace the scores, which the file does not
// have. The function checks that every split is a merge; otherwise the algorithm, which merges any
// neighbours that make a known piece, would merge more than the file allows. One piece may lack its
// merges: converters before 2024 dropped those of the piece with score 0, the best one.
base::Result<std::vector<float>> scores_from_merges(const JsonObject& model, const Pieces& pieces) {
  KVICK_TRY(const simdjson::dom::array list, model.get_array("merges"));
  MergeTable table(pieces);
  uint32_t ranks = 0;
  for (const Json element : list) {
    KVICK_TRY(const Pair pair, read_pair(element, model, ranks));
    KVICK_TRY_VOID(table.add(pair, ranks, model));
    ++ranks;
  }
  std::vector<float> scores(pieces.texts.size(), 0);
  uint32_t best = kNever;
  for (uint32_t id = 0; id < scores.size(); ++id) {
    const uint32_t rank = table.first_rank(id);
    if (pieces.kinds[id] != PieceKind::kNormal || one_character(pieces.texts[id])) continue;
    if (pieces.texts[id].size() > kMaxPieceBytes)
      return base::fail("{}: token {} has {} bytes; at most {} are allowed", model.name(), id,
                        pieces.texts[id].size(), kMaxPieceBytes);
    scores[id] = -1.0f - static_cast<float>(rank == kNever ? ranks : rank);
    if (!table.lacks_merge(id)) continue;
    if (rank != kNever || best != kNever)
      return base::fail(
          "{}: {} can be cut into two tokens that no merge joins: these are not the "
          "merges of a SentencePiece model, and kvick has no other use for "
          "byte_fallback",
          model.label("merges"), in_quotes(pieces.texts[id]));
    best = id;
    scores[id] = 0;
  }
  return scores;
}

}  // namespace kvick::io
