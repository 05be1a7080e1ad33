#include "train/state/save_checkpoint.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include <torch/version.h>

#include "core/error.h"
#include "record/json/json.h"
#include "sink/image_writer.h"
#include "sink/plain_sink.h"
#include "sink/writer.h"
#include "train/state/checkpoint_names.h"

namespace bitrift::train {
namespace {

constexpr int tensor_tag = 1;

std::string versions() { return record::Json{{"libtorch", TORCH_VERSION}}.dump(); }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Where the tensors of a file go.
class Destination {
 public:
  virtual ~Destination() = default;
  virtual void tensor(const ckpt::TensorMeta& meta, const void* data) = 0;
  virtual void commit() = 0;
};

class File : public Destination {
 public:
  File(const std::filesystem::path& path, const std::vector<ckpt::TensorMeta>& metas,
       const std::map<std::string, std::string>& attributes, std::function<void()> saved)
      : writer_(path, metas, attributes), saved_(std::move(saved)) {}
  void tensor(const ckpt::TensorMeta& meta, const void* data) override {
    writer_.tensor(meta.path, data, meta.bytes());
  }
  void commit() override {
    writer_.commit();
    saved_();
  }

 private:
  ckpt::Writer writer_;
  std::function<void()> saved_;
};

// A copy in memory, laid out like the file, that is written in the background.
class Copy : public Destination {
 public:
  Copy(std::filesystem::path path, const std::vector<ckpt::TensorMeta>& metas,
       const std::map<std::string, std::string>& attributes, std::function<void()> saved,
       BackgroundSave& behind)
      : path_(std::move(path)),
        saved_(std::move(saved)),
        behind_(behind),
        image_(behind.image(metas, attributes)),
        memory_(behind.memory(image_->file_bytes)) {}
  void tensor(const ckpt::TensorMeta& meta, const void* data) override {
    std::memcpy(memory_ + image_->find(meta.path)->offset, data, meta.bytes());
  }
  void commit() override {
    behind_.start([path = path_, image = image_, memory = memory_, saved = saved_] {
      ckpt::PlainSink sink(path);
      ckpt::ImageWriter writer(*image, sink);
      writer.fixed();
      for (const ckpt::Image::Tensor& tensor : image->tensors)
        writer.tensor(tensor.path, memory + tensor.offset, tensor.bytes);
      writer.commit();
      saved();
    });
  }

 private:
  std::filesystem::path path_;
  std::function<void()> saved_;
  BackgroundSave& behind_;
  std::shared_ptr<const ckpt::Image> image_;
  std::uint8_t* memory_;
};

// Gives on what arrives, and remembers the first error instead of leaving senders waiting.
class Collector {
 public:
  Collector(const SaveRequest& request, BackgroundSave& behind, const std::vector<ckpt::TensorMeta>& metas,
            const std::map<std::string, std::string>& attributes) {
    keep([&] {
      if (request.mode == SaveMode::async) {
        to_ = std::make_unique<Copy>(request.path, metas, attributes, request.saved, behind);
        return;
      }
      behind.finish();  // of an earlier state, which this one replaces
      to_ = std::make_unique<File>(request.path, metas, attributes, request.saved);
    });
  }
  void tensor(const ckpt::TensorMeta& meta, const void* data) {
    keep([&] { to_->tensor(meta, data); });
  }
  void commit() {
    keep([&] { to_->commit(); });
  }
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

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

  std::unique_ptr<Destination> to_;
  std::optional<Error> error_;
};

// What this rank gives to the file, by path there. Of replica 0 all; of another what differs from replica 0,
// whose digest lines are compared when the parts are not all equal. Collective over the replicas of a stage.
std::vector<StateTensor> contribution(Session& session, const Layout& layout) {
  std::vector<StateTensor> mine = session.tensors(layout.stage() == 0);
  if (layout.replica_count() == 1) return mine;
  const std::vector<std::string> lines = session.digest_lines(layout.stage() == 0);
  std::string text;
  for (const std::string& line : lines) text += line;
  const std::vector<std::string> digests = layout.peers.allgather(state_digest(lines));
  const bool alike = std::all_of(digests.begin(), digests.end(),
                                 [&](const std::string& digest) { return digest == digests[0]; });
  std::string reference = text;
  if (!alike) layout.peers.broadcast(reference, layout.holders[0]);
  if (layout.replica() == 0) return mine;
  const std::vector<std::string> theirs = lines_of(reference);
  const std::set<std::string> known(theirs.begin(), theirs.end());
  std::vector<StateTensor> differing;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (known.contains(lines[i].substr(0, lines[i].size() - 1))) continue;
    mine[i].meta.path = replica_path(layout.replica(), mine[i].meta.path);
    differing.push_back(mine[i]);
  }
  return differing;
}

struct Plan {
  std::vector<ckpt::TensorMeta> metas;  // sorted by path
  std::map<std::string, int> owners;
  bool replicas_differ = false;
};

// On rank 0. Collective.
Plan plan_file(const std::vector<StateTensor>& mine, Session& session, const Layout& layout) {
  std::string paths;
  for (const StateTensor& tensor : mine) paths += tensor.meta.path + "\n";
  const std::vector<std::string> all = layout.world.gather(paths, 0);
  Plan plan;
  if (layout.world.rank() != 0) return plan;
  std::map<std::string, ckpt::TensorMeta> known;
  for (ckpt::TensorMeta& meta : session.file_tensors(!session.optimizer().state().empty()))
    known.emplace(meta.path, std::move(meta));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    for (const std::string& path : lines_of(all[rank])) {
      plan.owners[path] = static_cast<int>(rank);
      const std::optional<ReplicaPath> replica = parse_replica_path(path);
      ckpt::TensorMeta meta = known.at(std::string(replica ? replica->path : std::string_view(path)));
      meta.path = path;
      plan.metas.push_back(std::move(meta));
      plan.replicas_differ = plan.replicas_differ || replica.has_value();
    }
  }
  std::sort(plan.metas.begin(), plan.metas.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  return plan;
}

std::optional<Error> collect(const SaveRequest& request, BackgroundSave& behind, const Plan& plan,
                             const std::vector<StateTensor>& mine, const record::TrainingSpec& spec,
                             const Layout& layout, KillPoint& kill_point) {
  std::map<std::string, std::string> attributes = {
      {"schema", checkpoint_schema}, {"spec", record::to_text(spec)}, {"versions", versions()}};
  if (plan.replicas_differ) attributes[replicas_attribute] = std::to_string(layout.replica_count());
  Collector file(request, behind, plan.metas, attributes);
  auto next = mine.begin();
  std::vector<char> received;
  std::int64_t point = 0;
  for (const ckpt::TensorMeta& meta : plan.metas) {
    kill_point.reach(record::TrainingPhase::save, point++, static_cast<std::int64_t>(plan.metas.size()));
    const int from = plan.owners.at(meta.path);
    if (from == 0) {
      (next++)->read([&](const void* bytes) { file.tensor(meta, bytes); });
      continue;
    }
    received.resize(meta.bytes());
    layout.world.receive(received.data(), received.size(), from, tensor_tag);
    file.tensor(meta, received.data());
  }
  file.commit();
  return file.error();
}

}  // namespace

void save_session(const SaveRequest& request, BackgroundSave& behind, Session& session,
                  const record::TrainingSpec& spec, const Layout& layout, KillPoint& kill_point) {
  const std::vector<StateTensor> mine = contribution(session, layout);
  // A rank that has nothing to write fails before the others do it.
  if (layout.world.rank() != 0 && mine.empty()) kill_point.reach(record::TrainingPhase::save, 0, 1);
  const Plan plan = plan_file(mine, session, layout);
  std::optional<Error> error;
  if (layout.world.rank() == 0) {
    error = collect(request, behind, plan, mine, spec, layout, kill_point);
  } else {
    std::int64_t point = 0;
    for (const StateTensor& tensor : mine) {
      kill_point.reach(record::TrainingPhase::save, point++, static_cast<std::int64_t>(mine.size()));
      tensor.read([&](const void* bytes) { layout.world.send(bytes, tensor.meta.bytes(), 0, tensor_tag); });
    }
  }
  mpi::agree(layout.world, error ? &*error : nullptr);
}

}  // namespace bitrift::train
