#include "server/responses/response_store.h"

#include <iterator>
#include <utility>

namespace kvick::server {

bool ResponseStore::put(std::string id, size_t owner, StoredResponse response) {
  Entry entry = {.id = std::move(id), .owner = owner};
  entry.bytes = kEntryBytes + entry.id.size() + response.response.size() + response.input.size();
  entry.response = std::make_shared<const StoredResponse>(std::move(response));
  const std::lock_guard lock(mutex_);
  if (entry.bytes > max_bytes_ || max_responses_ == 0 || places_.contains(entry.id)) return false;
  while (bytes_ + entry.bytes > max_bytes_ || entries_.size() == max_responses_)
    drop(std::prev(entries_.end()));
  entries_.push_front(std::move(entry));
  try {
    places_.emplace(entries_.front().id, entries_.begin());
  } catch (const std::bad_alloc&) {
    entries_.pop_front();
    throw;
  }
  bytes_ += entries_.front().bytes;  // last: bytes of no entry could never be evicted
  return true;
}

ResponseStore::Place* ResponseStore::place_of(const std::string& id, size_t owner) {
  const auto found = places_.find(id);
  if (found == places_.end() || found->second->owner != owner) return nullptr;
  return &found->second;
}

std::shared_ptr<const StoredResponse> ResponseStore::find(const std::string& id, size_t owner) {
  const std::lock_guard lock(mutex_);
  const Place* place = place_of(id, owner);
  if (place == nullptr) return nullptr;
  entries_.splice(entries_.begin(), entries_, *place);
  return entries_.front().response;
}

bool ResponseStore::erase(const std::string& id, size_t owner) {
  const std::lock_guard lock(mutex_);
  const Place* place = place_of(id, owner);
  if (place == nullptr) return false;
  drop(*place);
  return true;
}

void ResponseStore::drop(Place place) {
  bytes_ -= place->bytes;
  places_.erase(place->id);  // before the entry, because the key points into it
  entries_.erase(place);
}

size_t ResponseStore::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

size_t ResponseStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace kvick::server
