#pragma once
// A policy says which rows of a sequence are read; a strategy says where they are stored. Any
// policy works with any strategy that keeps rows in memory (Traits::holds_old). Policies that keep
// all rows also work with a strategy that keeps them in a slower tier; each is a Selector
// (kv/select/selector.h). Policies that forget rows are in kv/forget. kv/registry/policies.h has
// the table of all policies; see docs/adr/0020-which-rows-are-read.md.

#include "kv/strategy/strategy.h"

namespace kvick::kv {

// The strategy that a policy is combined with, and the strategy's options.
struct Layout {
  const Strategy& strategy;
  const Spec& spec;
};

struct Policy {
  std::string_view name, summary;
  std::span<const Option> options;
  // Changes a strategy's traits to those that hold under this policy.
  void (*change_traits)(Traits& traits);
  // Narrows them further by the policy's options; null: no option changes them.
  void (*limit_traits)(const Spec& select, Traits& traits) = nullptr;
  // These work like those of Strategy; the policy's own spec is setup.select.spec.
  base::Result<std::unique_ptr<Store>> (*make)(const Setup& setup, const Layout& layout);
  base::Result<Cost> (*cost)(const Setup& setup, const Layout& layout, const Load& load);
};

}  // namespace kvick::kv
