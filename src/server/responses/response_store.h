#pragma once
// Responses that clients may fetch or continue (ADR 47). The store is in memory of one process and
// bounded; it evicts the least recently used response first.

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace kvick::server {

struct StoredResponse {
  std::string response;  // the answer's JSON, as sent
  // The items before the response's output, including those of earlier responses, as a JSON list.
  // So a conversation can go on even if its first responses were evicted.
  std::string input;
};

// All calls are safe on any thread.
class ResponseStore {
 public:
  // Bytes counted per response beside its texts, for the map, the list and allocations.
  static constexpr size_t kEntryBytes = 512;
  static constexpr size_t kMostResponses = 65536;

  explicit ResponseStore(size_t max_bytes, size_t max_responses = kMostResponses)
      : max_bytes_(max_bytes), max_responses_(max_responses) {}
  ResponseStore(const ResponseStore&) = delete;
  ResponseStore& operator=(const ResponseStore&) = delete;

  // Stores a response. owner: ApiKeys::owner() of the client's key; other owners cannot see the
  // response. Returns false if it is larger than the store or the id exists.
  bool put(std::string id, size_t owner, StoredResponse response);
  // Returns a response, or null if it does not exist or has another owner. The result stays valid
  // after eviction.
  std::shared_ptr<const StoredResponse> find(const std::string& id, size_t owner);
  // Removes a response. Returns false if it does not exist or has another owner.
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
  std::list<Entry> entries_;  // most recently used first; the mutex guards this and all below
  std::unordered_map<std::string_view, Place> places_;  // keys point into the entries
  size_t bytes_ = 0;
};

}  // namespace kvick::server
