#include "model/ranks/message_ranks.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/check.h"

namespace kvick::model {
namespace {

constexpr int kFloatsTag = 1, kMessageTag = 2, kAnswerTag = 3;
// A message of one byte in place of floats says that its sender has given up.
constexpr int kGaveUp = 1;
constexpr size_t kSend = SIZE_MAX, kAny = SIZE_MAX - 1;
// Parts of more floats are added up slice by slice where there are more than two ranks: each rank
// sends 2 (R - 1) / R of its part, not R - 1 times all of it.
constexpr size_t kWhole = 4096;

int size_of(MPI_Comm comm) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  return size;
}
int rank_of(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

}  // namespace

MessageRanks::MessageRanks(MPI_Comm all, WaitingOptions waiting)
    : Ranks(static_cast<unsigned>(rank_of(all)), static_cast<unsigned>(size_of(all))),
      all_(all),
      waiting_(std::move(waiting)) {}

void MessageRanks::send_floats(unsigned to, const float* floats, size_t count) {
  MPI_Request& request = requests_.emplace_back();
  expected_.emplace_back(to, kSend);
  MPI_Isend(floats, static_cast<int>(count * sizeof(float)), MPI_BYTE, static_cast<int>(to),
            kFloatsTag, all_, &request);
}

void MessageRanks::receive_floats(unsigned from, float* floats, size_t count, bool exactly) {
  MPI_Request& request = requests_.emplace_back();
  expected_.emplace_back(from, exactly ? count : kAny);
  MPI_Irecv(floats, static_cast<int>(count * sizeof(float)), MPI_BYTE, static_cast<int>(from),
            kFloatsTag, all_, &request);
}

// Waits for all that was sent and received since the last time. Floats received, by rank.
std::vector<size_t> MessageRanks::finish() {
  std::vector<MPI_Status> statuses(requests_.size());
  std::vector<size_t> counts(size(), 0);
  waiting_.until([&] {
    int done = 0;
    MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, statuses.data());
    return done != 0;
  });
  const auto expected = std::exchange(expected_, {});
  requests_.clear();
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto [from, count] = expected[i];
    if (count == kSend) continue;
    int bytes = 0;
    MPI_Get_count(&statuses[i], MPI_BYTE, &bytes);
    if (bytes == kGaveUp)
      throw RankFailed(fmt::format("rank {} could not compute its part of the step", from));
    counts[from] = static_cast<size_t>(bytes) / sizeof(float);
    KVICK_CHECK(count == kAny || counts[from] == count, "{} floats of rank {}, not {}",
                counts[from], from, count);
  }
  return counts;
}

float* MessageRanks::part(size_t count) {
  count_ = count;
  if (own_.size() < count) own_.resize(count);
  return own_.data();
}

void MessageRanks::add_to(float* total, size_t count, const float* part) const {
  for (size_t i = 0; i < count; ++i) total[i] += part[i];
}

// Everybody sends all to everybody.
void MessageRanks::exchange(size_t count) {
  if (others_.size() < count * size()) others_.resize(count * size());
  for (unsigned r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    receive_floats(r, others_.data() + r * count, count);
    send_floats(r, own_.data(), count);
  }
  finish();
  const auto of = [&](unsigned r) {
    return r == rank() ? own_.data() : others_.data() + r * count;
  };
  if (total_.size() < count) total_.resize(count);
  std::copy_n(of(0), count, total_.data());
  for (unsigned r = 1; r < size(); ++r) add_to(total_.data(), count, of(r));
}

// Rank r adds up slice r of all parts and sends it to the others.
void MessageRanks::exchange_slices(size_t count) {
  const auto begin = [&](unsigned r) { return count * r / size(); };
  const auto length = [&](unsigned r) { return begin(r + 1) - begin(r); };
  const size_t own = length(rank());
  if (others_.size() < own * size()) others_.resize(own * size());
  for (unsigned r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    receive_floats(r, others_.data() + r * own, own);
    send_floats(r, own_.data() + begin(r), length(r));
  }
  finish();
  const auto of = [&](unsigned r) {
    return r == rank() ? own_.data() + begin(r) : others_.data() + r * own;
  };
  if (total_.size() < count) total_.resize(count);
  float* const slice = total_.data() + begin(rank());
  std::copy_n(of(0), own, slice);
  for (unsigned r = 1; r < size(); ++r) add_to(slice, own, of(r));
  for (unsigned r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    receive_floats(r, total_.data() + begin(r), length(r));
    send_floats(r, slice, own);
  }
  finish();
}

const float* MessageRanks::sum() {
  size() > 2 && count_ > kWhole ? exchange_slices(count_) : exchange(count_);
  return total_.data();
}

// Everybody sends something to everybody, so that all hear of one that gives up.
void MessageRanks::gather(std::span<const float> own, Take take) {
  KVICK_CHECK(own.size() <= kMostGathered, "{} floats gathered at once", own.size());
  const size_t room = leads() ? kMostGathered : 1;
  if (others_.size() < room * size()) others_.resize(room * size());
  for (unsigned r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    receive_floats(r, others_.data() + r * room, room, /*exactly=*/false);
    send_floats(r, own.data(), r == 0 ? own.size() : 0);
  }
  const std::vector<size_t> counts = finish();
  if (!leads()) return;
  for (unsigned r = 1; r < size(); ++r) take(r, {others_.data() + r * room, counts[r]});
}

// What the others send in the meantime is received and forgotten.
void MessageRanks::give_up() {
  const std::byte byte{};
  for (unsigned r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    MPI_Request& request = requests_.emplace_back();
    expected_.emplace_back(r, kSend);
    MPI_Isend(&byte, kGaveUp, MPI_BYTE, static_cast<int>(r), kFloatsTag, all_, &request);
  }
  for (unsigned r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    (void)receive(r, kFloatsTag, false);
  }
  finish();
}

void MessageRanks::send(unsigned to, std::span<const std::byte> message) {
  KVICK_CHECK(!message.empty() && message.size() < INT32_MAX, "a message of {} bytes",
              message.size());
  MPI_Request& request = requests_.emplace_back();
  expected_.emplace_back(to, kSend);
  MPI_Isend(message.data(), static_cast<int>(message.size()), MPI_BYTE, static_cast<int>(to),
            leads() ? kMessageTag : kAnswerTag, all_, &request);
}

std::vector<std::byte> MessageRanks::receive(unsigned from, int tag, bool idle) {
  MPI_Message message;
  MPI_Status status;
  const auto there = [&] {
    int flag = 0;
    MPI_Improbe(static_cast<int>(from), tag, all_, &flag, &message, &status);
    return flag != 0;
  };
  idle ? waiting_.idle_until(there) : waiting_.until(there);
  int bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  std::vector<std::byte> result(static_cast<size_t>(bytes));
  MPI_Mrecv(result.data(), bytes, MPI_BYTE, &message, &status);
  return result;
}

void MessageRanks::tell(std::span<const std::byte> message) {
  for (unsigned r = 1; r < size(); ++r) send(r, message);
  finish();
}

std::vector<std::byte> MessageRanks::hear() { return receive(0, kMessageTag, true); }

void MessageRanks::answer(std::span<const std::byte> message) {
  send(0, message);
  finish();
}

std::vector<std::vector<std::byte>> MessageRanks::answers() {
  std::vector<std::vector<std::byte>> all;
  for (unsigned r = 1; r < size(); ++r) all.push_back(receive(r, kAnswerTag, false));
  return all;
}

}  // namespace kvick::model
