#include "train/state/load_checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <set>

#include <fmt/ranges.h>

#include "core/crc32c.h"
#include "core/error.h"
#include "train/state/checkpoint_names.h"

namespace bitrift::train {
namespace {

constexpr const char* guard_prefix = "progress/guard_";

std::string describe(const std::string& dtype, const std::vector<std::uint64_t>& shape) {
  return fmt::format("{} [{}]", dtype, fmt::join(shape, ", "));
}

int stored_replicas(const ckpt::Reader& reader) {
  const std::optional<std::string> text = reader.attribute(replicas_attribute);
  if (!text) return 1;
  int count = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), count);
  if (error != std::errc() || end != text->data() + text->size() || count < 2) {
    fail(ErrorCode::bad_file, "{}: attribute {} is '{}'; expected a number of replicas, at least 2",
         reader.path().string(), replicas_attribute, *text);
  }
  return count;
}

torch::ScalarType torch_type(const std::string& name) {
  if (name == "float64") return torch::kFloat64;
  if (name == "float16") return torch::kFloat16;
  if (name == "bfloat16") return torch::kBFloat16;
  return torch::kFloat32;
}

bool is_floating(const ckpt::TensorInfo& tensor) {
  return tensor.format && tensor.format->kind == NumberKind::floating;
}

class Load {
 public:
  Load(const ckpt::Reader& reader, Session& session, const LoadOptions& options)
      : reader_(reader), session_(session), options_(options), stored_(stored_replicas(reader)) {}

  Loaded run() {
    check_replicas();
    if (options_.verify && reader_.format() != ckpt::FileFormat::hdf5) {
      fail(ErrorCode::bad_input,
           "{}: the guard checksums needs an HDF5 file; one of format {} has no checksum of each tensor: "
           "resume with --guard none, or from an HDF5 file",
           reader_.path().string(), name_of(reader_.format()));
    }
    const bool with_optimizer =
        std::any_of(reader_.tensors().begin(), reader_.tensors().end(),
                    [](const auto& tensor) { return tensor.path.starts_with(optimizer_prefix); });
    check_names(session_.file_tensors(with_optimizer));
    session_.drop_gradients();
    if (with_optimizer) {
      session_.optimizer().allocate();
    } else {
      session_.optimizer().clear();
    }
    for (StateTensor& tensor : session_.tensors()) {
      if (const ckpt::TensorInfo* found = choose(tensor.meta)) {
        read(*found, tensor);
      } else if (tensor.meta.path.starts_with(guard_prefix)) {
        tensor.write([&](void* bytes) { std::memset(bytes, 0, tensor.meta.bytes()); });
      }
    }
    if (stored_ > 1 && stored_ != options_.replicas) {
      result_.remark = fmt::format(
          "{}: holds {} replicas that differ; replica 0 is loaded into {}", reader_.path().string(), stored_,
          options_.replicas == 1 ? "the run" : fmt::format("all {}", options_.replicas));
    }
    return std::move(result_);
  }

 private:
  // Only buffers may differ if each parameter comes from the one replica that updates it.
  void check_replicas() const {
    if (!session_.shard().sharded() || stored_ != options_.replicas) return;
    std::set<std::string, std::less<>> buffers;
    for (const nn::Slot& slot : session_.stage().all_slots()) {
      if (!slot.trained) buffers.insert("model/" + slot.key);
    }
    for (const ckpt::TensorInfo& tensor : reader_.tensors()) {
      const std::optional<ReplicaPath> own = parse_replica_path(tensor.path);
      if (!own || buffers.contains(own->path)) continue;
      fail(ErrorCode::bad_input,
           "{}: holds {} replicas that differ in {}, and replicas with sharded optimizer state cannot; "
           "resume without shard_optimizer, or with another number of replicas, which all take replica 0's "
           "state",
           reader_.path().string(), stored_, own->path);
    }
  }

  // A file of a run without this guard, or of another precision, lacks tensors that only this run keeps.
  [[nodiscard]] bool may_lack(const ckpt::TensorMeta& meta) const {
    if (meta.path.starts_with(guard_prefix)) return true;
    return options_.convert && (meta.path == "progress/loss_scale" || meta.path == "progress/growth_tracker");
  }

  void check_names(const std::vector<ckpt::TensorMeta>& wanted) const {
    std::set<std::string, std::less<>> known;
    for (const ckpt::TensorMeta& meta : wanted) {
      if (const ckpt::TensorInfo* found = reader_.find(meta.path)) {
        check(*found, meta);
      } else if (!may_lack(meta)) {
        fail(ErrorCode::bad_file, "{}: tensor {} is missing; its spec asks for {}", reader_.path().string(),
             meta.path, describe(meta.format.name(), meta.shape));
      }
      known.insert(meta.path);
    }
    bool differing = false;
    for (const ckpt::TensorInfo& tensor : reader_.tensors()) {
      if (tensor.role == "checksum" || known.contains(tensor.path)) continue;
      const std::optional<ReplicaPath> replica = parse_replica_path(tensor.path);
      if (replica && replica->number > 0 && replica->number < stored_ && known.contains(replica->path)) {
        differing = true;
        continue;
      }
      if (tensor.path.starts_with(guard_prefix)) continue;
      if (options_.convert && tensor.path.starts_with("progress/")) continue;
      fail(ErrorCode::bad_file, "{}: tensor {} is not part of the model and optimizer that its spec names",
           reader_.path().string(), tensor.path);
    }
    if (stored_ > 1 && !differing) {
      fail(ErrorCode::bad_file,
           "{}: attribute {} says that {} replicas differ, and the group replica is missing",
           reader_.path().string(), replicas_attribute, stored_);
    }
  }

  void check(const ckpt::TensorInfo& found, const ckpt::TensorMeta& wanted) const {
    const bool convertible =
        options_.convert && is_floating(found) && wanted.format.kind == NumberKind::floating;
    if ((found.dtype == wanted.format.name() || convertible) && found.shape == wanted.shape) return;
    fail(ErrorCode::bad_file, "{}: tensor {} is {}; its spec asks for {}", reader_.path().string(),
         found.path, describe(found.dtype, found.shape), describe(wanted.format.name(), wanted.shape));
  }

  [[nodiscard]] const ckpt::TensorInfo* choose(const ckpt::TensorMeta& meta) const {
    if (options_.replica > 0 && stored_ == options_.replicas) {
      if (const ckpt::TensorInfo* own = reader_.find(replica_path(options_.replica, meta.path))) {
        check(*own, meta);
        return own;
      }
    }
    return reader_.find(meta.path);
  }

  void read(const ckpt::TensorInfo& found, StateTensor& tensor) {
    if (found.dtype == tensor.meta.format.name()) {
      tensor.write([&](void* bytes) {
        reader_.read(found, bytes, tensor.meta.bytes());
        verify(found, bytes, tensor.meta.bytes());
      });
      return;
    }
    const torch::NoGradGuard no_grad;
    const torch::Tensor stored = torch::empty(tensor.value.sizes(), torch_type(found.dtype));
    reader_.read(found, stored.data_ptr(), stored.nbytes());
    verify(found, stored.data_ptr(), stored.nbytes());
    tensor.value.copy_(stored);
  }

  void verify(const ckpt::TensorInfo& found, const void* bytes, std::size_t size) {
    if (!options_.verify) return;
    const auto stored = reader_.checksum(found.path);
    if (!stored || stored->value != crc32c(bytes, size)) result_.bad_checksums.push_back(found.path);
  }

  const ckpt::Reader& reader_;
  Session& session_;
  LoadOptions options_;
  int stored_;
  Loaded result_;
};

}  // namespace

void read_tensors(const ckpt::Reader& base, const std::filesystem::path& copy, Session& session,
                  const std::vector<std::string>& paths) {
  for (StateTensor& tensor : session.tensors()) {
    const std::string& path = tensor.meta.path;
    if (std::find(paths.begin(), paths.end(), path) == paths.end()) continue;
    const ckpt::TensorInfo* found = base.find(path);
    if (found == nullptr) fail(ErrorCode::bad_file, "{}: tensor {} is missing", base.path().string(), path);
    tensor.write([&](void* bytes) {
      if (found->offset) return base.read_from_copy(copy, *found, bytes, tensor.meta.bytes());
      const ckpt::Reader reader(copy);
      const ckpt::TensorInfo* there = reader.find(path);
      if (there == nullptr) fail(ErrorCode::bad_file, "{}: tensor {} is missing", copy.string(), path);
      reader.read(*there, bytes, tensor.meta.bytes());
    });
  }
}

Loaded load_session(const ckpt::Reader& reader, Session& session, const LoadOptions& options) {
  return Load(reader, session, options).run();
}

}  // namespace bitrift::train
