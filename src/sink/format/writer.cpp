#include "sink/format/writer.h"

#include <utility>

#include "core/error.h"
#include "sink/format/image_of.h"
#include "sink/format/packer.h"
#include "sink/image_writer.h"
#include "sink/tensor_list.h"

namespace bitrift::ckpt {

/// A file that is being written.
struct Writer::State {
  State() = default;
  virtual ~State() = default;
  State(State&&) = delete;
  State& operator=(State&&) = delete;
  virtual void tensor(std::string_view path, const void* data, std::size_t bytes) = 0;
  virtual void commit() = 0;
};

struct Writer::Laid final : Writer::State {
  Laid(std::unique_ptr<Sink> to, std::shared_ptr<const Image> laid_out)
      : image(std::move(laid_out)), sink(std::move(to)), writer(*image, *sink) {
    writer.fixed();
  }
  void tensor(std::string_view path, const void* data, std::size_t bytes) override {
    writer.tensor(path, data, bytes);
  }
  void commit() override { writer.commit(); }

  std::shared_ptr<const Image> image;
  std::unique_ptr<Sink> sink;
  ImageWriter writer;
};

struct Writer::Packed final : Writer::State {
  Packed(std::unique_ptr<Sink> to, std::vector<TensorMeta> list,
         const std::map<std::string, std::string>& attributes, WriteFormat format)
      : metas(checked_tensors(std::move(list))), sink(std::move(to)) {
    check_holds(format, metas);
    packer = make_packer(format, metas, attributes);
  }
  void tensor(std::string_view path, const void* data, std::size_t bytes) override {
    if (next == metas.size() || metas[next].path != path || metas[next].bytes() != bytes) {
      fail(ErrorCode::internal, "{}: {}, {} bytes, is not the tensor that comes next",
           sink->target().string(), path, bytes);
    }
    packer->tensor(metas[next++], data);
  }
  void commit() override {
    if (next != metas.size())
      fail(ErrorCode::internal, "{}: {}: was never written", sink->target().string(), metas[next].path);
    packer->write(*sink);
    sink->commit();
  }

  std::vector<TensorMeta> metas;
  std::size_t next = 0;
  std::unique_ptr<Packer> packer;
  std::unique_ptr<Sink> sink;
};

Writer::Writer(std::filesystem::path target, std::vector<TensorMeta> metas,
               const std::map<std::string, std::string>& attributes, WriteFormat format, SinkKind sink) {
  auto to = make_sink(sink, std::move(target));
  if (is_compressed(format)) {
    state_ = std::make_unique<Packed>(std::move(to), std::move(metas), attributes, format);
  } else {
    auto image = std::make_shared<const Image>(image_of(format, std::move(metas), attributes));
    state_ = std::make_unique<Laid>(std::move(to), std::move(image));
  }
}

Writer::Writer(std::filesystem::path target, std::shared_ptr<const Image> image, SinkKind sink)
    : state_(std::make_unique<Laid>(make_sink(sink, std::move(target)), std::move(image))) {}

Writer::~Writer() = default;
Writer::Writer(Writer&&) noexcept = default;

void Writer::tensor(std::string_view path, const void* data, std::size_t bytes) {
  state_->tensor(path, data, bytes);
}

void Writer::commit() { state_->commit(); }

void write_copy(const std::filesystem::path& target, const std::vector<TensorMeta>& metas,
                const std::map<std::string, std::string>& attributes, WriteFormat format, const Image& image,
                const std::uint8_t* copy, SinkKind sink) {
  const auto give_all = [&](auto& writer) {
    for (const Image::Tensor& tensor : image.tensors)
      writer.tensor(tensor.path, copy + tensor.offset, tensor.bytes);
    writer.commit();
  };
  if (is_compressed(format)) {
    Writer writer(target, metas, attributes, format, sink);
    return give_all(writer);
  }
  const auto to = make_sink(sink, target);
  ImageWriter writer(image, *to);
  writer.fixed();
  give_all(writer);
}

}  // namespace bitrift::ckpt
