#include "ckpt/container/open_container.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "archive/safetensors_header.h"
#include "archive/zip_directory.h"
#include "ckpt/container/foreign_file.h"
#include "ckpt/container/hdf5_container.h"
#include "ckpt/container/nested/keras_container.h"
#include "ckpt/container/nested/nested_container.h"
#include "ckpt/container/npz_container.h"
#include "ckpt/container/old_torch_container.h"
#include "ckpt/container/safetensors_container.h"
#include "ckpt/container/torch_container.h"
#include "core/error.h"
#include "h5map/structure/superblock.h"

namespace bitrift::ckpt {
namespace {

FileDescriptor open_shared(const std::filesystem::path& path) {
  FileDescriptor fd = open_file(path, O_RDONLY | O_NONBLOCK);
  if (::flock(fd.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    fail(ErrorCode::busy, "{}: another program has it open for writing; close it there and try again",
         path.string());
  }
  return fd;  // a file system without locks keeps nobody out, as for HDF5
}

/// The first bytes; fewer if the file is short, none if it cannot be read: opening it reports that.
std::string first_bytes(const std::filesystem::path& path) {
  std::array<char, 16> bytes{};
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const ssize_t count = fd ? ::pread(fd.get(), bytes.data(), bytes.size(), 0) : -1;
  return count < 0 ? std::string() : std::string(bytes.data(), static_cast<std::size_t>(count));
}

/// What the first bytes of a file say about it.
enum class Wrapping {
  hdf5,  ///< or anything else
  zip,
  safetensors,
  old_torch,  ///< what torch.save wrote before version 1.6: a pickle of its magic number
};

Wrapping wrapping_of(const std::filesystem::path& path) {
  using namespace std::string_view_literals;
  const std::string first = first_bytes(path);
  if (first.starts_with("PK\3\4"sv) || first.starts_with("PK\5\6"sv)) return Wrapping::zip;
  if (archive::looks_like_safetensors({reinterpret_cast<const std::uint8_t*>(first.data()), first.size()}))
    return Wrapping::safetensors;
  const bool old = first.starts_with("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"sv);
  return old ? Wrapping::old_torch : Wrapping::hdf5;
}

std::unique_ptr<Container> open_zip(std::unique_ptr<const archive::BoundedFile> file, FileDescriptor fd) {
  archive::ZipDirectory directory(*file);
  if (!TorchContainer::root_of(directory).empty()) {
    return std::make_unique<TorchContainer>(std::move(file), std::move(directory), std::move(fd));
  }
  bool array = directory.members().empty();  // numpy.savez() of nothing
  for (const archive::ZipMember& member : directory.members()) array = array || member.name.ends_with(".npy");
  if (!array && directory.find(KerasContainer::weights_name) != nullptr)
    return std::make_unique<KerasContainer>(std::move(file), std::move(directory), std::move(fd));
  const bool exported = std::ranges::any_of(directory.members(), [](const archive::ZipMember& member) {
    return member.name.ends_with("/archive_format") || member.name.ends_with("/models/model.json");
  });
  if (!array && exported) {
    fail(ErrorCode::unsupported,
         "{}: is a program that torch.export saved, not a checkpoint; save its tensors with "
         "torch.save(torch.export.load(FILE).state_dict, ...)",
         file->name());
  }
  if (!array && NestedContainer::holds_files(directory))
    return std::make_unique<NestedContainer>(std::move(file), std::move(directory), std::move(fd));
  if (!array) {
    fail(ErrorCode::unsupported,
         "{}: is a zip archive, but neither of torch.save (it has no data.pkl) nor of numpy.savez (it has no "
         ".npy arrays)",
         file->name());
  }
  return std::make_unique<NpzContainer>(std::move(file), std::move(directory), std::move(fd));
}

}  // namespace

std::string other_than_hdf5(const std::filesystem::path& path) {
  switch (wrapping_of(path)) {
    case Wrapping::zip:
      return "a zip archive";
    case Wrapping::safetensors:
      return "a safetensors file";
    case Wrapping::old_torch:
      return "a file of torch.save";
    case Wrapping::hdf5:
      break;
  }
  return "";
}

namespace {

/// False where it cannot be read.
bool has_hdf5(const std::filesystem::path& path) {
  std::error_code none;
  return std::filesystem::is_regular_file(path, none) && h5map::has_signature(h5map::Source(path));
}

}  // namespace

bool has_known_signature(const std::filesystem::path& path) {
  return wrapping_of(path) != Wrapping::hdf5 || has_hdf5(path);
}

std::unique_ptr<Container> open_archive(std::unique_ptr<const archive::BoundedFile> file) {
  return open_zip(std::move(file), {});
}

std::unique_ptr<Container> open_container(const std::filesystem::path& path) {
  switch (wrapping_of(path)) {
    case Wrapping::zip:
      return open_zip(std::make_unique<const archive::BoundedFile>(path), open_shared(path));
    case Wrapping::safetensors:
      return std::make_unique<SafetensorsContainer>(path, open_shared(path));
    case Wrapping::old_torch:
      return std::make_unique<OldTorchContainer>(path, open_shared(path));
    case Wrapping::hdf5:
      break;
  }
  if (!has_hdf5(path)) {
    if (const std::string kind = what_else_it_is(path); !kind.empty())
      fail(ErrorCode::bad_file, "{}: is {}", path.string(), kind);
    std::error_code none;
    const std::uintmax_t size = std::filesystem::is_regular_file(path, none) ? file_size(path, none) : 0;
    if (size > 0 && !none) {
      fail(ErrorCode::bad_file,
           "{}: is not an HDF5 file (no HDF5 signature in its {} bytes), nor safetensors, npz, or a file of "
           "torch.save",
           path.string(), size);
    }
  }
  h5map::File file(path);
  return std::make_unique<Hdf5Container>(std::move(file), open_shared(path));
}

}  // namespace bitrift::ckpt
