// Model::load: finds the family, and the place of the packed weights.

#include <algorithm>
#include <filesystem>

#include "io/packed/packed_folder.h"
#include "io/packed/packed_key.h"
#include "kernels/formats/packed_bytes.h"
#include "model/families/decoder.h"
#include "model/families/read_config.h"

namespace kvick::model {
namespace {

using base::Result;

using File = std::shared_ptr<const io::ModelFile>;

// Reads the model into a temporary decoder, only to pass its matrices to `place`.
base::Status<> pass(const File& file, const Family& family, const LoadOptions& options,
                    MatrixPlace& place) {
  KVICK_TRY(Config config, read_config(*file, &family, options.sequence));
  Decoder decoder(std::move(config), file);
  return decoder.read(family, options, place);
}

LoadOptions quiet(LoadOptions options) {
  options.progress = nullptr;
  return options;
}

// Packs the weights into a file in the folder. Error: the model cannot be read. Returns nothing if
// the weights cannot be kept, and reports that to the user.
Result<std::optional<io::PackedFile>> write_packed(const File& file, const Family& family,
                                                   const LoadOptions& options,
                                                   const io::PackedPlan& plan) {
  const io::PackedFolder folder(*options.packed);
  const auto refuse = [&](const base::Error& why) {
    options.packed->say(
        fmt::format("packed weights are not kept: {}; give --packed another folder, or off to pack "
                    "them in memory at each start",
                    why.message));
    return std::optional<io::PackedFile>();
  };
  auto writer = folder.begin(plan);
  if (!writer.ok()) return refuse(writer.error());
  Written place(*writer, *options.pool);
  // pass() stops at the first write that fails; the caller then packs the model again, into memory.
  KVICK_TRY_VOID(pass(file, family, options, place));
  if (!place.status().ok()) return refuse(place.status().error());
  if (const auto done = writer->finish(); !done.ok()) return refuse(done.error());
  auto packed = folder.find(plan, *options.pool, nullptr);
  if (!packed) {
    // find() says nothing of a file that cannot be opened or mapped; begin() refuses it and says
    // why.
    const auto again = folder.begin(plan);
    return refuse(again.ok() ? base::fail("{} could not be read after it was written",
                                          folder.path_of(plan.key).string())
                             : again.error());
  }
  options.packed->say(fmt::format(
      "the packed weights are kept in {} ({:.1f} GB), so that the next start is fast; `kvick "
      "packed` lists and deletes them",
      folder.path_of(plan.key).string(), static_cast<double>(plan.file_bytes()) / 1e9));
  return packed;
}

// Returns the model's packed file, an existing one or one written now; nothing: pack into memory.
Result<std::optional<io::PackedFile>> packed_file(const File& file, const Family& family,
                                                  const LoadOptions& options,
                                                  std::vector<io::PackedMatrix>& matrices) {
  Listed listed;
  KVICK_TRY_VOID(pass(file, family, quiet(options), listed));
  matrices = listed.matrices();
  uint64_t bytes = 0;
  for (const io::PackedMatrix& matrix : matrices) bytes += matrix.bytes;
  if (bytes == 0 || bytes < options.packed->least_bytes) return std::optional<io::PackedFile>();
  const auto key = io::packed_key(*file, kernels::kPackedVersion, matrices);
  if (!key.ok()) {
    options.packed->say(fmt::format("packed weights are not kept: {}", key.error().message));
    return std::optional<io::PackedFile>();
  }
  std::error_code none;
  const io::PackedPlan plan(*key, std::filesystem::absolute(file->path(), none).string(), matrices);
  auto found = io::PackedFolder(*options.packed).find(plan, *options.pool, options.progress);
  if (found) return found;
  return write_packed(file, family, options, plan);
}

bool has_experts(const Config& config) {
  return std::any_of(config.layers.begin(), config.layers.end(),
                     [](const LayerConfig& layer) { return layer.experts.count > 0; });
}

// Checks the requirements of LoadOptions::expert_bytes.
base::Status<> check_expert_bytes(const io::ModelFile& file, const Config& config,
                                  const LoadOptions& options, bool packed) {
  if (options.expert_bytes == 0) return base::Done{};
  if (!has_experts(config))
    return base::fail(
        "{}: this model has no experts that could stay on the disk: leave --expert-memory out",
        file.path());
  if (!packed)
    return base::fail(
        "{}: --expert-memory reads experts from packed weights, and there are none: give --packed "
        "a folder with enough room",
        file.path());
  return base::Done{};
}

// Advises --expert-memory if the weights exceed `free`, the bytes of memory available before
// loading.
void advise_expert_memory(const Config& config, const LoadOptions& options,
                          std::span<const io::PackedMatrix> matrices, uint64_t free) {
  if (options.expert_bytes > 0 || !has_experts(config)) return;
  uint64_t bytes = 0;
  for (const io::PackedMatrix& matrix : matrices) bytes += matrix.bytes;
  if (bytes <= free) return;
  options.packed->say(fmt::format(
      "the weights take {:.1f} GB and {:.1f} GB of memory are free: --expert-memory keeps the most "
      "used experts in memory, which is faster than reading all weights from the disk",
      static_cast<double>(bytes) / 1e9, static_cast<double>(free) / 1e9));
}

}  // namespace

Result<std::unique_ptr<Model>> Model::load(io::ModelFile opened, const LoadOptions& options) {
  KVICK_CHECK(options.kernels != nullptr && options.pool != nullptr,
              "load needs kernels and threads");
  const auto file = std::make_shared<const io::ModelFile>(std::move(opened));
  KVICK_TRY(const std::string arch, file->get_string("general.architecture"));
  const Family* family = find_family(arch, options.families);
  if (family == nullptr) {
    std::string names;
    for (const Family& known : families())
      names += (names.empty() ? "" : ", ") + std::string(known.name);
    return base::fail("{}: general.architecture is \"{}\"; kvick runs {}", file->path(), arch,
                      names);
  }
  const uint64_t free = base::available_memory_bytes();
  std::vector<io::PackedMatrix> matrices;
  std::optional<io::PackedFile> packed;
  if (options.packed != nullptr) {
    io::PackedOptions kept = *options.packed;
    if (options.expert_bytes > 0) {  // a model of any size, which may not fit into memory
      kept.least_bytes = 0;
      kept.after_check = io::PackedFile::After::kUnmapped;
    }
    LoadOptions with = options;
    with.packed = &kept;
    KVICK_TRY(packed, packed_file(file, *family, with, matrices));
  }
  KVICK_TRY(Config config, read_config(*file, family, options.sequence));
  KVICK_TRY_VOID(check_expert_bytes(*file, config, options, packed.has_value()));
  auto model = std::make_unique<Decoder>(std::move(config), file);
  if (packed) {
    advise_expert_memory(model->config(), options, matrices, free);
    model->hold(*std::move(packed));
    if (options.expert_bytes > 0) model->limit_experts(options.expert_bytes);
    Mapped place(*model->packed(), matrices);
    KVICK_TRY_VOID(model->read(*family, quiet(options), place));
  } else {
    InMemory place(model->memory());
    KVICK_TRY_VOID(model->read(*family, options, place));
  }
  if (!options.outputs.empty()) model->set_outputs(static_cast<uint32_t>(options.outputs.size()));
  return std::unique_ptr<Model>(std::move(model));
}

}  // namespace kvick::model
