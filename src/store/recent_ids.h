#pragma once
// Blocks seen in the store recently. They may be gone since, which costs a wasted look-up.

#include <list>
#include <map>

#include "engine/prefix/prefix_block.h"

namespace kvick::store {

class RecentIds {
 public:
  bool contains(const engine::BlockId& id, double now) const {
    const auto at = by_id_.find(id);
    return at != by_id_.end() && at->second->until > now;
  }
  void add(const engine::BlockId& id, double until) {
    remove(id);
    std::list<Seen> one(1, {id, until});  // in both or, without memory, in neither
    by_id_.emplace(id, one.begin());
    ids_.splice(ids_.end(), one);
    if (ids_.size() > kMost) remove(engine::BlockId(ids_.front().id));
  }
  void remove(const engine::BlockId& id) {
    const auto at = by_id_.find(id);
    if (at == by_id_.end()) return;
    ids_.erase(at->second);
    by_id_.erase(at);
  }
  void clear() {
    ids_.clear();
    by_id_.clear();
  }

  static constexpr size_t kMost = size_t{1} << 16;  // some 10 MiB

 private:
  struct Seen {
    engine::BlockId id;
    double until;
  };
  std::list<Seen> ids_;  // by time
  std::map<engine::BlockId, std::list<Seen>::iterator> by_id_;
};

}  // namespace kvick::store
