#pragma once
// Responses that clients may ask for again, or go on from (ADR 47): in memory, of one process,
// bounded; the one that was used longest ago goes first.

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace kvick::server {

struct StoredResponse {
  std::string response;  // as it was answered, JSON
  // The items before its output, those of earlier responses too, as a JSON list: so a conversation
  // goes on though its first responses were dropped.
  std::string input;
};

// All calls may come from any thread.
class ResponseStore {
 public:
  // Counted for each response beside its texts: the map, the list, allocations.
  static constexpr size_t kEntryBytes = 512;
  static constexpr size_t kMostResponses = 65536;

  explicit ResponseStore(size_t max_bytes, size_t max_responses = kMostResponses)
      : max_bytes_(max_bytes), max_responses_(max_responses) {}
  ResponseStore(const ResponseStore&) = delete;
  ResponseStore& operator=(const ResponseStore&) = delete;

  // owner: ApiKeys::owner() of the key that it was made with; others do not see it. False: it is
  // larger than the store, or the id is taken.
  bool put(std::string id, size_t owner, StoredResponse response);
  // Null: there is none, or it is another owner's. It stays whole for who holds it.
  std::shared_ptr<const StoredResponse> find(const std::string& id, size_t owner);
  // False: as above.
  bool erase(const std::string& id, size_t owner);

  size_t size() const;
  size_t bytes() const;
  size_t max_bytes() const { return max_bytes_; }

 private:
  struct Entry {
    std::string id;
    size_t owner = 0, bytes = 0;
    std::shared_ptr<const StoredResponse> response;
  };
  using Place = std::list<Entry>::iterator;

  Place* place_of(const std::string& id, size_t owner);
  void drop(Place place);

  const size_t max_bytes_, max_responses_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // under the mutex, as all below; used last at the front
  std::unordered_map<std::string_view, Place> places_;  // by their own ids
  size_t bytes_ = 0;
};

}  // namespace kvick::server
