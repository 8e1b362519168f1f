// Simulates a slow link between two network devices of this kernel: moves Ethernet frames between
// two TAP devices with a given rate and delay. It serves to measure programs that talk over a
// network on one machine whose kernel has no netem; tools/two_machines puts each device into a
// namespace.
//
//   link DEVICE DEVICE RATE DELAY      bits per second, microseconds; makes the devices, prints
//                                      "ready" and runs until it is ended

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <string_view>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

struct Frame {
  Time due;
  std::vector<char> bytes;
};

// One direction. Frames leave one after the other at the link's rate, and arrive after the delay.
struct Direction {
  int from, to;
  std::deque<Frame> frames;
  Time free = {};  // when the last queued frame will have left
};

constexpr size_t kMostQueued = 4096;  // frames beyond this are lost, as in a switch
constexpr size_t kFrame = 65536;

// Opens a TAP device. Returns its descriptor, or -1.
int make_device(const char* name) {
  const int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (device < 0) return -1;
  ifreq request = {};
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  return ioctl(device, TUNSETIFF, &request) == 0 ? device : -1;
}

bool number_of(std::string_view text, double& value) {
  return std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc() &&
         value >= 0;
}

void take_frames(Direction& way, double bits_per_second, Clock::duration delay) {
  char buffer[kFrame];
  while (true) {
    const ssize_t bytes = read(way.from, buffer, sizeof buffer);
    if (bytes <= 0) return;
    if (way.frames.size() >= kMostQueued) continue;
    const double seconds =
        bits_per_second > 0 ? static_cast<double>(bytes) * 8 / bits_per_second : 0;
    way.free = std::max(way.free, Clock::now()) +
               std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    way.frames.push_back({way.free + delay, {buffer, buffer + bytes}});
  }
}

void give_frames(Direction& way) {
  const Time now = Clock::now();
  while (!way.frames.empty() && way.frames.front().due <= now) {
    const std::vector<char>& bytes = way.frames.front().bytes;
    if (write(way.to, bytes.data(), bytes.size()) < 0 && errno == EAGAIN) return;
    way.frames.pop_front();
  }
}

// Returns the time until the next frame is due, or one second if none is queued.
timespec time_left(const Direction& there, const Direction& back) {
  Time due = Time::max();
  for (const Direction* way : {&there, &back})
    if (!way->frames.empty()) due = std::min(due, way->frames.front().due);
  if (due == Time::max()) return {.tv_sec = 1, .tv_nsec = 0};
  const auto left =
      std::chrono::duration_cast<std::chrono::nanoseconds>(due - Clock::now()).count();
  return {.tv_sec = 0, .tv_nsec = left > 0 ? left % 1'000'000'000 : 0};
}

}  // namespace

int main(int argc, char** argv) {
  double rate = 0, microseconds = 0;
  if (argc != 5 || !number_of(argv[3], rate) || !number_of(argv[4], microseconds)) {
    std::fprintf(stderr, "link DEVICE DEVICE BITS_PER_SECOND DELAY_IN_MICROSECONDS\n");
    return 2;
  }
  const int a = make_device(argv[1]), b = make_device(argv[2]);
  if (a < 0 || b < 0) {
    std::fprintf(stderr, "link: cannot make the devices %s and %s: %s\n", argv[1], argv[2],
                 std::strerror(errno));
    return 1;
  }
  prctl(PR_SET_TIMERSLACK, 1);  // sleep exactly as long as asked, not up to 50 us longer
  // A real link does not wait for a free processor. Without permission for this priority, this one
  // does.
  const sched_param first = {.sched_priority = 1};
  (void)sched_setscheduler(0, SCHED_FIFO, &first);
  std::puts("ready");
  std::fflush(stdout);
  const auto delay = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(microseconds * 1e-6));
  Direction there = {.from = a, .to = b, .frames = {}}, back = {.from = b, .to = a, .frames = {}};
  while (true) {
    pollfd files[] = {{.fd = a, .events = POLLIN, .revents = 0},
                      {.fd = b, .events = POLLIN, .revents = 0}};
    const timespec left = time_left(there, back);
    if (ppoll(files, 2, &left, nullptr) < 0 && errno != EINTR) return 1;
    for (Direction* way : {&there, &back}) {
      take_frames(*way, rate, delay);
      give_frames(*way);
    }
  }
}
