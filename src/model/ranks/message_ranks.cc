#include "model/ranks/message_ranks.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/check.h"

namespace kvick::model {
namespace {

constexpr int kFloatsTag = 1, kMessageTag = 2, kAnswerTag = 3, kPassedTag = 4;
// A message of one byte instead of floats means that its sender has given up.
constexpr int kGaveUp = 1;
constexpr size_t kSend = SIZE_MAX, kAny = SIZE_MAX - 1;
// With more than two ranks, parts of more floats than this are added up slice by slice: each rank
// sends 2 (R - 1) / R of its part, instead of R - 1 times all of it.
constexpr size_t kWhole = 4096;
// kAtOnce: floats are passed on in messages that are small enough for MPI to send without asking
// the receiver, which is still computing while the network carries them. start_mpi sets TCP's limit
// to 1 MiB. kLogitsAtOnce: rank 0 waits for the last rank's logits and takes them in smaller
// pieces, because one message of 197 kB made a token of SmolLM2 take 1.2 to 1.4 times as long at 1
// Gb/s. With pieces that each wait for the receiver, prompts were read at 0.8 times the speed.
constexpr size_t kAtOnce = 1'000'000, kLogitsAtOnce = 60'000;

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

MessageRanks::MessageRanks(MPI_Comm all, WaitingOptions waiting, WireFormat format)
    : Ranks(static_cast<unsigned>(rank_of(all)), static_cast<unsigned>(size_of(all))),
      all_(all),
      waiting_(std::move(waiting)),
      format_(format) {}

template <typename Word>
void MessageRanks::send_words(unsigned to, const Word* words, size_t count) {
  MPI_Request& request = requests_.emplace_back();
  expected_.emplace_back(to, kSend);
  MPI_Isend(words, static_cast<int>(count * sizeof(Word)), MPI_BYTE, static_cast<int>(to),
            kFloatsTag, all_, &request);
}

template <typename Word>
void MessageRanks::receive_words(unsigned from, Word* words, size_t count, bool exactly) {
  MPI_Request& request = requests_.emplace_back();
  expected_.emplace_back(from, exactly ? count * sizeof(Word) : kAny);
  MPI_Irecv(words, static_cast<int>(count * sizeof(Word)), MPI_BYTE, static_cast<int>(from),
            kFloatsTag, all_, &request);
}

// Waits for all sends and receives since the last call. Returns the received bytes by rank.
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
    counts[from] = static_cast<size_t>(bytes);
    KVICK_CHECK(count == kAny || counts[from] == count, "{} bytes of rank {}, not {}", counts[from],
                from, count);
  }
  return counts;
}

float* MessageRanks::part(size_t count) {
  count_ = count;
  if (own_.size() < count) own_.resize(count);
  if (total_.size() < count) total_.resize(count);
  return own_.data();
}

// Sums by one exchange: each rank sends its whole part to all others.
void MessageRanks::exchange(const std::byte* own, std::byte* others) {
  const size_t bytes = wire_bytes(format_, count_);
  for (unsigned r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    receive_words(r, others + r * bytes, bytes);
    send_words(r, own, bytes);
  }
  finish();
  const auto of = [&](unsigned r) { return r == rank() ? own : others + r * bytes; };
  const std::span<float> total = std::span(total_).first(count_);
  from_wire(format_, of(0), total);
  for (unsigned r = 1; r < size(); ++r) add_from_wire(format_, of(r), total);
}

// Slices are whole groups, so that the bytes of a slice are a range of the bytes of the part.
size_t MessageRanks::slice(unsigned r) const {
  return r == size() ? count_ : count_ * r / size() / kWireGroup * kWireGroup;
}

// Sums by two exchanges: rank r adds up slice r of all parts and sends the sum to the others.
void MessageRanks::exchange_slices(const std::byte* own, std::byte* others) {
  const auto begin = [&](unsigned r) { return wire_bytes(format_, slice(r)); };
  const auto bytes_of = [&](unsigned r) { return begin(r + 1) - begin(r); };
  const size_t mine = bytes_of(rank());
  for (unsigned r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    receive_words(r, others + r * mine, mine);
    send_words(r, own + begin(r), bytes_of(r));
  }
  finish();
  const auto of = [&](unsigned r) { return r == rank() ? own + begin(r) : others + r * mine; };
  const std::span<float> total =
      std::span(total_).subspan(slice(rank()), slice(rank() + 1) - slice(rank()));
  from_wire(format_, of(0), total);
  for (unsigned r = 1; r < size(); ++r) add_from_wire(format_, of(r), total);
  // The memory of the parts is free now: slice r goes to begin(r).
  to_wire(format_, total, others + begin(rank()));
  for (unsigned r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    receive_words(r, others + begin(r), bytes_of(r));
    send_words(r, others + begin(rank()), mine);
  }
  finish();
  from_wire(format_, others, std::span(total_).first(count_));
}

const float* MessageRanks::sum() {
  const size_t bytes = wire_bytes(format_, count_);
  if (room_.size() < bytes * size()) room_.resize(bytes * size());
  const auto* own = reinterpret_cast<const std::byte*>(own_.data());
  if (format_ != WireFormat::kF32) {
    if (wire_.size() < bytes) wire_.resize(bytes);
    to_wire(format_, std::span(own_).first(count_), wire_.data());
    own = wire_.data();
  }
  size() > 2 && count_ > kWhole ? exchange_slices(own, room_.data()) : exchange(own, room_.data());
  return total_.data();
}

// Each rank sends something to all others, so that all ranks learn if one gives up.
void MessageRanks::gather(std::span<const float> own, Take take) {
  KVICK_CHECK(own.size() <= kMostGathered, "{} floats gathered at once", own.size());
  const size_t room = leads() ? kMostGathered : 1;
  if (room_.size() < room * size() * sizeof(float)) room_.resize(room * size() * sizeof(float));
  float* const others = reinterpret_cast<float*>(room_.data());
  for (unsigned r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    receive_words(r, others + r * room, room, /*exactly=*/false);
    send_words(r, own.data(), r == 0 ? own.size() : 0);
  }
  const std::vector<size_t> bytes = finish();
  if (!leads()) return;
  for (unsigned r = 1; r < size(); ++r) take(r, {others + r * room, bytes[r] / sizeof(float)});
}

// Receives and discards what the others send in the meantime.
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

// waits: the send is complete only when the receiver has begun to receive.
void MessageRanks::send_bytes(unsigned to, std::span<const std::byte> bytes, bool waits) {
  MPI_Request& request = requests_.emplace_back();
  expected_.emplace_back(to, kSend);
  (waits ? MPI_Issend : MPI_Isend)(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE,
                                   static_cast<int>(to), kPassedTag, all_, &request);
}

// If there are several messages, waits for the receiver of the last one: MPI sends only while it is
// called, so bytes that the network does not take at once would stay here.
void MessageRanks::pass_on(Passed passed) {
  const unsigned to = (rank() + 1) % size();
  const size_t at_once = to == 0 ? kLogitsAtOnce : kAtOnce;
  const std::span<const std::byte> bytes = passed_.bytes_of(passed);
  for (size_t first = 0; first < bytes.size(); first += at_once) {
    const size_t count = std::min(at_once, bytes.size() - first);
    send_bytes(to, bytes.subspan(first, count), first > 0 && first + count == bytes.size());
  }
  finish();
}

Ranks::Passed MessageRanks::take_over() {
  const unsigned from = (rank() + size() - 1) % size();
  std::vector<std::byte> bytes = receive(from, kPassedTag, false);
  size_t have = bytes.size();
  resize(bytes, PassedBytes::count_of(bytes), from);
  const size_t at_once = leads() ? kLogitsAtOnce : kAtOnce;
  for (; have < bytes.size(); have += at_once) {
    MPI_Request& request = requests_.emplace_back();
    expected_.emplace_back(from, kSend);  // its sender has counted its bytes
    MPI_Irecv(bytes.data() + have, static_cast<int>(std::min(at_once, bytes.size() - have)),
              MPI_BYTE, static_cast<int>(from), kPassedTag, all_, &request);
  }
  finish();
  return passed_.take(std::move(bytes));
}

void MessageRanks::send(unsigned to, std::span<const std::byte> message) {
  KVICK_CHECK(message.size() < INT32_MAX, "a message of {} bytes", message.size());
  MPI_Request& request = requests_.emplace_back();
  expected_.emplace_back(to, kSend);
  MPI_Isend(message.data(), static_cast<int>(message.size()), MPI_BYTE, static_cast<int>(to),
            leads() ? kMessageTag : kAnswerTag, all_, &request);
}

// Makes room for a message. MPI cannot drop one that there is no memory for, and a later message
// would be taken for it.
void MessageRanks::resize(std::vector<std::byte>& bytes, size_t size, unsigned from) const {
  try {
    bytes.resize(size);
  } catch (const std::bad_alloc&) {
    waiting_.lose(
        fmt::format("there is no memory for a message of {} bytes of rank {}; end other "
                    "programs, or lower --kv-memory",
                    size, from));
  }
}

std::vector<std::byte> MessageRanks::receive(unsigned from, int tag, bool idle) {
  MPI_Message message;
  MPI_Status status;
  const auto there = [&] {
    int flag = 0;
    MPI_Improbe(static_cast<int>(from), tag, all_, &flag, &message, &status);
    return flag != 0;
  };
  if (idle)
    waiting_.idle_until(there);
  else
    waiting_.until(there);
  int bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  std::vector<std::byte> result;
  resize(result, static_cast<size_t>(bytes), from);
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

std::vector<std::vector<std::byte>> MessageRanks::answers(bool patient) {
  std::vector<std::vector<std::byte>> all;
  for (unsigned r = 1; r < size(); ++r) all.push_back(receive(r, kAnswerTag, patient));
  return all;
}

void MessageRanks::deal(std::span<const std::span<const std::byte>> parts) {
  KVICK_CHECK_EQ(parts.size() + 1, size());
  for (unsigned r = 1; r < size(); ++r) send(r, parts[r - 1]);
  finish();
}

std::vector<std::byte> MessageRanks::dealt() { return receive(0, kMessageTag, false); }

}  // namespace kvick::model
