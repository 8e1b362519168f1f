#pragma once
// The newest ids of blocks, each until a time: those that were seen in the store recently. The
// store may have dropped a block since, which costs one wasted lookup.

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
    // An exception must leave the id in both containers or in neither.
    std::list<Seen> one(1, {id, until});
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

  static constexpr size_t kMost = size_t{1} << 16;  // ids, about 10 MiB

 private:
  struct Seen {
    engine::BlockId id;
    double until;
  };
  std::list<Seen> ids_;  // oldest addition first
  std::map<engine::BlockId, std::list<Seen>::iterator> by_id_;
};

}  // namespace kvick::store
