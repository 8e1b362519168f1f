#pragma once
// A policy says which of a sequence's rows are read; a strategy says where they are stored. Any
// policy goes with any strategy that keeps rows in memory (Traits::holds_old); policies that leave
// rows in place also go with one that keeps them in a slower tier. A policy that leaves rows in
// place is a Selector (kv/select/selector.h); policies that forget rows are in kv/forget.
// kv/registry/policies.h has the table of all policies;
// docs/adr/0020-which-rows-are-read.md.

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
  // Changes a strategy's traits to what holds under this policy.
  void (*change_traits)(Traits& traits);
  // Then narrows them by the policy's options; null: options change none.
  void (*limit_traits)(const Spec& select, Traits& traits) = nullptr;
  // As of Strategy; the policy's own spec is setup.select.spec.
  base::Result<std::unique_ptr<Store>> (*make)(const Setup& setup, const Layout& layout);
  base::Result<Cost> (*cost)(const Setup& setup, const Layout& layout, const Load& load);
};

}  // namespace kvick::kv
