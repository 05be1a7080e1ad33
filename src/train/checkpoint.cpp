#include "train/checkpoint.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include <fmt/ranges.h>

#include "ckpt/writer.h"
#include "core/error.h"
#include "record/json.h"

namespace bitrift::train {
namespace {

constexpr const char* schema = "bitrift/checkpoint/1";

std::string describe(const std::string& dtype, const std::vector<std::uint64_t>& shape) {
  return fmt::format("{} [{}]", dtype, fmt::join(shape, ", "));
}

const ckpt::TensorInfo& find_tensor(const ckpt::Reader& reader, const ckpt::TensorMeta& wanted) {
  const ckpt::TensorInfo* found = reader.find(wanted.path);
  if (found == nullptr) {
    fail(ErrorCode::bad_file, "{}: tensor {} is missing; its spec asks for {}", reader.path().string(),
         wanted.path, describe(wanted.format.name(), wanted.shape));
  }
  if (found->dtype != wanted.format.name() || found->shape != wanted.shape) {
    fail(ErrorCode::bad_file, "{}: tensor {} is {}; its spec asks for {}", reader.path().string(),
         wanted.path, describe(found->dtype, found->shape), describe(wanted.format.name(), wanted.shape));
  }
  return *found;
}

bool has_optimizer(const ckpt::Reader& reader) {
  return std::any_of(reader.tensors().begin(), reader.tensors().end(),
                     [](const auto& tensor) { return tensor.path.starts_with("optimizer/"); });
}

void check_tensors(const ckpt::Reader& reader, const std::vector<ckpt::TensorMeta>& wanted) {
  std::set<std::string, std::less<>> known;
  for (const ckpt::TensorMeta& meta : wanted) {
    find_tensor(reader, meta);
    known.insert(meta.path);
  }
  for (const ckpt::TensorInfo& tensor : reader.tensors()) {
    if (tensor.role != "checksum" && !known.contains(tensor.path)) {
      fail(ErrorCode::bad_file, "{}: tensor {} is not part of the model and optimizer that its spec names",
           reader.path().string(), tensor.path);
    }
  }
}

std::string versions() { return record::Json{{"libtorch", TORCH_VERSION}}.dump(); }

// Writes what arrives, and remembers the first error instead of leaving senders waiting.
class Sink {
 public:
  Sink(const std::filesystem::path& path, const std::vector<ckpt::TensorMeta>& metas,
       const record::TrainingSpec& spec) {
    keep([&] {
      writer_.emplace(path, metas,
                      std::map<std::string, std::string>{
                          {"schema", schema}, {"spec", record::to_text(spec)}, {"versions", versions()}});
    });
  }
  void tensor(const ckpt::TensorMeta& meta, const void* data) {
    keep([&] { writer_->tensor(meta.path, data, meta.bytes()); });
  }
  void commit() {
    keep([&] { writer_->commit(); });
  }
  [[nodiscard]] const Error* error() const { return error_ ? &*error_ : nullptr; }

 private:
  template <typename Work>
  void keep(const Work& work) {
    if (error_) return;
    try {
      work();
    } catch (const Error& caught) {
      error_ = caught;
    }
  }

  std::optional<ckpt::Writer> writer_;
  std::optional<Error> error_;
};

std::map<std::string, int> owners(const std::vector<StateTensor>& mine,
                                  const mpi::Communicator& communicator) {
  std::string paths;
  for (const StateTensor& tensor : mine) paths += tensor.meta.path + "\n";
  std::map<std::string, int> result;
  const std::vector<std::string> all = communicator.gather(paths, 0);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    std::istringstream lines(all[rank]);
    for (std::string path; std::getline(lines, path);) result[path] = static_cast<int>(rank);
  }
  return result;
}

constexpr int tensor_tag = 1;

}  // namespace

record::TrainingSpec checkpoint_spec(const ckpt::Reader& reader) {
  const std::optional<std::string> found = reader.attribute("schema");
  const std::optional<std::string> spec = reader.attribute("spec");
  if (found != schema || !spec) {
    fail(ErrorCode::bad_file,
         "{}: expected a checkpoint of schema {}, found {}; make one with bitrift-train train",
         reader.path().string(), schema, found.value_or("an HDF5 file without that attribute"));
  }
  return record::training_spec_from_text(*spec);
}

void load_session(const ckpt::Reader& reader, Session& session) {
  const bool with_optimizer = has_optimizer(reader);
  check_tensors(reader, session.file_tensors(with_optimizer));
  session.drop_gradients();
  if (with_optimizer) {
    session.optimizer().allocate();
  } else {
    session.optimizer().clear();
  }
  for (const StateTensor& tensor : session.tensors()) {
    reader.read(find_tensor(reader, tensor.meta), tensor.data, tensor.meta.bytes());
  }
}

void save_session(const std::filesystem::path& path, Session& session, const record::TrainingSpec& spec,
                  const mpi::Communicator& communicator, bool staged) {
  const int rank = communicator.rank();
  const std::vector<StateTensor> mine = session.tensors(!staged || rank == 0);
  std::optional<Error> error;
  if (staged && rank > 0) {
    owners(mine, communicator);
    for (const StateTensor& tensor : mine) communicator.send(tensor.data, tensor.meta.bytes(), 0, tensor_tag);
  } else if (rank == 0) {
    const std::map<std::string, int> owner =
        staged ? owners(mine, communicator) : std::map<std::string, int>{};
    const std::vector<ckpt::TensorMeta> metas = session.file_tensors(!session.optimizer().state().empty());
    Sink sink(path, metas, spec);
    auto next = mine.begin();
    std::vector<char> received;
    for (const ckpt::TensorMeta& meta : metas) {
      const int from = staged ? owner.at(meta.path) : 0;
      if (from == 0) {
        sink.tensor(meta, (next++)->data);
        continue;
      }
      received.resize(meta.bytes());
      communicator.receive(received.data(), received.size(), from, tensor_tag);
      sink.tensor(meta, received.data());
    }
    sink.commit();
    if (sink.error() != nullptr) error = *sink.error();
  }
  mpi::agree(communicator, error ? &*error : nullptr);
}

}  // namespace bitrift::train
