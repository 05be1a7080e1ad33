// Asks a checkpoint for all that can be asked: tensors, layers, attributes, structures, values.
#pragma once

#include <algorithm>
#include <filesystem>
#include <vector>

#include "ckpt/reader.h"
#include "fuzz/harness.h"
#include "h5map/filter/codec.h"
#include "h5map/h5_file.h"

namespace bitrift::fuzz {

inline constexpr std::uint64_t most_bytes = std::uint64_t{1} << 20;
inline constexpr std::size_t most_tensors = 64;

/// Filters that libhdf5 applies need a process for every dataset, and what is wrong there is not ours.
inline bool needs_library(const ckpt::Reader& reader, const ckpt::TensorInfo& tensor) {
  if (reader.container().hdf5() == nullptr) return false;
  for (const h5map::Dataset& dataset : reader.container().hdf5()->datasets()) {
    const bool same = tensor.path == dataset.path || tensor.path.starts_with(dataset.path + ":");
    if (same && !h5map::codec_knows(dataset.layout.filters, 0)) return true;
  }
  return false;
}

/// One element read alone has the bytes that it has among all.
inline void read_values(const ckpt::Reader& reader, const ckpt::TensorInfo& tensor) {
  const std::uint64_t elements = tensor.elements();
  if (elements == 0 || tensor.element_bytes == 0) return;
  Bytes one(std::min<std::uint64_t>(tensor.element_bytes, most_bytes));
  const bool small = one.size() == tensor.element_bytes && elements <= most_bytes / one.size();
  const auto read_one = [&](std::uint64_t i) { reader.read_elements(tensor, i, 1, one.data()); };
  if (!small) {
    if (one.size() == tensor.element_bytes) answered([&] { read_one(elements - 1); });
    return;
  }
  Bytes all(elements * one.size());
  if (!answered([&] { reader.read(tensor, all.data(), all.size()); })) return;
  for (const std::uint64_t i : {std::uint64_t{0}, elements / 2, elements - 1}) {
    must([&] { read_one(i); }, tensor.path + ": an element cannot be read, all of them can");
    const auto* const among = all.data() + i * one.size();
    expect(std::equal(one.begin(), one.end(), among), tensor.path + ": an element read alone differs");
  }
}

inline void look_at_structures(const h5map::File& file) {
  const h5map::StructureMap map = file.structures();
  std::uint64_t end = 0;
  for (const h5map::Extent& extent : map.extents()) {
    expect(extent.first == end && extent.end > extent.first, "extents with a gap or an overlap");
    end = extent.end;
  }
  expect(end == file.source().size(), "extents end before the file");
}

inline void look_at_extents(const ckpt::Container& container) {
  std::uint64_t end = 0;
  for (const ckpt::ByteExtent& extent : container.metadata()) {
    expect(extent.first >= end && extent.end > extent.first, "an extent that is empty, or over another");
    end = extent.end;
  }
  expect(end <= container.bytes(), "an extent ends past the end of the file");
}

inline void look_at(const ckpt::Reader& reader, const std::vector<ckpt::TensorInfo>& tensors) {
  std::size_t read = 0;
  for (const ckpt::TensorInfo& tensor : tensors) {
    expect(reader.find(tensor.path) == &tensor, tensor.path + " is not found under its name");
    (void)reader.text_of(tensor);
    (void)reader.values(tensor).unreadable();
    if (!tensor.plain || read == most_tensors || needs_library(reader, tensor)) continue;
    ++read;
    read_values(reader, tensor);
  }
}

inline void look_at_everything(const std::filesystem::path& path) {
  const ckpt::Reader reader(path);
  answered([&] { (void)reader.layers(); });
  look_at(reader, reader.tensors());
  if (const h5map::File* const file = reader.container().hdf5()) {
    answered([&] { look_at_structures(*file); });
  } else {
    look_at_extents(reader.container());
  }
  answered([&] { (void)reader.container().clash(0, reader.container().bytes()); });
  answered([&] { (void)reader.checksum("model/w"); });
  answered([&] { look_at(reader, reader.attribute_tensors()); });
}

}  // namespace bitrift::fuzz
