// The default: the operating system's page table as the block table. Each sequence reserves address
// space for the whole context once; a page of it becomes memory when a row in it is first written.
// Contiguous, never copied, and each region wastes less than a page. Why it is the default:
// docs/adr/0002-virtual-is-the-default.md.

#include <algorithm>

#include "kv/contiguous.h"
#include "kv/options.h"
#include "kv/reservation.h"
#include "kv/saturating.h"

namespace kvick::kv {
namespace {

constexpr Option kOptions[] = {
    {.name = "hugepages",
     .summary = "pages of 2 MiB: fewer page faults and TLB misses, more waste",
     .fallback = "off"}};

struct VirtualSequence : ContiguousSequence {
  Reservation memory;
  std::vector<uint32_t> touched_rows;  // per layer, the most that were ever in use
};

constexpr uint32_t kBucketRows = 64;

uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

class VirtualStore final : public ContiguousStore {
 public:
  VirtualStore(const Setup& setup, Pages pages)
      : ContiguousStore(setup),
        pages_(pages),
        k_bytes_(page_rounded(shape().max_tokens, false)),
        v_bytes_(page_rounded(shape().max_tokens, true)) {}

 private:
  static VirtualSequence& mine(Sequence& sequence) {
    return static_cast<VirtualSequence&>(sequence);
  }

  uint64_t page_rounded(uint64_t rows, bool is_v) const {
    return round_up(rows * shape().row_bytes(is_v), bytes_of(pages_));
  }
  // Memory of one layer whose first `rows` rows are in use.
  uint64_t layer_bytes(uint32_t rows) const {
    return (page_rounded(rows, false) + page_rounded(rows, true)) * shape().kv_heads;
  }

  std::unique_ptr<Sequence> make_sequence(std::span<const Token>, const Owner&) override {
    auto sequence = std::make_unique<VirtualSequence>();
    sequence->layers.resize(shape().layers);
    sequence->touched_rows.resize(shape().layers);
    return sequence;
  }

  void attach(VirtualSequence& sequence, Reservation memory) const {
    const uint32_t heads = shape().kv_heads;
    for (uint32_t layer = 0; layer < shape().layers; ++layer)
      sequence.layers[layer] = {
          .data = memory.data() + size_t{layer} * heads * (k_bytes_ + v_bytes_),
          .k_bytes = k_bytes_,
          .v_bytes = v_bytes_,
          .heads = heads};
    sequence.memory = std::move(memory);
  }

  base::Result<Reservation, Shortage> reserve(SeqId id) const {
    const uint64_t bytes = uint64_t{shape().layers} * shape().kv_heads * (k_bytes_ + v_bytes_);
    auto made = Reservation::make(bytes, pages_);
    if (made.ok()) return std::move(made).value();
    return Shortage{
        .needed_bytes = bytes,
        .available_bytes = 0,
        .what = fmt::format("sequence {}: {}", static_cast<uint32_t>(id), made.error().message)};
  }

  uint64_t growth_bytes(const VirtualSequence& sequence, uint64_t rows) const {
    uint64_t bytes = 0;
    for (const uint32_t touched : sequence.touched_rows)
      bytes += layer_bytes(std::max(touched, static_cast<uint32_t>(rows))) - layer_bytes(touched);
    return bytes;
  }

  base::Status<Shortage> make_room(std::span<const Place> places) override {
    uint64_t then = allocated_bytes_;
    for (const Place& place : places)
      then += growth_bytes(mine(*place.sequence), place.sequence->length + place.fresh);
    if (auto shortage =
            over_cap(allocated_bytes_, then, fmt::format("a step of {} sequences", places.size())))
      return *shortage;
    std::vector<Reservation> reserved(places.size());  // given back if one of them fails
    for (size_t i = 0; i < places.size(); ++i) {
      if (mine(*places[i].sequence).memory.data() != nullptr) continue;
      KVICK_TRY(reserved[i], reserve(places[i].id));
    }
    for (size_t i = 0; i < places.size(); ++i)
      if (reserved[i].data() != nullptr) attach(mine(*places[i].sequence), std::move(reserved[i]));
    return base::Done{};
  }

  SequenceOr make_room_for_fork(SeqId id, uint32_t rows) override {
    std::unique_ptr<Sequence> sequence = make_sequence({}, {});
    if (rows == 0) return sequence;
    const uint64_t then = allocated_bytes_ + growth_bytes(mine(*sequence), rows);
    if (auto shortage = over_cap(allocated_bytes_, then,
                                 fmt::format("fork of sequence {}", static_cast<uint32_t>(id))))
      return *shortage;
    KVICK_TRY(Reservation memory, reserve(id));
    attach(mine(*sequence), std::move(memory));
    return sequence;
  }

  // Pages that were never written read as zeros and take no memory: any width would do. A whole
  // number of kBucketRows gives a library few shapes to compile and little to compute in vain.
  uint32_t bucket_rows(const ContiguousSequence& sequence, uint32_t layer) const override {
    const uint32_t rows = static_cast<const VirtualSequence&>(sequence).touched_rows[layer];
    return static_cast<uint32_t>(
        std::min<uint64_t>(round_up(rows, kBucketRows), shape().max_tokens));
  }

  void use(ContiguousSequence& sequence, uint32_t layer, uint32_t rows) override {
    uint32_t& touched = static_cast<VirtualSequence&>(sequence).touched_rows[layer];
    if (rows <= touched) return;
    allocated_bytes_ += layer_bytes(rows) - layer_bytes(touched);
    touched = rows;
  }

  uint64_t sequence_bytes(const ContiguousSequence& sequence) const override {
    uint64_t bytes = 0;
    for (const uint32_t touched : static_cast<const VirtualSequence&>(sequence).touched_rows)
      bytes += layer_bytes(touched);
    return bytes;
  }

  void free_sequence(std::unique_ptr<Sequence> sequence) override {
    allocated_bytes_ -= sequence_bytes(mine(*sequence));
  }

  Usage count() const override {
    Usage usage = ContiguousStore::count();
    usage.page_bytes = bytes_of(pages_);
    return usage;
  }

  Pages pages_;
  uint64_t k_bytes_, v_bytes_;  // of one region of the whole context
};

base::Result<Pages> pages_of(const Spec& spec) {
  KVICK_TRY(const bool huge, read_switch(spec, kOptions[0]));
  return huge ? Pages::kHuge : Pages::kSystem;
}

base::Result<std::unique_ptr<Store>> make(const Setup& setup, const Spec& spec) {
  KVICK_TRY(const Pages pages, pages_of(spec));
  if (pages == Pages::kHuge)
    if (auto works = huge_pages_work(); !works.ok())
      return base::fail("{}: hugepages=on: {}", spec.name, works.error().message);
  return std::unique_ptr<Store>(std::make_unique<VirtualStore>(setup, pages));
}

base::Result<Cost> cost(const Setup& setup, const Spec& spec, const Load& load) {
  KVICK_TRY(const Pages pages, pages_of(spec));
  const Shape& shape = setup.shape;
  const auto region = [&](bool is_v) {
    return round_up(load.tokens * shape.row_bytes(is_v), bytes_of(pages));
  };
  const uint64_t heads = uint64_t{shape.layers} * shape.kv_heads;
  const uint64_t sequence = saturating_mul(heads, region(false) + region(true));
  return Cost{.fast_bytes = saturating_mul(sequence, load.sequences),
              .slow_bytes = 0,
              .read_bytes_per_token = load.tokens * shape.token_bytes(),
              .copied_bytes = 0};
}

}  // namespace

Strategy virtual_strategy() {
  return {.name = "virtual",
          .summary =
              "contiguous, grown by the page table: no copies, less than a page of waste per "
              "region (default)",
          .options = kOptions,
          .traits = {.buckets = true, .holds_old = true, .moves_rows = true},
          .make = make,
          .cost = cost};
}

}  // namespace kvick::kv
