// Reads a split GGUF file: the first part has the metadata, and each part has some of the tensors.

#include <filesystem>

#include "io/file/builder.h"
#include "io/file/split_name.h"

namespace kvick::io {
namespace {

// Checks that a part's own numbers agree with its name and the first part.
base::Status<> check_part(const ModelFile& file, uint64_t number, uint64_t parts) {
  KVICK_TRY(const uint64_t own_number, file.get_uint("split.no"));
  KVICK_TRY(const uint64_t own_parts, file.get_uint("split.count"));
  if (own_number == number && own_parts == parts) return base::Done{};
  return base::fail(
      "{}: it says that it is part {} of {} (split.no, split.count) where part {} of {} is "
      "expected: the parts do not belong together",
      file.path(), own_number + 1, own_parts, number + 1, parts);
}

base::Result<SplitName> name_of_first(const ModelFile& first, uint64_t parts) {
  KVICK_TRY(const uint64_t number, first.get_uint("split.no", 0));
  const auto name = parse_split_name(first.path());
  if (name && number > 0)
    return base::fail("{}: part {} of {} of a split GGUF: give its first part, {}", first.path(),
                      number + 1, parts, name->of(1));
  if (!name || name->parts != parts)
    return base::fail(
        "{}: one of {} parts of a split GGUF, whose name does not end with -00001-of-{:05}.gguf: "
        "the other parts are found by that name",
        first.path(), parts, parts);
  return *name;
}

}  // namespace

base::Result<ModelFile> open_split_gguf(ModelFile first, uint64_t parts) {
  KVICK_TRY(const SplitName name, name_of_first(first, parts));
  KVICK_TRY_VOID(check_part(first, 0, parts));
  KVICK_TRY(const uint64_t tensors, first.get_uint("split.tensors.count", first.tensors().size()));
  const bool counted = first.metadata().contains("split.tensors.count");
  const std::string path = first.path();
  ModelFileBuilder builder(std::move(first));
  for (uint32_t i = 1; i < parts; ++i) {
    const std::string other = name.of(i + 1);
    if (std::error_code none; !std::filesystem::exists(other, none))
      return base::fail("{}: part {} of {} is missing: there is no {}", path, i + 1, parts, other);
    KVICK_TRY(ModelFile part, ModelFile::open_for_inspection(other));
    if (part.container() != Container::kGguf)
      return base::fail("{}: it is not the GGUF file that part {} of {} must be", other, i + 1,
                        parts);
    KVICK_TRY_VOID(check_part(part, i, parts));
    KVICK_TRY_VOID(builder.take(std::move(part)));
  }
  ModelFile whole = builder.finish();
  if (counted && whole.tensors().size() != tensors)
    return base::fail("{}: its parts have {} tensors and split.tensors.count is {}", path,
                      whole.tensors().size(), tensors);
  return whole;
}

}  // namespace kvick::io
