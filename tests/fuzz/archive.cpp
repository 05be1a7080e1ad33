// Reads the input by one of the parsers of archives, which its last byte chooses: what they give lies in the
// input.
#include "archive/npy_header.h"
#include "archive/pickle/old_torch_file.h"
#include "archive/pickle/torch_pickle.h"
#include "archive/safetensors_header.h"
#include "archive/zip_directory.h"
#include "fuzz/harness.h"

namespace bitrift::fuzz {
namespace {

void read_pickle(std::span<const std::uint8_t> bytes) {
  const archive::TorchContents contents =
      archive::contents_of_pickle(archive::Pickle(bytes, "pickle"), "pickle");
  for (const archive::TorchTensor& tensor : contents.tensors) {
    expect(tensor.first <= tensor.end, "a tensor that ends before it begins");
    expect(tensor.end <= tensor.storage_bytes, "a tensor outside of its storage");
    expect(tensor.shape.size() == tensor.strides.size(), "a tensor without all strides");
  }
}

void read_npy(std::span<const std::uint8_t> bytes) {
  const archive::NpyHeader header = archive::read_npy_header(bytes, bytes.size(), "array");
  expect(header.bytes <= bytes.size(), "a header longer than its array");
}

void read_safetensors(std::span<const std::uint8_t> bytes, const ScratchFile& file) {
  const archive::SafetensorsHeader header =
      archive::read_safetensors_header(archive::BoundedFile(file.path()));
  std::uint64_t end = header.bytes;
  for (const archive::SafeTensor& tensor : header.tensors) {
    expect(tensor.first == end && tensor.end >= end, "a tensor with a gap before it");
    end = tensor.end;
  }
  expect(end == bytes.size(), "bytes that belong to nothing");
}

void read_zip(std::span<const std::uint8_t> bytes, const ScratchFile& file) {
  const archive::ZipDirectory zip(archive::BoundedFile(file.path()));
  std::uint64_t end = 0;
  for (const archive::ZipMember& member : zip.members()) {
    expect(member.header >= end && member.data > member.header, "a member over another");
    expect(member.end >= member.data + member.stored_bytes, "a member that ends before its data");
    expect(zip.find(member.name) == &member, "a member that is not found under its name");
    end = member.end;
  }
  expect(end <= zip.tail().central && zip.tail().central_end <= bytes.size(), "a member in the directory");
}

void read_old_torch(std::span<const std::uint8_t> bytes, const ScratchFile& file) {
  const archive::OldTorchFile old = archive::read_old_torch_file(archive::BoundedFile(file.path()));
  std::uint64_t end = old.pickles;
  for (const archive::OldTorchFile::Storage& storage : old.storages) {
    expect(storage.data == end + 8, "a storage with a gap before it");
    end = storage.data + storage.bytes;
  }
  expect(end <= bytes.size(), "a storage outside of the file");
}

void read(std::span<const std::uint8_t> bytes, unsigned parser) {
  static const ScratchFile file("archive");
  if (parser == 0) return read_pickle(bytes);
  if (parser == 1) return read_npy(bytes);
  file.write(bytes);
  if (parser == 2) return read_safetensors(bytes, file);
  return parser == 3 ? read_zip(bytes, file) : read_old_torch(bytes, file);
}

}  // namespace
}  // namespace bitrift::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace bitrift::fuzz;
  if (size == 0) return 0;
  answered([&] { read({data, size - 1}, data[size - 1] % 5U); });
  return 0;
}
