#include "server/ops/model_host.h"

#include <future>
#include <gtest/gtest.h>

#include "server/testing/service.h"

namespace kvick::server {
namespace {

// Fake models; in_memory() shows which are loaded.
class ModelHostTest : public testing::Test {
 protected:
  ModelSource source(std::string name, uint64_t bytes) {
    return source(std::move(name), bytes, [this, bytes] { return model(bytes); });
  }
  static ModelSource source(std::string name, uint64_t bytes,
                            std::function<base::Result<LoadedModel>()> load) {
    return {.name = std::move(name), .bytes = bytes, .load = std::move(load)};
  }
  LoadedModel model(uint64_t bytes) {
    ++loads_;
    return {.owner = nullptr,
            .engine = &test_engine(),
            .service = &service_,
            .constraint = nullptr,
            .bytes = bytes};
  }
  void make(std::vector<ModelSource> sources, uint64_t max_bytes, size_t most_waiting = 10) {
    host_ =
        std::make_unique<ModelHost>(std::move(sources), HostOptions{.max_bytes = max_bytes,
                                                                    .most_waiting = most_waiting,
                                                                    .room_seconds = room_seconds_});
  }
  // Requests a model and waits for the result.
  ApiResult<ModelHost::Lease> bring(size_t model) {
    const auto heard = std::make_shared<std::promise<ApiResult<ModelHost::Lease>>>();
    auto answer = heard->get_future();
    host_->when_loaded(model, [heard](ApiResult<ModelHost::Lease> loaded) {
      heard->set_value(std::move(loaded));
    });
    return answer.get();
  }
  unsigned status(size_t model) {
    const auto loaded = bring(model);
    return loaded.ok() ? 200 : loaded.error().status;
  }
  std::string in_memory() {
    std::string names;
    for (size_t i = 0; i < host_->size(); ++i)
      if (host_->look(i) != nullptr) names += host_->name(i);
    return names;
  }

  ManualService service_;
  int loads_ = 0;
  double room_seconds_ = 0;
  std::unique_ptr<ModelHost> host_;
};

TEST_F(ModelHostTest, LoadsAModelWhenItIsFirstWanted) {
  make({source("a", 1), source("b", 1)}, 10);
  EXPECT_EQ(in_memory(), "");
  EXPECT_EQ(host_->use(1), nullptr);
  const auto loaded = bring(1);
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ((*loaded)->name, "b");
  EXPECT_EQ(in_memory(), "b");
  EXPECT_EQ(status(1), 200U);
  EXPECT_EQ(loads_, 1);
}

TEST_F(ModelHostTest, UnloadsTheIdleModelThatWasUsedLongestAgo) {
  make({source("a", 4), source("b", 4), source("c", 4)}, 8);
  EXPECT_EQ(status(0), 200U);
  EXPECT_EQ(status(1), 200U);
  EXPECT_NE(host_->use(0), nullptr);
  EXPECT_NE(host_->look(1), nullptr);  // does not count as a use
  EXPECT_EQ(status(2), 200U);
  EXPECT_EQ(in_memory(), "ac");
}

TEST_F(ModelHostTest, UnloadsNoModelThatIsLeased) {
  make({source("a", 4), source("b", 4)}, 7);
  {
    const auto lease = bring(0);
    ASSERT_TRUE(lease.ok());
    const auto refused = bring(1);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().status, 503U);
    EXPECT_EQ(refused.error().headers, (Headers{{"Retry-After", "1"}}));
    EXPECT_EQ(in_memory(), "a");
  }
  EXPECT_EQ(status(1), 200U);
  EXPECT_EQ(in_memory(), "b");
}

TEST_F(ModelHostTest, WaitsForALeaseThatEnds) {
  room_seconds_ = 3600;
  make({source("a", 4), source("b", 4)}, 7);
  std::promise<unsigned> heard;
  {
    const auto lease = bring(0);
    host_->when_loaded(1, [&](const ApiResult<ModelHost::Lease>& loaded) {
      heard.set_value(loaded.ok() ? 200 : loaded.error().status);
    });
    EXPECT_EQ(in_memory(), "a");
  }
  EXPECT_EQ(heard.get_future().get(), 200U);
  EXPECT_EQ(in_memory(), "b");
}

TEST_F(ModelHostTest, CountsNoClientThatHasLeft) {
  std::promise<void> begun, goes_on;
  make({source("a", 1,
               [&] {
                 begun.set_value();
                 goes_on.get_future().wait();
                 return model(1);
               }),
        source("b", 1)},
       10, 3);
  const auto never = [](const ApiResult<ModelHost::Lease>&) { FAIL(); };
  std::promise<unsigned> heard;
  const auto hear = [&](const ApiResult<ModelHost::Lease>& loaded) {
    heard.set_value(loaded.ok() ? 200 : loaded.error().status);
  };
  const auto left = std::make_shared<std::atomic<bool>>(false);
  host_->when_loaded(0, hear);
  begun.get_future().wait();
  host_->when_loaded(1, never, left);
  host_->when_loaded(1, never, left);
  EXPECT_EQ(status(1), 503U);
  *left = true;
  std::promise<unsigned> other;
  host_->when_loaded(0, [&](const ApiResult<ModelHost::Lease>& loaded) {
    other.set_value(loaded.ok() ? 200 : loaded.error().status);
  });
  goes_on.set_value();
  EXPECT_EQ(heard.get_future().get(), 200U);
  EXPECT_EQ(other.get_future().get(), 200U);
  EXPECT_EQ(in_memory(), "a");  // no request waits for b
  EXPECT_EQ(loads_, 1);
  EXPECT_EQ(status(1), 200U);
}

TEST_F(ModelHostTest, LoadsNothingTwiceForThoseWhoComeWhenAllOthersHaveLeft) {
  std::promise<void> begun, goes_on;
  make({source("a", 1,
               [&] {
                 if (loads_ == 0) begun.set_value(), goes_on.get_future().wait();
                 return model(1);
               })},
       10, 1);
  const auto left = std::make_shared<std::atomic<bool>>(false);
  host_->when_loaded(
      0, [](const ApiResult<ModelHost::Lease>&) {}, left);
  begun.get_future().wait();
  *left = true;
  std::promise<unsigned> heard;
  host_->when_loaded(0, [&](const ApiResult<ModelHost::Lease>& loaded) {
    heard.set_value(loaded.ok() ? 200 : loaded.error().status);
  });
  goes_on.set_value();
  EXPECT_EQ(heard.get_future().get(), 200U);
  EXPECT_EQ(loads_, 1);
}

TEST_F(ModelHostTest, UnloadsNothingForAModelThatHasNoRoomAnyway) {
  make({source("a", 4), source("b", 2), source("c", 7)}, 8);
  const auto lease = bring(0);
  EXPECT_EQ(status(1), 200U);
  EXPECT_EQ(status(2), 503U);
  EXPECT_EQ(in_memory(), "ab");
}

TEST_F(ModelHostTest, GoesByWhatAModelTakesOnceThatIsKnown) {
  make({source("a", 4), source("b", 1, [this] { return model(6); }),
        source("c", 1, [this] { return model(99); })},
       8);
  EXPECT_EQ(status(0), 200U);
  EXPECT_EQ(status(1), 200U);
  EXPECT_EQ(in_memory(), "b");
  const auto too_large = bring(2);
  ASSERT_FALSE(too_large.ok());
  EXPECT_EQ(too_large.error().status, 500U);
  EXPECT_NE(too_large.error().message.find("--models-memory"), std::string::npos);
  EXPECT_EQ(loads_, 3);
  EXPECT_EQ(status(2), 500U);
  EXPECT_EQ(loads_, 3);  // its size is known now
  EXPECT_EQ(in_memory(), "b");
}

TEST_F(ModelHostTest, SaysWhyAModelCannotBeLoadedAndKeepsTheOthers) {
  int tries = 0;
  make({source("a", 1), source("b", 1,
                               [&]() -> base::Result<LoadedModel> {
                                 if (++tries == 1) return base::fail("the file is torn");
                                 if (tries == 2) throw std::runtime_error("broken");
                                 return model(1);
                               })},
       10);
  EXPECT_EQ(status(0), 200U);
  const auto torn = bring(1);
  ASSERT_FALSE(torn.ok());
  EXPECT_EQ(torn.error().status, 500U);
  EXPECT_EQ(torn.error().message, "the model b cannot be loaded: the file is torn");
  EXPECT_EQ(bring(1).error().message, "the model b cannot be loaded: broken");
  EXPECT_EQ(in_memory(), "a");
  EXPECT_EQ(status(1), 200U);
}

TEST_F(ModelHostTest, AsksToTryAgainWhereThereIsNoMemoryForAModel) {
  int tries = 0;
  make({source("a", 1,
               [&] {
                 if (++tries == 1) throw std::bad_alloc();
                 return model(1);
               })},
       10);
  const auto refused = bring(0);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().status, 503U);
  EXPECT_EQ(refused.error().code, "no_memory");
  EXPECT_EQ(refused.error().message, "there is no memory for the model a now; try again later");
  EXPECT_EQ(refused.error().headers, (Headers{{"Retry-After", "1"}}));
  EXPECT_EQ(status(0), 200U);
}

TEST_F(ModelHostTest, LoadsOnceForAllThatWaitAndRefusesMoreThanMayWait) {
  std::promise<void> begun, go;
  make({source("a", 1,
               [&] {
                 begun.set_value();
                 go.get_future().get();
                 return model(1);
               }),
        source("b", 1)},
       10, 2);
  std::promise<unsigned> first, second;
  const auto hear = [](std::promise<unsigned>& heard) {
    return [&heard](const ApiResult<ModelHost::Lease>& loaded) {
      heard.set_value(loaded.ok() ? 200 : loaded.error().status);
    };
  };
  host_->when_loaded(0, hear(first));
  begun.get_future().get();
  host_->when_loaded(0, hear(second));
  EXPECT_EQ(status(0), 503U);
  EXPECT_EQ(status(1), 503U);
  go.set_value();
  EXPECT_EQ(first.get_future().get(), 200U);
  EXPECT_EQ(second.get_future().get(), 200U);
  EXPECT_EQ(status(1), 200U);
  EXPECT_EQ(loads_, 2);
}

TEST_F(ModelHostTest, LoadsNothingOnceItIsStopped) {
  make({source("a", 1)}, 10);
  host_->stop();
  EXPECT_EQ(status(0), 503U);
  EXPECT_EQ(loads_, 0);
}

TEST_F(ModelHostTest, EndsBeforeALeaseOfAModelThatOthersOwn) {
  host_ = std::make_unique<ModelHost>("one", model(0));
  const ModelHost::Lease lease = host_->use(0);
  EXPECT_EQ(lease->name, "one");
  host_.reset();
}

}  // namespace
}  // namespace kvick::server
