#include "train/state/save_checkpoint.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "sink/format/writer.h"
#include "sink/image_writer.h"
#include "sink/shared_sink.h"
#include "train/state/copy_memory.h"
#include "train/state/save_plan.h"

namespace bitrift::train {
namespace {

constexpr int tensor_tag = 1;
constexpr std::size_t most_message_bytes = std::size_t{1} << 30;  // MPI counts bytes in an int

template <typename Byte, typename Message>
void for_each_message(Byte* data, std::size_t bytes, const Message& message) {
  for (std::size_t at = 0; at < bytes; at += most_message_bytes)
    message(data + at, std::min(most_message_bytes, bytes - at));
}

ckpt::SinkKind sink_of(const SaveRequest& request) {
  return request.writer == SaveWriter::direct ? ckpt::SinkKind::direct : ckpt::SinkKind::plain;
}

// The destination of a file's tensors.
class Destination {
 public:
  virtual ~Destination() = default;
  virtual void tensor(const ckpt::TensorMeta& meta, const void* data) = 0;
  virtual void commit() = 0;
};

class File : public Destination {
 public:
  File(const SaveRequest& request, const SavePlan& plan, BackgroundSave& behind)
      : writer_(
            ckpt::is_compressed(request.format)
                ? ckpt::Writer(request.path, plan.metas, plan.attributes, request.format, sink_of(request))
                : ckpt::Writer(request.path, behind.image(request.format, plan.metas, plan.attributes),
                               sink_of(request))),
        saved_(request.saved) {}
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
  Copy(const SaveRequest& request, const SavePlan& plan, BackgroundSave& behind)
      : request_(request),
        plan_(plan),
        behind_(behind),
        image_(behind.image(request.format, plan.metas, plan.attributes)),
        memory_(behind.memory(image_->file_bytes)) {}
  void tensor(const ckpt::TensorMeta& meta, const void* data) override {
    copy_past_caches(memory_ + image_->find(meta.path)->offset, data, meta.bytes());
  }
  void commit() override {
    behind_.start([request = request_, plan = plan_, image = image_, memory = memory_] {
      ckpt::write_copy(request.path, plan.metas, plan.attributes, request.format, *image, memory,
                       sink_of(request));
      request.saved();
    });
  }

 private:
  SaveRequest request_;
  SavePlan plan_;
  BackgroundSave& behind_;
  std::shared_ptr<const ckpt::Image> image_;
  std::uint8_t* memory_;
};

// Passes on what arrives, and remembers the first error instead of leaving senders waiting.
class Collector {
 public:
  Collector(const SaveRequest& request, BackgroundSave& behind, const SavePlan& plan) {
    keep([&] {
      if (request.mode == SaveMode::async) {
        to_ = std::make_unique<Copy>(request, plan, behind);
        return;
      }
      behind.finish();  // of an earlier state, which this one replaces
      to_ = std::make_unique<File>(request, plan, behind);
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

// On rank 0: takes the tensors of all ranks in the order of the file.
std::optional<Error> collect(const SaveRequest& request, BackgroundSave& behind, const SavePlan& plan,
                             const std::vector<StateTensor>& mine, const Layout& layout,
                             KillPoint& kill_point) {
  Collector file(request, behind, plan);
  auto next = mine.begin();
  std::vector<char> received;
  const auto count = static_cast<std::int64_t>(plan.metas.size());
  for (std::size_t i = 0; i < plan.metas.size(); ++i) {
    const ckpt::TensorMeta& meta = plan.metas[i];
    kill_point.reach(record::TrainingPhase::save, static_cast<std::int64_t>(i), count);
    if (plan.owners[i] == 0) {
      (next++)->read([&](const void* bytes) { file.tensor(meta, bytes); });
      continue;
    }
    received.resize(meta.bytes());
    for_each_message(received.data(), received.size(), [&](char* part, std::size_t bytes) {
      layout.world.receive(part, bytes, plan.owners[i], tensor_tag);
    });
    file.tensor(meta, received.data());
  }
  file.commit();
  return file.error();
}

void gather(const SaveRequest& request, BackgroundSave& behind, const SavePlan& plan,
            const std::vector<StateTensor>& mine, const Layout& layout, KillPoint& kill_point) {
  std::optional<Error> error;
  if (layout.world.rank() == 0) {
    error = collect(request, behind, plan, mine, layout, kill_point);
  } else {
    std::int64_t point = 0;
    for (const StateTensor& tensor : mine) {
      kill_point.reach(record::TrainingPhase::save, point++, static_cast<std::int64_t>(mine.size()));
      tensor.read([&](const void* data) {
        for_each_message(
            static_cast<const char*>(data), tensor.meta.bytes(),
            [&](const char* part, std::size_t bytes) { layout.world.send(part, bytes, 0, tensor_tag); });
      });
    }
  }
  mpi::agree(layout.world, error ? &*error : nullptr);
}

void write_together(const SaveRequest& request, BackgroundSave& behind, const SavePlan& plan,
                    const std::vector<StateTensor>& mine, const Layout& layout, KillPoint& kill_point) {
  const bool first = layout.world.rank() == 0;
  std::shared_ptr<const ckpt::Image> image;
  std::optional<ckpt::SharedSink> sink;
  std::optional<ckpt::ImageWriter> writer;
  std::string temporary;
  mpi::agreed(layout.world, [&] {
    behind.finish();  // of an earlier state, which this one replaces
    image = behind.image(request.format, plan.metas, plan.attributes);
    if (!first) return;
    writer.emplace(*image, sink.emplace(request.path));
    temporary = sink->temporary();
    writer->fixed();
  });
  layout.world.broadcast(temporary, 0);
  mpi::agreed(layout.world, [&] {
    if (!first) writer.emplace(*image, sink.emplace(request.path, temporary));
    std::int64_t point = 0;
    for (const StateTensor& tensor : mine) {
      kill_point.reach(record::TrainingPhase::save, point++, static_cast<std::int64_t>(mine.size()));
      tensor.read([&](const void* bytes) { writer->tensor(tensor.meta.path, bytes, tensor.meta.bytes()); });
    }
    writer->checksums();
    sink->sync();
  });
  mpi::agreed(layout.world, [&] {
    if (!first) return;
    sink->commit();
    request.saved();
  });
}

}  // namespace

void prepare_saves(ckpt::WriteFormat format, BackgroundSave& behind, const Session& session,
                   const record::TrainingSpec& spec) {
  try {
    // A rank whose stage has no parameters has no optimizer state, but the file has some.
    const auto image = behind.image(format, session.file_tensors(true), plan_attributes(spec));
    spdlog::debug("taking memory for saves in the background: twice {} bytes", image->file_bytes);
    behind.prepare(image->file_bytes);
  } catch (const std::exception& error) {
    spdlog::debug("no memory for saves in the background yet: {}", error.what());
  }
}

void save_session(const SaveRequest& request, BackgroundSave& behind, Session& session,
                  const record::TrainingSpec& spec, const Layout& layout, KillPoint& kill_point) {
  // Compressed data has no offsets that ranks could agree on in advance.
  const bool shared =
      request.writer == SaveWriter::shared && layout.world.size() > 1 && !ckpt::is_compressed(request.format);
  const std::vector<StateTensor> mine = contribution(session, layout, shared);
  // A rank that has nothing to write fails before the other ranks write.
  if (layout.world.rank() != 0 && mine.empty()) kill_point.reach(record::TrainingPhase::save, 0, 1);
  const SavePlan plan = plan_save(mine, session, spec, layout);
  const auto save = shared ? write_together : gather;
  save(request, behind, plan, mine, layout, kill_point);
}

}  // namespace bitrift::train
