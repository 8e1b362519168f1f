#pragma once
// What a policy that reads some of the rows asks of a step whose rows are not all in memory.

#include <functional>
#include <span>

#include "kv/contract/kv.h"

namespace kvick::kv {

// The most units of the slower tier that view_some() is asked for rows of in one layer and head, of
// a slot with so many committed and fresh rows; kShowsAll: view() is called instead, which shows
// all.
using UnitsAsked = std::function<uint32_t(uint32_t committed, uint32_t fresh)>;
inline constexpr uint32_t kShowsAll = UINT32_MAX;

class RowFetcher {
 public:
  virtual ~RowFetcher() = default;
  // The view of some committed rows, in ascending order, and of all fresh ones, in place of
  // Step::view and under its rules: they are in memory when it returns, and stay there until
  // another layer is written or viewed. Called from many threads.
  virtual void view_some(const Ask& ask, std::span<const uint32_t> rows, base::Arena& scratch,
                         kernels::View& out) = 0;
  // Begins to read rows that a layer's views will probably show, as far as there is memory that
  // nothing else needs. Ask::q is not looked at. Before that layer is written or while it is the
  // one that was written last.
  virtual void prefetch(const Ask& ask, std::span<const uint32_t> rows) = 0;
};

}  // namespace kvick::kv
