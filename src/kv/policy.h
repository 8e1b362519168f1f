#pragma once
// The policies, one row each: which of a sequence's rows are read. A second axis beside the
// strategies of registry.h, which say where rows are: any policy goes with any strategy that keeps
// rows in memory (Traits::holds_old), and those that leave rows in place with one that keeps them
// in a slower tier. The command line, the server, the planner, the lab and the tests read this
// table and nothing else. A policy that leaves rows in place is a Selector (selector.h) and lines
// here; docs/adr/0020-which-rows-are-read.md.

#include "kv/registry.h"

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
  // As of Strategy; the policy's own spec is setup.select.
  base::Result<std::unique_ptr<Store>> (*make)(const Setup& setup, const Layout& layout);
  base::Result<Cost> (*cost)(const Setup& setup, const Layout& layout, const Load& load);
};

std::span<const Policy> policies();
const Policy* find_policy(std::string_view name);
// Whether it names a policy with Traits::forgets: its rows lie in memory of its own.
bool forgets(const Spec& select);

// Of setup.select, which names a policy. Errors: no such policy or option; a strategy that keeps no
// rows in place; rows that change their type with age; the policy's own.
base::Result<std::unique_ptr<Store>> make_policy_store(const Layout& layout, const Setup& setup);
base::Result<Cost> policy_cost(const Layout& layout, const Setup& setup, const Load& load);

}  // namespace kvick::kv
