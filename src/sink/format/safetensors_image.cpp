#include "sink/format/safetensors_image.h"

#include <algorithm>
#include <numeric>

#include <nlohmann/json.hpp>

#include "archive/element_type.h"
#include "core/error.h"

namespace bitrift::ckpt {
namespace {

constexpr const char* metadata_key = "__metadata__";
constexpr std::size_t header_alignment = 8;

std::string text_of(const nlohmann::json& header) {
  try {
    return header.dump();
  } catch (const nlohmann::json::type_error&) {
    fail(ErrorCode::bad_input, "a name or an attribute is not UTF-8, as safetensors files need it");
  }
}

}  // namespace

Image safetensors_image(const std::vector<TensorMeta>& metas,
                        const std::map<std::string, std::string>& attributes) {
  std::vector<std::size_t> order(metas.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return metas[a].format.bytes > metas[b].format.bytes;
  });
  Image image;
  image.tensors.resize(metas.size());
  nlohmann::json header;
  if (!attributes.empty()) header[metadata_key] = attributes;
  std::uint64_t at = 0;
  for (const std::size_t i : order) {
    const TensorMeta& meta = metas[i];
    if (meta.path == metadata_key)
      fail(ErrorCode::bad_input, "{}: safetensors files have no tensor of this name", meta.path);
    header[meta.path] = {{"dtype", archive::safetensors_code(meta.format.name()).value()},
                         {"shape", meta.shape},
                         {"data_offsets", {at, at + meta.bytes()}}};
    image.tensors[i] = {meta.path, at, meta.bytes()};
    at += meta.bytes();
  }
  std::string text = text_of(header);
  text.resize((text.size() + header_alignment - 1) / header_alignment * header_alignment, ' ');
  std::vector<std::uint8_t> known;
  for (unsigned byte = 0; byte < 8; ++byte)
    known.push_back(static_cast<std::uint8_t>(std::uint64_t{text.size()} >> (8 * byte)));
  known.insert(known.end(), text.begin(), text.end());
  for (Image::Tensor& tensor : image.tensors) tensor.offset += known.size();
  image.file_bytes = known.size() + at;
  image.pieces.push_back({0, std::move(known)});
  return image;
}

}  // namespace bitrift::ckpt
