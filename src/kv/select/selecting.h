#pragma once
// Makes the functions of a Policy from a Selector (selector.h).

#include "kv/select/selector.h"
#include "kv/strategy/policy.h"

namespace kvick::kv {

// Make a store of the layout's strategy in which the selector chooses rows, and compute its cost.
base::Result<std::unique_ptr<Store>> make_select_store(const Setup& setup, const Layout& layout,
                                                       std::unique_ptr<const Selector> selector);
base::Result<Cost> select_cost(const Setup& setup, const Layout& layout, const Selector& selector,
                               const Load& load);

// Policy::make and Policy::cost for kSelector, a function that makes a Selector from a Setup.
template <base::Result<std::unique_ptr<const Selector>> (*kSelector)(const Setup&)>
base::Result<std::unique_ptr<Store>> make_selecting(const Setup& setup, const Layout& layout) {
  KVICK_TRY(std::unique_ptr<const Selector> selector, kSelector(setup));
  return make_select_store(setup, layout, std::move(selector));
}
template <base::Result<std::unique_ptr<const Selector>> (*kSelector)(const Setup&)>
base::Result<Cost> cost_selecting(const Setup& setup, const Layout& layout, const Load& load) {
  KVICK_TRY(const std::unique_ptr<const Selector> selector, kSelector(setup));
  return select_cost(setup, layout, *selector, load);
}

// Policy::change_traits for selectors without side rows, and with them.
void selecting_traits(Traits& traits);
void side_row_traits(Traits& traits);

}  // namespace kvick::kv
