#include "sink/writer.h"

#include <utility>

#include "sink/hdf5_image.h"
#include "sink/image_writer.h"
#include "sink/plain_sink.h"

namespace bitrift::ckpt {

struct Writer::State {
  State(std::filesystem::path target, std::vector<TensorMeta> metas,
        const std::map<std::string, std::string>& attributes)
      : image(hdf5_image(std::move(metas), attributes)), sink(std::move(target)), writer(image, sink) {
    writer.fixed();
  }

  Image image;
  PlainSink sink;
  ImageWriter writer;
};

Writer::Writer(std::filesystem::path target, std::vector<TensorMeta> metas,
               const std::map<std::string, std::string>& attributes)
    : state_(std::make_unique<State>(std::move(target), std::move(metas), attributes)) {}

Writer::~Writer() = default;
Writer::Writer(Writer&&) noexcept = default;

void Writer::tensor(std::string_view path, const void* data, std::size_t bytes) {
  state_->writer.tensor(path, data, bytes);
}

void Writer::commit() { state_->writer.commit(); }

}  // namespace bitrift::ckpt
