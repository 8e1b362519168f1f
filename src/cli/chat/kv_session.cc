#include "cli/chat/kv_session.h"

#include <utility>

namespace kvick::cli {

base::Result<std::unique_ptr<KvSession>> KvSession::open(engine::Engine& engine,
                                                         const engine::KvOptions& kv,
                                                         const engine::SpecOptions& spec) {
  std::unique_ptr<KvSession> opened(new KvSession(engine, spec));
  KVICK_TRY_VOID(opened->change(kv));
  return opened;
}

base::Status<> KvSession::change(const engine::KvOptions& kv) {
  KVICK_TRY(std::unique_ptr<kv::Store> store, engine_.make_store(kv));
  auto session = std::make_unique<engine::Session>(engine_, *store);
  session->set_prompt_role(engine_.prompt_role(kv));
  if (const engine::Adapters& adapters = engine_.adapters(); !adapters.empty())
    session->use_adapter({.adapter = adapters.front(), .scale = adapters.front()->scale});
  KVICK_TRY_VOID(session->speculate(spec_));
  session_ = std::move(session);
  store_ = std::move(store);
  kv_ = kv;
  return base::Done{};
}

}  // namespace kvick::cli
