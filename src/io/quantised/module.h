#pragma once
// The tensors of one quantised module: names that begin with, say, "model.layers.0.mlp.up_proj".

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "io/safetensors/safetensors.h"

namespace kvick::io {

using StoredIndex = std::map<std::string, const StoredTensor*, std::less<>>;

class Module {
 public:
  Module(const StoredIndex& index, std::string name) : index_(index), name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  const StoredTensor* find(std::string_view part) const {  // nullptr if absent
    const auto at = index_.find(name_ + std::string(part));
    return at == index_.end() ? nullptr : at->second;
  }
  // Error: the part is absent; the message names `beside`, the tensor that needs it.
  base::Result<const StoredTensor*> need(std::string_view part, const StoredTensor& beside) const {
    if (const StoredTensor* tensor = find(part)) return tensor;
    return base::fail("{}: has no {}{} beside it", beside.label, name_, part);
  }

 private:
  const StoredIndex& index_;
  std::string name_;
};

}  // namespace kvick::io
