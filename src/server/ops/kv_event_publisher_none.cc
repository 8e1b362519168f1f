// Replaces kv_event_publisher.cc in builds without ZeroMQ.

#include "server/ops/kv_event_publisher.h"

namespace kvick::server {

base::Result<std::unique_ptr<KvEventPublisher>> KvEventPublisher::open(
    const KvEventOptions&, std::shared_ptr<engine::PrefixEvents>) {
  return base::fail(
      "--kv-events: this kvick was built without ZeroMQ; install libzmq3-dev, configure and build "
      "again");
}

}  // namespace kvick::server
