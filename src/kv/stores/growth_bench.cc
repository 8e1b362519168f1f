// Measures what growing a cache costs: every strategy with one token per step and with one prompt
// at once, then ways to get pages from the system. The numbers of
// docs/adr/0002-virtual-is-the-default.md come from here.

#include <algorithm>
#include <ctime>
#include <fmt/format.h>
#include <functional>
#include <sys/mman.h>
#include <vector>

#include "kernels/table/table.h"
#include "kv/registry/registry.h"

namespace {

namespace base = kvick::base;
namespace kernels = kvick::kernels;
namespace kv = kvick::kv;

constexpr int kRepeats = 5;
// SmolLM2-135M at 2048 tokens: 180 regions of 256 KiB.
constexpr kv::Shape kShape = {.layers = 30, .kv_heads = 3, .head_dim = 64, .max_tokens = 2048};

// Returns the processor time of this thread, system calls and page faults included. One thread does
// all the work, and other programs on the machine do not count.
double seconds(const std::function<void()>& work) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  const double begin = now();
  work();
  return now() - begin;
}

struct Times {
  double begin_s = 0, write_s = 0, close_s = 0;
  kv::Usage usage;
};

// Grows one sequence to 2048 rows, `rows` per step.
Times grow(const std::string& spec, uint32_t rows, const std::vector<float>& values) {
  const kernels::Table& table = kernels::table(base::best_isa());
  auto store = kv::make_store(kv::parse_spec(spec).value(),
                              {.shape = kShape, .compute = {.store_row = table.store_row}});
  if (!store.ok()) {
    fmt::print("{}\n", store.error().message);
    return {};
  }
  Times times;
  const kv::Slot slot = {(*store)->open({}).seq, rows};
  const kv::Batch batch = {{&slot, 1}};
  for (uint32_t length = 0; length < kShape.max_tokens; length += rows) {
    std::unique_ptr<kv::Step> step;
    times.begin_s += seconds([&] { step = (*store)->begin(batch).value(); });
    times.write_s += seconds([&] {
      for (uint32_t layer = 0; layer < kShape.layers; ++layer)
        step->write(layer, values.data(), values.data());
      step->commit(kv::Kept::all(batch));
    });
  }
  times.usage = (*store)->usage();
  times.close_s = seconds([&] { (*store)->close(slot.seq); });
  return times;
}

void strategies(uint32_t rows) {
  const std::vector<float> values(size_t{rows} * kShape.kv_heads * kShape.head_dim, 0.25f);
  fmt::print("\n2048 rows, {} a step\n{:22} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n", rows,
             "strategy", "begin ms", "write ms", "close ms", "all ms", "copied MB", "wasted KB");
  for (const char* spec : {"iterative", "bmc:r=16", "bmc:r=64", "bmc:r=256", "upfront", "virtual",
                           "virtual:hugepages=on"}) {
    Times best;
    for (int i = 0; i < kRepeats; ++i) {
      const Times t = grow(spec, rows, values);
      const auto all = [](const Times& x) { return x.begin_s + x.write_s + x.close_s; };
      if (i == 0 || all(t) < all(best)) best = t;
    }
    fmt::print("{:22} {:10.2f} {:10.2f} {:10.2f} {:10.2f} {:10.1f} {:10.0f}\n", spec,
               best.begin_s * 1e3, best.write_s * 1e3, best.close_s * 1e3,
               (best.begin_s + best.write_s + best.close_s) * 1e3,
               static_cast<double>(best.usage.copied_bytes) / 1e6,
               static_cast<double>(best.usage.wasted_bytes) / 1e3);
  }
}

constexpr size_t kPage = 4096, kRegion = 64 * kPage, kRegions = 180, kAll = kRegion * kRegions;

void touch_in_row_order(std::byte* data) {
  for (size_t page = 0; page < kRegion; page += kPage)
    for (size_t region = 0; region < kRegions; ++region)
      data[region * kRegion + page] = std::byte{1};
}

// Populates each region's pages `pages` at a time, then touches them.
void populate_then_touch(std::byte* data, size_t pages) {
  for (size_t begin = 0; begin < kRegion; begin += pages * kPage)
    for (size_t region = 0; region < kRegions; ++region)
      madvise(data + region * kRegion + begin, pages * kPage, MADV_POPULATE_WRITE);
  touch_in_row_order(data);
}

void pages(const char* name, int flags, int advice, const std::function<void(std::byte*)>& work) {
  constexpr size_t kHuge = size_t{2} << 20;
  double made = 1e9, freed = 1e9;
  for (int i = 0; i < kRepeats; ++i) {
    void* map = nullptr;
    made =
        std::min(made, seconds([&] {
                   map = mmap(nullptr, kAll + kHuge, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
                   madvise(map, kAll + kHuge, advice);
                   work(static_cast<std::byte*>(map) + -reinterpret_cast<uintptr_t>(map) % kHuge);
                 }));
    freed = std::min(freed, seconds([&] { munmap(map, kAll + kHuge); }));
  }
  fmt::print("{:44} {:10.2f} {:10.2f} {:10.0f}\n", name, made * 1e3, freed * 1e3,
             made * 1e9 / (kAll / kPage));
}

}  // namespace

int main() {
  strategies(1);
  strategies(2048);
  fmt::print("\n{} pages of 4 KiB in {} regions\n{:44} {:>10} {:>10} {:>10}\n", kAll / kPage,
             kRegions, "how", "get ms", "free ms", "ns a page");
  pages("touched in row order", MAP_NORESERVE, MADV_NOHUGEPAGE, touch_in_row_order);
  for (const size_t n : {1, 4, 16, 64})
    pages(fmt::format("MADV_POPULATE_WRITE, {} at a time", n).c_str(), MAP_NORESERVE,
          MADV_NOHUGEPAGE, [n](std::byte* data) { populate_then_touch(data, n); });
  pages("MAP_POPULATE of everything", MAP_POPULATE, MADV_NOHUGEPAGE, touch_in_row_order);
  pages("huge pages (regions share them)", MAP_NORESERVE, MADV_HUGEPAGE, touch_in_row_order);
  return 0;
}
