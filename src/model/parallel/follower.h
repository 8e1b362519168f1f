#pragma once
// The loop of all ranks but 0: each carries out rank 0's orders.

#include <functional>
#include <map>
#include <memory>

#include "base/function_ref.h"
#include "kv/contract/kv.h"
#include "model/core/model.h"
#include "model/core/step_message.h"
#include "model/core/workspace.h"

namespace kvick::model {

class Follower {
 public:
  // Makes this rank's store from the option text of rank 0's store, for this rank's share.
  using MakeStore =
      std::function<base::Result<std::unique_ptr<kv::Store>>(const std::string& options)>;
  // Gets one sentence for each step that this rank could not compute: rank 0 learns of it, but not
  // why.
  using Report = std::function<void(const std::string&)>;
  // The model must be loaded with ranks and outlive the follower.
  Follower(const Model& model, Workspace workspace, MakeStore make_store, Report report)
      : model_(model),
        workspace_(std::move(workspace)),
        make_store_(std::move(make_store)),
        report_(std::move(report)) {}

  // Runs until rank 0 sends Order::kEnd. Throws RankLost if a rank is gone.
  void run();

 private:
  struct Stored {
    std::unique_ptr<kv::Store> store;
    std::map<kv::SeqId, kv::SeqId> sequences;  // from rank 0's ids to this rank's
    std::vector<std::vector<Token>> tokens;    // per slot of the step
    std::unique_ptr<kv::Step> step;  // null: there is none, or this rank had no memory for it
  };

  void obey(Order order, MessageReader& message);
  void make_store(MessageReader& message);
  void open(Stored& stored, MessageReader& message);
  void fork(Stored& stored, MessageReader& message);
  void begin(Stored& stored, MessageReader& message);
  void forward(MessageReader& message);
  static void close(Stored& stored, kv::SeqId seq);
  void read_rows(Stored& stored, MessageReader& message);
  void put_rows(Stored& stored);
  void read_state(Stored& stored, MessageReader& message);
  void put_state(Stored& stored, MessageReader& message);
  void answer_bytes(uint64_t bytes, base::FunctionRef<void(std::span<std::byte>)> read);
  void take_dealt(base::FunctionRef<void(std::span<const std::byte>)> take);
  void first_row(Stored& stored, MessageReader& message);
  static void hold_rows(Stored& stored, MessageReader& message);
  static void keep(Stored& stored, MessageReader& message);
  static void commit(Stored& stored, MessageReader& message);
  static void shrink(Stored& stored, double part);

  const Model& model_;
  Workspace workspace_;
  MakeStore make_store_;
  Report report_;
  std::map<uint32_t, Stored> stores_;
  Stored* begun_ = nullptr;  // the store whose step was begun last
};

}  // namespace kvick::model
