#include "sink/format/npz_image.h"

#include <fmt/ranges.h>

#include "archive/element_type.h"
#include "archive/npy_text.h"

namespace bitrift::ckpt {
namespace {

constexpr std::size_t npy_alignment = 64, npy_front = 10;  // magic, version, length

}  // namespace

std::vector<std::uint8_t> npy_header(std::string_view code, const std::vector<std::uint64_t>& shape) {
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", code,
                                 fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  const std::size_t unpadded = npy_front + text.size() + 1;  // a newline ends it
  text.append((npy_alignment - unpadded % npy_alignment) % npy_alignment, ' ');
  text += '\n';
  std::vector<std::uint8_t> header = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
  header.push_back(static_cast<std::uint8_t>(text.size()));
  header.push_back(static_cast<std::uint8_t>(text.size() >> 8U));
  header.insert(header.end(), text.begin(), text.end());
  return header;
}

std::string npz_member(const std::string& path) { return path + ".npy"; }

void add_npz_attributes(ZipImage& zip, const std::map<std::string, std::string>& attributes) {
  for (const auto& [name, text] : attributes) {
    std::vector<std::uint8_t> elements = archive::utf32_of(text, name);
    if (elements.empty()) elements.resize(4);  // NumPy has no text of length 0
    std::vector<std::uint8_t> array = npy_header(fmt::format("<U{}", elements.size() / 4), {});
    array.insert(array.end(), elements.begin(), elements.end());
    zip.add(npz_member("@" + name), std::move(array));
  }
}

Image npz_image(const std::vector<TensorMeta>& metas, const std::map<std::string, std::string>& attributes) {
  ZipImage zip;
  add_npz_attributes(zip, attributes);
  for (const TensorMeta& meta : metas) {
    zip.add_tensor(npz_member(meta.path),
                   npy_header(archive::npy_code(meta.format.name()).value(), meta.shape), meta.path,
                   meta.bytes());
  }
  return zip.finish();
}

}  // namespace bitrift::ckpt
