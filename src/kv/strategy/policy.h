#pragma once
// A policy says which of a sequence's rows are read. A second axis beside the strategies, which say
// where rows are: any policy goes with any strategy that keeps rows in memory (Traits::holds_old),
// and those that leave rows in place with one that keeps them in a slower tier. A policy that
// leaves rows in place is a Selector (kv/select/selector.h); those that forget rows are in
// kv/forget. The
// table of all is kv/registry/policies.h; docs/adr/0020-which-rows-are-read.md.

#include "kv/strategy/strategy.h"

namespace kvick::kv {

// The strategy that a policy goes with, and its options.
struct Layout {
  const Strategy& strategy;
  const Spec& spec;
};

struct Policy {
  std::string_view name, summary;
  std::span<const Option> options;
  // What becomes of a strategy's traits.
  void (*change_traits)(Traits& traits);
  // Then what becomes of them by the policy's options; null: nothing more.
  void (*limit_traits)(const Spec& select, Traits& traits) = nullptr;
  // As of Strategy; the policy's own spec is setup.select.spec.
  base::Result<std::unique_ptr<Store>> (*make)(const Setup& setup, const Layout& layout);
  base::Result<Cost> (*cost)(const Setup& setup, const Layout& layout, const Load& load);
};

}  // namespace kvick::kv
