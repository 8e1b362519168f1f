#pragma once
// A conversation's cache, and the session that fills it.

#include <memory>

#include "base/result.h"
#include "engine/core/engine.h"
#include "engine/session/session.h"

namespace kvick::cli {

class KvSession {
 public:
  // The engine must outlive the session. The engine's first adapter is used, if it has one. Errors:
  // those of Engine::make_store and Session::speculate.
  static base::Result<std::unique_ptr<KvSession>> open(engine::Engine& engine,
                                                       const engine::KvOptions& kv,
                                                       const engine::SpecOptions& spec);

  engine::Session& session() { return *session_; }
  const kv::Store& store() const { return *store_; }
  const engine::KvOptions& kv() const { return kv_; }

  // Continues with another, empty cache. On an error nothing is changed. Errors: those of open().
  base::Status<> change(const engine::KvOptions& kv);

 private:
  KvSession(engine::Engine& engine, engine::SpecOptions spec)
      : engine_(engine), spec_(std::move(spec)) {}

  engine::Engine& engine_;
  engine::SpecOptions spec_;
  engine::KvOptions kv_;
  std::unique_ptr<kv::Store> store_;
  std::unique_ptr<engine::Session> session_;  // declared after store_, so it is destroyed first
};

}  // namespace kvick::cli
