#include "kv/stores/virtual_store.h"

#include <algorithm>
#include <map>
#include <utility>

namespace kvick::kv {
namespace {

constexpr uint32_t kBucketRows = 64;

uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }
uint64_t round_down(uint64_t bytes, uint64_t unit) { return bytes / unit * unit; }

}  // namespace

VirtualStore::VirtualStore(const Setup& setup, const VirtualOptions& options)
    : ContiguousStore(setup), pages_(options.pages), most_mappings_(options.most_mappings) {
  const uint64_t rows = shape().max_tokens, page = bytes_of(pages_);
  k_bytes_ = round_up(rows * shape().row_bytes(false), page);
  v_bytes_ = round_up(rows * shape().row_bytes(true), page);
  if (pages_ == Pages::kSystem && options.in_file)
    file_ = RowFile::make(shape().layers * shape().kv_heads * (k_bytes_ + v_bytes_));
}

uint64_t VirtualStore::begin_of(uint32_t row, bool is_v) const {
  return round_down(row * shape().row_bytes(is_v), bytes_of(pages_));
}

uint64_t VirtualStore::end_of(uint32_t row, bool is_v) const {
  return round_up(row * shape().row_bytes(is_v), bytes_of(pages_));
}

uint32_t VirtualStore::page_rows() const {
  const uint64_t row = std::max(shape().row_bytes(false), shape().row_bytes(true));
  return static_cast<uint32_t>(std::max<uint64_t>(1, bytes_of(pages_) / row));
}

// From its first write on, a fork owns the page of its first own row.
VirtualStore::Span VirtualStore::written(const VirtualSequence& sequence, uint32_t touched,
                                         bool is_v) const {
  const uint64_t begin = begin_of(std::max(sequence.first, sequence.shared), is_v);
  return {begin, touched > sequence.shared ? end_of(touched, is_v) : begin};
}

uint64_t VirtualStore::layer_bytes(const VirtualSequence& sequence, uint32_t touched) const {
  uint64_t bytes = 0;
  for (const bool is_v : {false, true}) bytes += written(sequence, touched, is_v).bytes();
  return bytes * shape().kv_heads;
}

uint64_t VirtualStore::growth_bytes(const VirtualSequence& sequence, uint32_t rows) const {
  uint64_t bytes = 0;
  for (const uint32_t touched : sequence.touched_rows)
    bytes += layer_bytes(sequence, std::max(touched, rows)) - layer_bytes(sequence, touched);
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

base::Status<Shortage> VirtualStore::make_room(std::span<const StepSlot> step_slots) {
  uint64_t then = allocated_bytes_;
  for (const StepSlot& step_slot : step_slots)
    then += growth_bytes(mine(*step_slot.sequence), step_slot.sequence->length + step_slot.fresh);
  if (auto shortage = over_cap(allocated_bytes_, then,
                               fmt::format("a step of {} sequences", step_slots.size())))
    return *shortage;
  std::vector<RowMemory> reserved(step_slots.size());  // given back if one of them fails
  for (size_t i = 0; i < step_slots.size(); ++i) {
    if (mine(*step_slots[i].sequence).memory.data() != nullptr) continue;
    KVICK_TRY(reserved[i], reserve(step_slots[i].id));
  }
  for (size_t i = 0; i < step_slots.size(); ++i)
    if (reserved[i].data() != nullptr)
      attach(mine(*step_slots[i].sequence), std::move(reserved[i]));
  for (const StepSlot& step_slot : step_slots)
    mine(*step_slot.sequence).step_rows = step_slot.fresh;
  return base::Done{};
}

CheckedStore::SequenceOr VirtualStore::make_room_for_fork(SeqId id,
                                                          const ContiguousSequence& from) {
  std::unique_ptr<Sequence> sequence = make_sequence({}, {});
  sequence->first = from.first;
  if (from.length == 0) return sequence;
  const uint64_t then = allocated_bytes_ + growth_bytes(mine(*sequence), from.length);
  if (auto shortage = over_cap(allocated_bytes_, then,
                               fmt::format("fork of sequence {}", static_cast<uint32_t>(id))))
    return *shortage;
  KVICK_TRY(RowMemory memory, reserve(id));
  attach(mine(*sequence), std::move(memory));
  return sequence;
}

// Pages that were never written read as zeros, so any width is correct. A multiple of kBucketRows
// gives a library few shapes to compile and few spare rows to compute.
kernels::Bucket VirtualStore::bucket_of(const ContiguousSequence& sequence, uint32_t layer) const {
  const uint32_t touched = static_cast<const VirtualSequence&>(sequence).touched_rows[layer];
  const uint32_t rows = std::max(touched, sequence.first) - sequence.first;
  return {.row = sequence.first,
          .rows = static_cast<uint32_t>(std::min<uint64_t>(round_up(rows, kBucketRows),
                                                           shape().max_tokens - sequence.first))};
}

void VirtualStore::use(ContiguousSequence& used, uint32_t layer, uint32_t rows) {
  VirtualSequence& sequence = mine(used);
  uint32_t& touched = sequence.touched_rows[layer];
  if (rows <= touched) return;
  const uint64_t before = layer_bytes(sequence, touched), after = layer_bytes(sequence, rows);
  count_bytes(sequence, before, after);
  if (sequence.is_fork() && after > before) {
    copied_bytes_ += after - before;  // the kernel copies page by page
    SharedRows& shared = *sequence.memory.rows;
    shared.new_begin = std::min(shared.new_begin, touched);
    shared.new_end = std::max(shared.new_end, rows);
  }
  touched = rows;
}

// The kernel copies a fork's page from a page of the file, and creates the latter if there is none.
// Gives those created pages back where only forks write. It does so once for all forks, because a
// release changes the page tables of all.
void VirtualStore::wrote(ContiguousSequence& written, uint32_t layer) {
  if (!mine(written).is_fork()) return;
  SharedRows& rows = *mine(written).memory.rows;
  const uint32_t begin = std::exchange(rows.new_begin, UINT32_MAX);
  const uint32_t end = std::exchange(rows.new_end, 0);
  if (end == 0) return;
  for (const bool is_v : {false, true})
    release_gaps(rows, layer, is_v, {begin_of(begin, is_v), end_of(end, is_v)});
}

// Draft tokens that cross a page boundary and are rejected return to the same page in the next
// step, so that page stays. Releasing it and faulting it in again, with three rows per step, cost
// 1.9 ms (SmolLM2, 180 pages) in each of two steps out of 32.
void VirtualStore::settle(ContiguousSequence& settled, bool committed) {
  VirtualSequence& sequence = mine(settled);
  // With a window keep no more than the next step of this size may need.
  const uint32_t spare =
      shape().window == 0 ? page_rows() : std::min(page_rows(), sequence.step_rows);
  const uint32_t most =
      committed ? sequence.length + spare : std::max(sequence.length, sequence.settled_rows);
  if (committed) sequence.settled_rows = std::min(most, sequence.touched_rows.back());
  for (uint32_t layer = 0; layer < shape().layers; ++layer) {
    const uint32_t touched = sequence.touched_rows[layer];
    const uint32_t kept = std::min(touched, most);
    sequence.touched_rows[layer] = kept;
    const uint64_t before = layer_bytes(sequence, touched), after = layer_bytes(sequence, kept);
    if (before == after) continue;
    count_bytes(sequence, before, after);
    for (const bool is_v : {false, true})
      release(sequence, layer, is_v,
              {written(sequence, kept, is_v).end, written(sequence, touched, is_v).end});
  }
}

void VirtualStore::release(const VirtualSequence& sequence, uint32_t layer, bool is_v,
                           Span span) const {
  const LayerRows& rows = sequence.layers[layer];
  for (uint32_t head = 0; head < rows.heads; ++head) {
    const auto region = static_cast<uint64_t>(rows.region(head, is_v) - sequence.memory.data());
    if (sequence.memory.own.data() != nullptr)
      sequence.memory.own.release(region + span.begin, span.bytes());
    else
      sequence.memory.rows->range.release(region + span.begin, span.bytes());
  }
}

void VirtualStore::give_back(Sequence& moved) {
  VirtualSequence& sequence = mine(moved);
  const uint32_t from = sequence.first, to = shape().first_seen(sequence.length);
  if (from == to) return;
  sequence.first = to;
  for (uint32_t layer = 0; layer < shape().layers; ++layer)
    for (const bool is_v : {false, true}) {
      if (sequence.memory.own.data() != nullptr) give_back_own(sequence, from, layer, is_v);
      if (sequence.memory.rows != nullptr) give_back_in_file(sequence, from, layer, is_v);
    }
}

void VirtualStore::give_back_own(const VirtualSequence& sequence, uint32_t from, uint32_t layer,
                                 bool is_v) {
  const uint32_t shared = sequence.shared;
  if (sequence.touched_rows[layer] <= shared) return;
  const Span span = {begin_of(std::max(from, shared), is_v),
                     begin_of(std::max(sequence.first, shared), is_v)};
  if (span.bytes() == 0) return;
  count_bytes(sequence, shape().kv_heads * span.bytes(), 0);
  release(sequence, layer, is_v, span);
}

uint64_t VirtualStore::sequence_bytes(const ContiguousSequence& sequence) const {
  const auto& mine = static_cast<const VirtualSequence&>(sequence);
  uint64_t bytes = 0;
  for (const uint32_t touched : mine.touched_rows) bytes += layer_bytes(mine, touched);
  return bytes;
}

void VirtualStore::free_sequence(std::unique_ptr<Sequence> closed) {
  const VirtualSequence& sequence = mine(*closed);
  if (sequence.memory.own.data() != nullptr) {
    --own_mappings_;
    for (const uint32_t touched : sequence.touched_rows)
      count_bytes(sequence, layer_bytes(sequence, touched), 0);
  }
  if (sequence.memory.rows == nullptr) return;
  SharedRows& rows = *sequence.memory.rows;
  if (sequence.is_fork())
    rows.forks.erase(std::find(rows.forks.begin(), rows.forks.end(), &sequence));
  else
    rows.writer = nullptr;
  for (uint32_t layer = 0; layer < shape().layers; ++layer)
    for (const bool is_v : {false, true}) {
      Span span = in_file(sequence, layer, is_v);
      const uint64_t bytes = gap_bytes(rows, layer, is_v, span);
      allocated_bytes_ -= bytes;
      // After the last of them the whole range is given back.
      if (bytes == 0 || (rows.writer == nullptr && rows.forks.empty())) continue;
      // Pages behind the written ones may exist because they were read.
      if (rows.writer == nullptr) span.end = is_v ? v_bytes_ : k_bytes_;
      release_gaps(rows, layer, is_v, span);
    }
}

std::vector<MapEntry> VirtualStore::map() const {
  std::vector<MapEntry> pieces = ContiguousStore::map();
  // Rows that their writer has given up, or whose writer is closed, and the forks that see them.
  std::map<const SharedRows*, MapEntry> kept;
  for_each_sequence([&](SeqId id, const Sequence& one) {
    const auto& sequence = static_cast<const VirtualSequence&>(one);
    if (!sequence.is_fork() || sequence.first >= sequence.shared) return;
    const SharedRows& rows = *sequence.memory.rows;
    MapEntry& piece = kept[&rows];
    if (piece.users++ == 0) {
      piece.owner = id;
      piece.bytes = file_bytes(rows) - (rows.writer != nullptr ? sequence_bytes(*rows.writer) : 0);
    }
    piece.used_tokens = piece.tokens = std::max(piece.tokens, sequence.shared - sequence.first);
  });
  for (const auto& [rows, piece] : kept)
    if (piece.bytes > 0) pieces.push_back(piece);
  return pieces;
}

Usage VirtualStore::count() const {
  std::map<const SharedRows*, std::vector<std::pair<uint32_t, int>>> held;  // begins and ends
  uint64_t used = 0, twice = 0;                                             // rows
  for_each_sequence([&](SeqId, const Sequence& one) {
    const auto& sequence = static_cast<const VirtualSequence&>(one);
    const uint32_t first = sequence.first, shared = std::max(first, sequence.shared);
    const uint32_t end = sequence.is_fork() ? shared : sequence.length;
    if (sequence.memory.rows == nullptr || sequence.is_fork()) used += sequence.length - shared;
    if (sequence.memory.rows == nullptr || first == end) return;
    auto& marks = held[sequence.memory.rows.get()];
    marks.insert(marks.end(), {{first, 1}, {end, -1}});
  });
  for (auto& [rows, marks] : held) {
    std::sort(marks.begin(), marks.end());
    int holders = 0;
    uint32_t at = 0;
    for (const auto& [row, change] : marks) {
      if (holders > 0) used += row - at;
      if (holders > 1) twice += row - at;
      holders += change;
      at = row;
    }
  }
  Usage usage = ContiguousStore::count();
  usage.used_bytes = used * shape().token_bytes();
  usage.shared_bytes = twice * shape().token_bytes();
  // Count the file's pages as the system does: a library that reads a whole bucket creates pages in
  // which no row has been written yet.
  if (file_ != nullptr) usage.allocated_bytes = own_bytes_ + file_->held_bytes();
  usage.page_bytes = bytes_of(pages_);
  usage.fallbacks = fallbacks_;
  return usage;
}

}  // namespace kvick::kv
