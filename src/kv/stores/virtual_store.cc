#include "kv/stores/virtual_store.h"

#include <algorithm>
#include <map>
#include <utility>

namespace kvick::kv {
namespace {

constexpr uint32_t kBucketRows = 64;

uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }
uint64_t round_down(uint64_t bytes, uint64_t unit) { return bytes / unit * unit; }

// Both regions of every head of a layer, by where they begin.
template <class Use>
void for_each_region(const LayerRows& rows, const Use& use) {
  for (uint32_t head = 0; head < rows.heads; ++head)
    for (const bool is_v : {false, true}) use(rows.region(head, is_v), is_v);
}

}  // namespace

VirtualStore::VirtualStore(const Setup& setup, const VirtualOptions& options)
    : ContiguousStore(setup), pages_(options.pages), most_mappings_(options.most_mappings) {
  const uint64_t rows = shape().max_tokens, page = bytes_of(pages_);
  k_bytes_ = round_up(rows * shape().row_bytes(false), page);
  v_bytes_ = round_up(rows * shape().row_bytes(true), page);
  if (pages_ == Pages::kSystem && options.in_file)
    file_ = RowFile::make(shape().layers * shape().kv_heads * (k_bytes_ + v_bytes_));
}

uint64_t VirtualStore::end_of(uint32_t first, uint32_t end, bool is_v) const {
  const uint64_t row = shape().row_bytes(is_v), page = bytes_of(pages_);
  return end > first ? round_up(end * row, page) : round_down(first * row, page);
}

uint32_t VirtualStore::page_rows() const {
  const uint64_t row = std::max(shape().row_bytes(false), shape().row_bytes(true));
  return static_cast<uint32_t>(std::max<uint64_t>(1, bytes_of(pages_) / row));
}

uint64_t VirtualStore::layer_bytes(uint32_t first, uint32_t end) const {
  uint64_t bytes = 0;
  for (const bool is_v : {false, true})
    bytes += end_of(first, end, is_v) - end_of(first, first, is_v);
  return bytes * shape().kv_heads;
}

uint64_t VirtualStore::growth_bytes(const VirtualSequence& sequence, uint32_t rows) const {
  const uint32_t first = sequence.shared;
  uint64_t bytes = 0;
  for (const uint32_t touched : sequence.touched_rows)
    bytes += layer_bytes(first, std::max(touched, rows)) - layer_bytes(first, touched);
  return bytes;
}

void VirtualStore::count_bytes(const VirtualSequence& sequence, uint64_t before, uint64_t after) {
  allocated_bytes_ += after - before;
  if (sequence.memory.own.data() != nullptr) own_bytes_ += after - before;
}

std::unique_ptr<Sequence> VirtualStore::make_sequence(std::span<const Token>, const Owner&) {
  auto sequence = std::make_unique<VirtualSequence>();
  sequence->layers.resize(shape().layers);
  sequence->touched_rows.resize(shape().layers);
  return sequence;
}

LayerRows VirtualStore::layer_rows(std::byte* data, uint32_t layer) const {
  const uint32_t heads = shape().kv_heads;
  return {.data = data + size_t{layer} * heads * (k_bytes_ + v_bytes_),
          .k_bytes = k_bytes_,
          .v_bytes = v_bytes_,
          .heads = heads};
}

void VirtualStore::attach(VirtualSequence& sequence, RowMemory memory) {
  for (uint32_t layer = 0; layer < shape().layers; ++layer)
    sequence.layers[layer] = layer_rows(memory.data(), layer);
  if (memory.own.data() != nullptr)
    ++own_mappings_;
  else
    memory.rows->writer = &sequence;
  sequence.memory = std::move(memory);
}

base::Result<RowMemory, Shortage> VirtualStore::reserve(SeqId id) const {
  const uint64_t bytes = uint64_t{shape().layers} * shape().kv_heads * (k_bytes_ + v_bytes_);
  const auto shortage = [&](const base::Error& error) {
    return Shortage{
        .needed_bytes = bytes,
        .available_bytes = 0,
        .what = fmt::format("sequence {}: {}", static_cast<uint32_t>(id), error.message)};
  };
  RowMemory memory;
  if (file_ == nullptr) {
    auto made = Reservation::make(bytes, pages_);
    if (!made.ok()) return shortage(made.error());
    memory.own = std::move(made).value();
  } else {
    auto range = file_->take();
    if (!range.ok()) return shortage(range.error());
    memory.rows = std::make_shared<SharedRows>();
    memory.rows->range = std::move(range).value();
  }
  return memory;
}

base::Status<Shortage> VirtualStore::make_room(std::span<const Place> places) {
  uint64_t then = allocated_bytes_;
  for (const Place& place : places)
    then += growth_bytes(mine(*place.sequence), place.sequence->length + place.fresh);
  if (auto shortage =
          over_cap(allocated_bytes_, then, fmt::format("a step of {} sequences", places.size())))
    return *shortage;
  std::vector<RowMemory> reserved(places.size());  // given back if one of them fails
  for (size_t i = 0; i < places.size(); ++i) {
    if (mine(*places[i].sequence).memory.data() != nullptr) continue;
    KVICK_TRY(reserved[i], reserve(places[i].id));
  }
  for (size_t i = 0; i < places.size(); ++i)
    if (reserved[i].data() != nullptr) attach(mine(*places[i].sequence), std::move(reserved[i]));
  return base::Done{};
}

CheckedStore::SequenceOr VirtualStore::make_room_for_fork(SeqId id, uint32_t rows) {
  std::unique_ptr<Sequence> sequence = make_sequence({}, {});
  if (rows == 0) return sequence;
  const uint64_t then = allocated_bytes_ + growth_bytes(mine(*sequence), rows);
  if (auto shortage = over_cap(allocated_bytes_, then,
                               fmt::format("fork of sequence {}", static_cast<uint32_t>(id))))
    return *shortage;
  KVICK_TRY(RowMemory memory, reserve(id));
  attach(mine(*sequence), std::move(memory));
  return sequence;
}

// Pages that were never written read as zeros, so any width would do. A whole number of kBucketRows
// gives a library few shapes to compile and little to compute in vain.
uint32_t VirtualStore::bucket_rows(const ContiguousSequence& sequence, uint32_t layer) const {
  const uint32_t rows = static_cast<const VirtualSequence&>(sequence).touched_rows[layer];
  return static_cast<uint32_t>(std::min<uint64_t>(round_up(rows, kBucketRows), shape().max_tokens));
}

void VirtualStore::use(ContiguousSequence& used, uint32_t layer, uint32_t rows) {
  VirtualSequence& sequence = mine(used);
  uint32_t& touched = sequence.touched_rows[layer];
  if (rows <= touched) return;
  const uint64_t before = layer_bytes(sequence.shared, touched);
  const uint64_t after = layer_bytes(sequence.shared, rows);
  count_bytes(sequence, before, after);
  if (sequence.is_fork() && after > before) {
    copied_bytes_ += after - before;  // by the kernel, page by page
    SharedRows& shared = *sequence.memory.rows;
    shared.new_begin = std::min(shared.new_begin, touched);
    shared.new_end = std::max(shared.new_end, rows);
  }
  touched = rows;
}

// The kernel copies a fork's page from one of the file, which it makes if there is none. What only
// forks write to goes from there again: for all of them at once, since it is taken from the page
// tables of all.
void VirtualStore::wrote(ContiguousSequence& written, uint32_t layer) {
  if (!mine(written).is_fork()) return;
  SharedRows& rows = *mine(written).memory.rows;
  const uint32_t begin = std::exchange(rows.new_begin, UINT32_MAX);
  const uint32_t end = std::exchange(rows.new_end, 0);
  if (end == 0) return;
  const uint32_t held = rows.writer != nullptr ? rows.writer->touched_rows[layer] : rows.kept;
  std::byte* const data = rows.range.data();
  for_each_region(layer_rows(data, layer), [&](const std::byte* region, bool is_v) {
    const uint64_t first = std::max(end_of(begin, begin, is_v), end_of(0, held, is_v));
    const uint64_t last = end_of(0, end, is_v);
    if (first < last)
      rows.range.release(static_cast<uint64_t>(region - data) + first, last - first);
  });
}

// Guesses that cross a page's end and are not kept come there again with the next step: that page
// stays. Given back and faulted in anew, with three rows a step, it cost 1.9 ms (SmolLM2, 180
// pages) for each of two steps in 32.
void VirtualStore::settle(ContiguousSequence& settled, bool committed) {
  VirtualSequence& sequence = mine(settled);
  const uint32_t first = sequence.shared;
  const uint32_t most =
      committed ? sequence.length + page_rows() : std::max(sequence.length, sequence.settled_rows);
  if (committed) sequence.settled_rows = std::min(most, sequence.touched_rows.back());
  const RowMemory& memory = sequence.memory;
  for (uint32_t layer = 0; layer < shape().layers; ++layer) {
    const uint32_t touched = sequence.touched_rows[layer];
    const uint32_t kept = std::min(touched, most);
    sequence.touched_rows[layer] = std::max(kept, sequence.length);
    const uint64_t before = layer_bytes(first, touched), after = layer_bytes(first, kept);
    if (before == after) continue;
    count_bytes(sequence, before, after);
    for_each_region(sequence.layers[layer], [&](const std::byte* region, bool is_v) {
      const uint64_t begin = end_of(first, kept, is_v);
      const auto offset = static_cast<uint64_t>(region - memory.data());
      const uint64_t bytes = end_of(first, touched, is_v) - begin;
      if (memory.own.data() != nullptr)
        memory.own.release(offset + begin, bytes);
      else
        memory.rows->range.release(offset + begin, bytes);
    });
  }
}

uint64_t VirtualStore::sequence_bytes(const ContiguousSequence& sequence) const {
  const auto& mine = static_cast<const VirtualSequence&>(sequence);
  uint64_t bytes = 0;
  for (const uint32_t touched : mine.touched_rows) bytes += layer_bytes(mine.shared, touched);
  return bytes;
}

void VirtualStore::free_sequence(std::unique_ptr<Sequence> closed) {
  const VirtualSequence& sequence = mine(*closed);
  for (const uint32_t touched : sequence.touched_rows)
    count_bytes(sequence, layer_bytes(sequence.shared, touched), 0);
  if (sequence.memory.own.data() != nullptr) --own_mappings_;
  if (sequence.memory.rows == nullptr) return;
  SharedRows& rows = *sequence.memory.rows;
  if (sequence.is_fork())
    rows.forks.erase(std::find(rows.forks.begin(), rows.forks.end(), sequence.shared));
  else
    rows.writer = nullptr;
  if (rows.writer == nullptr) keep_for_forks(rows);
}

// Of rows whose writer is closed, those that a fork shares.
void VirtualStore::keep_for_forks(SharedRows& rows) {
  const uint32_t before = rows.kept;
  rows.kept = rows.forks.empty() ? 0 : *std::max_element(rows.forks.begin(), rows.forks.end());
  allocated_bytes_ += shape().layers * (layer_bytes(0, rows.kept) - layer_bytes(0, before));
  if (rows.forks.empty() || rows.kept == before) return;  // all of it goes with the last, or none
  for (uint32_t layer = 0; layer < shape().layers; ++layer)
    for_each_region(layer_rows(rows.range.data(), layer), [&](const std::byte* region, bool is_v) {
      const uint64_t begin = end_of(0, rows.kept, is_v);
      const auto offset = static_cast<uint64_t>(region - rows.range.data());
      rows.range.release(offset + begin, (is_v ? v_bytes_ : k_bytes_) - begin);
    });
}

std::vector<Piece> VirtualStore::map() const {
  std::vector<Piece> pieces = ContiguousStore::map();
  std::map<const SharedRows*, Piece> kept;  // rows whose writer is closed, and the forks of it
  for_each_sequence([&](SeqId id, const Sequence& one) {
    const SharedRows* rows = static_cast<const VirtualSequence&>(one).memory.rows.get();
    if (rows == nullptr || rows->writer != nullptr) return;
    Piece& piece = kept[rows];
    if (piece.users++ == 0) piece.owner = id;
    piece.used_tokens = piece.tokens = rows->kept;
    piece.bytes = shape().layers * layer_bytes(0, rows->kept);
  });
  for (const auto& [rows, piece] : kept) pieces.push_back(piece);
  return pieces;
}

Usage VirtualStore::count() const {
  struct Held {  // of rows in the file, by all who do and by at least two
    uint32_t most = 0, two = 0;
  };
  std::map<const SharedRows*, Held> held;
  uint64_t own = 0;
  for_each_sequence([&](SeqId, const Sequence& one) {
    const auto& sequence = static_cast<const VirtualSequence&>(one);
    if (sequence.memory.rows == nullptr) {
      own += sequence.length;
      return;
    }
    const uint32_t rows = sequence.is_fork() ? sequence.shared : sequence.length;
    own += sequence.length - rows;
    Held& all = held[sequence.memory.rows.get()];
    all.two = std::max(all.two, std::min(rows, all.most));
    all.most = std::max(all.most, rows);
  });
  Usage usage = ContiguousStore::count();
  usage.used_bytes = own * shape().token_bytes();
  for (const auto& [rows, all] : held) {
    usage.used_bytes += all.most * shape().token_bytes();
    usage.shared_bytes += all.two * shape().token_bytes();
  }
  // As the system counts the file: a library that reads a whole bucket makes pages there that no
  // row has been written to yet.
  if (file_ != nullptr) usage.allocated_bytes = own_bytes_ + file_->held_bytes();
  usage.page_bytes = bytes_of(pages_);
  usage.fallbacks = fallbacks_;
  return usage;
}

}  // namespace kvick::kv
