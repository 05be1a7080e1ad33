#include "sink/format/packer.h"

#include <span>
#include <utility>

#include "archive/crc32.h"
#include "archive/element_type.h"
#include "archive/raw_deflate.h"
#include "core/crc32c.h"
#include "core/error.h"
#include "h5/compressed_file.h"
#include "sink/checksum_list.h"
#include "sink/format/npz_image.h"
#include "sink/format/zip_image.h"
#include "sink/image_writer.h"

namespace bitrift::ckpt {
namespace {

class NpzPacker final : public Packer {
 public:
  explicit NpzPacker(const std::map<std::string, std::string>& attributes) {
    add_npz_attributes(zip_, attributes);
  }
  void tensor(const TensorMeta& meta, const void* data) override {
    const std::span elements(static_cast<const std::uint8_t*>(data), meta.bytes());
    const std::vector<std::uint8_t> header =
        npy_header(archive::npy_code(meta.format.name()).value(), meta.shape);
    zip_.add_deflated(npz_member(meta.path), archive::deflate_behind(header, elements),
                      header.size() + elements.size(), archive::crc32(elements, archive::crc32(header)));
  }
  void write(Sink& sink) override {
    const Image image = zip_.finish();
    ImageWriter(image, sink).fixed();
  }

 private:
  ZipImage zip_;
};

class Hdf5Packer final : public Packer {
 public:
  Hdf5Packer(std::vector<TensorMeta> metas, const std::map<std::string, std::string>& attributes)
      : file_(attributes), metas_(std::move(metas)) {}
  void tensor(const TensorMeta& meta, const void* data) override {
    file_.add({meta.path, meta.format, 0, meta.shape}, data);
    sums_.push_back(crc32c(data, meta.bytes()));
  }
  void write(Sink& sink) override {
    const ChecksumList list(metas_);
    file_.add(list.sums(), ChecksumList::bytes_of(sums_).data());
    file_.add(list.names(), list.padded_names().data());
    const std::span<const std::uint8_t> bytes = file_.finish();
    sink.begin(bytes.size());
    for_each_piece(0, bytes,
                   [&](std::uint64_t at, std::span<const std::uint8_t> piece) { sink.write(at, piece); });
  }

 private:
  h5::CompressedFile file_;
  std::vector<TensorMeta> metas_;
  std::vector<std::uint32_t> sums_;
};

}  // namespace

std::unique_ptr<Packer> make_packer(WriteFormat format, const std::vector<TensorMeta>& metas,
                                    const std::map<std::string, std::string>& attributes) {
  if (format == WriteFormat::npz_deflate) return std::make_unique<NpzPacker>(attributes);
  if (format == WriteFormat::hdf5_deflate) return std::make_unique<Hdf5Packer>(metas, attributes);
  fail(ErrorCode::internal, "files of {} are not compressed", name_of(format));
}

}  // namespace bitrift::ckpt
