// Random checkpoints, and their files by another path than images and sinks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ckpt/tensor.h"
#include "core/crc32c.h"
#include "core/error.h"
#include "core/philox.h"
#include "h5/create.h"
#include "sink/format/write_format.h"
#include "sink/format/writer.h"
#include "sink/image_writer.h"

namespace bitrift::ckpt::sink_test {

struct Checkpoint {
  std::vector<TensorMeta> metas;
  std::map<std::string, std::string> attributes;
};

/// The content of a tensor: bytes that its path decides.
inline std::vector<std::uint8_t> content(const TensorMeta& meta) {
  std::vector<std::uint8_t> bytes(meta.bytes());
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(7 * i + i / 256 + meta.path.size());
  return bytes;
}

/// Numbers below a bound, one after the other.
class Random {
 public:
  explicit Random(std::uint64_t seed) : key_(derive_key(seed, "sink_test")) {}
  std::uint64_t below(std::uint64_t bound) { return random_below(key_, 0, count_++, bound); }

 private:
  std::uint64_t key_, count_ = 0;
};

/// The number formats that files of a format can hold.
inline std::vector<std::string> number_formats_of(WriteFormat format) {
  std::vector<std::string> found = number_format_names();
  found.insert(found.end(), {"uint12_in_16", "int17_in_32", "uint10_in_16_at_4"});
  std::erase_if(found, [&](const std::string& name) {
    try {
      check_holds(format, number_format(name).value(), name);
      return false;
    } catch (const Error&) {
      return true;
    }
  });
  return found;
}

inline std::vector<WriteFormat> all_formats() {
  std::vector<WriteFormat> all;
  for (const char* name : names_of(WriteFormat()).words) all.push_back(parse_named<WriteFormat>(name));
  return all;
}

/// 1 to `most` tensors of all number formats that the file's format has, 0 to 5 dimensions (some of them 0),
/// nested and odd names; attributes of 0 to 100,000 bytes.
inline Checkpoint random_checkpoint(std::uint64_t seed, std::uint64_t most,
                                    WriteFormat format = WriteFormat::hdf5) {
  Random random(seed);
  const std::vector<std::string> formats = number_formats_of(format);
  const std::vector<std::string> groups = {"",          "a/", "checksums/", "model/", "optimizer/exp_avg/",
                                           "z z/é.ö/0/"};
  Checkpoint made;
  const std::uint64_t count = 1 + random.below(random.below(2) == 0 ? 5 : most);
  for (std::uint64_t i = 0; i < count; ++i) {
    TensorMeta meta;
    // A leaf begins with 't', which no group does.
    meta.path = groups[random.below(groups.size())] + "t" + std::to_string(i) +
                std::string(random.below(20) == 0 ? 200 : random.below(9), 'x') + ".weight";
    meta.format = number_format(formats[random.below(formats.size())]).value();
    const std::uint64_t rank = random.below(6);
    for (std::uint64_t d = 0; d < rank; ++d) meta.shape.push_back(random.below(rank < 3 ? 60 : 6));
    made.metas.push_back(std::move(meta));
  }
  const std::vector<std::size_t> lengths = {0, 1, 100, 5000, 70'000, 100'000};
  for (std::uint64_t i = random.below(5); i > 0; --i)
    made.attributes["attribute" + std::to_string(i)] =
        std::string(lengths[random.below(lengths.size())], 'y');
  return made;
}

/// The bytes of a checkpoint's file, assembled in memory from HDF5's structures (docs/checkpoint-format.md).
inline std::string expected_bytes(Checkpoint of) {
  const auto by_path = [](const auto& a, const auto& b) { return a.path < b.path; };
  std::sort(of.metas.begin(), of.metas.end(), by_path);
  std::size_t width = 0;
  std::vector<h5::NewDataset> all;
  for (const TensorMeta& meta : of.metas) {
    width = std::max(width, meta.path.size());
    all.push_back({meta.path, meta.format, 0, meta.shape});
  }
  all.push_back({"checksum/path", std::nullopt, width, {of.metas.size()}});
  all.push_back({"checksum/crc32c", number_format("uint32"), 0, {of.metas.size()}});
  std::sort(all.begin(), all.end(), by_path);
  const h5::Blueprint blueprint = h5::lay_out(all, of.attributes);
  std::string file(blueprint.file_bytes, '\0');
  std::memcpy(file.data(), blueprint.head.data(), blueprint.head.size());
  std::map<std::string, std::uint64_t> offsets;
  for (std::size_t i = 0; i < all.size(); ++i) offsets[all[i].path] = blueprint.offsets[i];
  for (std::size_t i = 0; i < of.metas.size(); ++i) {
    const std::vector<std::uint8_t> bytes = content(of.metas[i]);
    const std::uint32_t sum = crc32c(bytes.data(), bytes.size());
    if (!bytes.empty()) std::memcpy(file.data() + offsets[of.metas[i].path], bytes.data(), bytes.size());
    file.replace(offsets["checksum/path"] + i * width, of.metas[i].path.size(), of.metas[i].path);
    for (unsigned byte = 0; byte < 4; ++byte)
      file[offsets["checksum/crc32c"] + 4 * i + byte] = static_cast<char>(sum >> (8 * byte));
  }
  return file;
}

/// Tensors `part`, `part` + `parts`, ... of a checkpoint.
inline void give(ImageWriter& writer, const Checkpoint& of, std::size_t part = 0, std::size_t parts = 1) {
  for (std::size_t i = part; i < of.metas.size(); i += parts) {
    const std::vector<std::uint8_t> bytes = content(of.metas[i]);
    writer.tensor(of.metas[i].path, bytes.data(), bytes.size());
  }
}

inline TensorMeta meta_of(const char* path, const char* numbers, std::vector<std::uint64_t> shape) {
  return {path, number_format(numbers).value(), std::move(shape)};
}

/// Tensors of a random checkpoint where each is read several times.
inline constexpr std::uint64_t kMostOfFormat = 60;

/// A whole file of any format.
inline void save_by_writer(const Checkpoint& of, WriteFormat format, const std::filesystem::path& path) {
  Writer writer(path, of.metas, of.attributes, format);
  std::vector<TensorMeta> ordered = of.metas;
  std::sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  for (const TensorMeta& meta : ordered) {
    const std::vector<std::uint8_t> bytes = content(meta);
    writer.tensor(meta.path, bytes.data(), bytes.size());
  }
  writer.commit();
}

/// Offset and size of every part of an image that has bytes, ascending.
inline std::multimap<std::uint64_t, std::uint64_t> parts_of(const Image& image) {
  std::multimap<std::uint64_t, std::uint64_t> parts;
  const auto add = [&](std::uint64_t offset, std::uint64_t bytes) {
    if (bytes > 0) parts.emplace(offset, bytes);
  };
  for (const Image::Piece& piece : image.pieces) add(piece.offset, piece.bytes.size());
  for (const Image::Tensor& tensor : image.tensors) {
    add(tensor.offset, tensor.bytes);
    for (const std::uint64_t at : tensor.checksums_at) add(at, 4);
  }
  return parts;
}

/// A whole file through one sink.
inline void save(const Checkpoint& of, const Image& image, Sink& sink) {
  ImageWriter writer(image, sink);
  writer.fixed();
  give(writer, of);
  writer.commit();
}

}  // namespace bitrift::ckpt::sink_test
