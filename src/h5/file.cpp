#include "h5/file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

#include <fcntl.h>
#include <hdf5.h>
#include <sys/stat.h>

#include "core/file.h"
#include "h5/library.h"

namespace bitrift::h5 {
namespace {

constexpr std::size_t kDeepest = 256;
constexpr std::array<std::uint8_t, 8> kSignature = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};

/// The signature stands at 0, or behind a user block at 512, 1024, 2048, ... (HDF5 file format, section
/// II.A).
bool has_signature(const FileDescriptor& fd, std::uint64_t size, const std::filesystem::path& path) {
  for (std::uint64_t at = 0; at + kSignature.size() <= size; at = at == 0 ? 512 : at * 2) {
    std::array<std::uint8_t, 8> found{};
    read_at(fd, found.data(), found.size(), at, path);
    if (found == kSignature) return true;
  }
  return false;
}

std::uint64_t check_is_hdf5(const std::filesystem::path& path) {
  const FileDescriptor fd = open_file(path, O_RDONLY);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) fail(ErrorCode::io, "{}: {}", path.string(), errno_text(errno));
  if (S_ISDIR(status.st_mode)) {
    fail(ErrorCode::bad_file, "{}: is a directory, not an HDF5 file", path.string());
  }
  if (!S_ISREG(status.st_mode)) fail(ErrorCode::bad_file, "{}: is not a regular file", path.string());
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size == 0) fail(ErrorCode::bad_file, "{}: is empty, not an HDF5 file", path.string());
  if (!has_signature(fd, size, path)) {
    fail(ErrorCode::bad_file, "{}: is not an HDF5 file (no HDF5 signature in its {} bytes)", path.string(),
         size);
  }
  return size;
}

[[noreturn]] void fail_open(const std::filesystem::path& path) {
  const std::string text = take_error_text();
  if (text.find("unable to lock file") != std::string::npos) {
    fail(ErrorCode::busy, "{}: another program has it open for writing; close it there and try again",
         path.string());
  }
  if (text.find("truncated") != std::string::npos) {
    fail(ErrorCode::bad_file, "{}: is truncated ({}); take another copy of it", path.string(), text);
  }
  fail(ErrorCode::bad_file, "{}: cannot be opened as HDF5 ({})", path.string(), text);
}

/// Children must not keep HDF5's lock alive after we closed the file.
void close_on_exec(hid_t file) {
  void* handle = nullptr;
  if (H5Fget_vfd_handle(file, H5P_DEFAULT, &handle) >= 0 && handle != nullptr) {
    ::fcntl(*static_cast<int*>(handle), F_SETFD, FD_CLOEXEC);
  }
}

struct Member {
  std::string path;  // with leading '/'
  std::size_t depth = 0;
};

/// HDF5 calls back through C: no exception may leave.
herr_t collect(const char* name, void* names) noexcept {
  try {
    static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  } catch (const std::exception&) {
    return -1;
  }
  return 0;
}

herr_t collect_hard_link(hid_t, const char* name, const H5L_info_t* info, void* names) {
  return info->type == H5L_TYPE_HARD ? collect(name, names) : 0;
}

/// Kind and identity of an object; the identity is equal for all hard links to it.
struct ObjectInfo {
  H5O_type_t type = H5O_TYPE_UNKNOWN;
  std::string identity;
};

ObjectInfo object_info(hid_t file, const std::string& path, const std::string& where) {
#if H5_VERSION_GE(1, 12, 0)
  H5O_info2_t info;
  check(H5Oget_info_by_name3(file, path.c_str(), &info, H5O_INFO_BASIC, H5P_DEFAULT), where);
  return {info.type, std::string(reinterpret_cast<const char*>(&info.token), sizeof info.token)};
#elif H5_VERSION_GE(1, 10, 3)
  H5O_info_t info;
  check(H5Oget_info_by_name2(file, path.c_str(), &info, H5O_INFO_BASIC, H5P_DEFAULT), where);
  return {info.type, std::to_string(info.addr)};
#else
  H5O_info_t info;
  check(H5Oget_info_by_name(file, path.c_str(), &info, H5P_DEFAULT), where);
  return {info.type, std::to_string(info.addr)};
#endif
}

/// Names of the hard links of a group, ascending.
std::vector<std::string> members(hid_t file, const std::string& group, const std::string& where) {
  const Handle id = own(H5Gopen2(file, group.c_str(), H5P_DEFAULT), where);
  std::vector<std::string> names;
  hsize_t at = 0;
  check(H5Literate(id.get(), H5_INDEX_NAME, H5_ITER_INC, &at, collect_hard_link, &names), where);
  return names;
}

/// Paths of all datasets. A worklist, not recursion: the depth of a file is not ours to trust.
std::vector<std::string> dataset_paths(hid_t file, const std::filesystem::path& file_path) {
  std::vector<std::string> found;
  std::set<std::string> seen{object_info(file, "/", file_path.string()).identity};
  std::vector<Member> open{{"/", 0}};
  while (!open.empty()) {
    const Member group = open.back();
    open.pop_back();
    const std::string where = file_path.string() + ": group " + group.path;
    if (group.depth > kDeepest) {
      fail(ErrorCode::bad_file, "{}: groups are nested more than {} deep", file_path.string(), kDeepest);
    }
    std::vector<Member> children;
    for (const std::string& name : members(file, group.path, where)) {
      const std::string path = (group.depth == 0 ? "" : group.path) + "/" + name;
      const ObjectInfo info = object_info(file, path, file_path.string() + ": " + path);
      if (info.type != H5O_TYPE_GROUP && info.type != H5O_TYPE_DATASET) continue;
      if (!seen.insert(info.identity).second) continue;
      if (info.type == H5O_TYPE_GROUP) {
        children.push_back({path, group.depth + 1});
      } else {
        found.push_back(path.substr(1));
      }
    }
    open.insert(open.end(), children.rbegin(), children.rend());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<std::uint64_t> read_shape(hid_t dataset, const std::string& where) {
  const Handle space = own(H5Dget_space(dataset), where);
  if (H5Sget_simple_extent_type(space.get()) == H5S_NULL) return {0};
  const auto rank = check(H5Sget_simple_extent_ndims(space.get()), where);
  std::vector<hsize_t> dims(static_cast<std::size_t>(rank));
  check(H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr), where);
  return {dims.begin(), dims.end()};
}

void read_layout(hid_t dataset, const std::string& where, DatasetInfo& info) {
  const Handle list = own(H5Dget_create_plist(dataset), where);
  switch (H5Pget_layout(list.get())) {
    case H5D_CONTIGUOUS:
      info.layout = Layout::contiguous;
      break;
    case H5D_COMPACT:
      info.layout = Layout::compact;
      break;
    case H5D_CHUNKED:
      info.layout = Layout::chunked;
      break;
    case H5D_VIRTUAL:
      info.layout = Layout::virtual_source;
      break;
    default:
      info.layout = Layout::unknown;
      break;
  }
  if (info.layout == Layout::contiguous && H5Pget_external_count(list.get()) > 0)
    info.layout = Layout::external;
  info.filtered = check(H5Pget_nfilters(list.get()), where) > 0;
}

/// Sets offset, or says in `problem` why a contiguous dataset's bytes cannot be where the file says.
/// Allocation is asked first: H5Dget_offset answers even for a dataset that has no bytes.
void locate(hid_t dataset, std::uint64_t file_size, DatasetInfo& info) {
  // A variable-length element has another size in memory than in the file, and its bytes are elsewhere.
  if (info.layout != Layout::contiguous || info.stored_bytes == 0 || !info.type.plain) return;
  const std::uint64_t count = element_count(info.shape);
  if (count > std::numeric_limits<std::uint64_t>::max() / info.type.bytes) {
    info.problem = "its size overflows 64 bits";
    return;
  }
  const haddr_t offset = H5Dget_offset(dataset);
  const std::uint64_t bytes = count * info.type.bytes;
  if (offset == HADDR_UNDEF) {
    info.problem = "HDF5 gives no place for its bytes";
  } else if (offset > file_size || bytes > file_size - offset) {
    info.problem =
        fmt::format("its {} bytes at {} lie outside of the file of {} bytes", bytes, offset, file_size);
  } else if (bytes != info.stored_bytes) {
    info.problem = fmt::format("its shape asks for {} bytes, but {} are stored", bytes, info.stored_bytes);
  } else {
    info.offset = offset;
  }
}

std::string fixed_text(const char* text, std::size_t bytes, bool space_padded) {
  std::string result(text, ::strnlen(text, bytes));
  if (space_padded) result.erase(result.find_last_not_of(' ') + 1);
  return result;
}

/// One string, or a list of them; nothing when the attribute is no text or claims more than `most` bytes.
std::vector<std::string> read_texts(hid_t attribute, std::uint64_t most, const std::string& where) {
  const Handle type = own(H5Aget_type(attribute), where);
  const Handle space = own(H5Aget_space(attribute), where);
  const hssize_t points = H5Sget_simple_extent_npoints(space.get());
  const std::size_t bytes = H5Tget_size(type.get());
  if (H5Tget_class(type.get()) != H5T_STRING || H5Sget_simple_extent_ndims(space.get()) > 1 || points <= 0 ||
      bytes == 0 || static_cast<std::uint64_t>(points) > most / bytes) {
    return {};
  }
  const auto count = static_cast<std::size_t>(points);
  std::vector<std::string> result;
  if (H5Tis_variable_str(type.get()) > 0) {
    std::vector<char*> texts(count, nullptr);
    check(H5Aread(attribute, type.get(), texts.data()), where);
    for (char* text : texts) {
      result.emplace_back(text == nullptr ? "" : text);
      if (text != nullptr) H5free_memory(text);
    }
    return result;
  }
  std::vector<char> texts(count * bytes);
  check(H5Aread(attribute, type.get(), texts.data()), where);
  const bool space_padded = H5Tget_strpad(type.get()) == H5T_STR_SPACEPAD;
  for (std::size_t i = 0; i < count; ++i) {
    result.push_back(fixed_text(texts.data() + i * bytes, bytes, space_padded));
  }
  return result;
}

std::optional<std::string> read_text(hid_t attribute, std::uint64_t most, const std::string& where) {
  const Handle space = own(H5Aget_space(attribute), where);
  if (H5Sget_simple_extent_type(space.get()) != H5S_SCALAR) return std::nullopt;
  const std::vector<std::string> texts = read_texts(attribute, most, where);
  if (texts.empty()) return std::nullopt;
  return texts.front();
}

herr_t collect_attribute_name(hid_t, const char* name, const H5A_info_t*, void* names) {
  return collect(name, names);
}

}  // namespace

std::uint64_t element_count(const std::vector<std::uint64_t>& shape) noexcept {
  std::uint64_t count = 1;
  for (const std::uint64_t dimension : shape) {
    if (dimension == 0) return 0;
  }
  for (const std::uint64_t dimension : shape) {
    if (count > std::numeric_limits<std::uint64_t>::max() / dimension) {
      return std::numeric_limits<std::uint64_t>::max();
    }
    count *= dimension;
  }
  return count;
}

File::File(const std::filesystem::path& path) : path_(path), size_(check_is_hdf5(path)) {
  const Scope scope;
  // The plain driver, whatever the environment asks for: offsets must be offsets in this one file.
  const Handle access = own(H5Pcreate(H5P_FILE_ACCESS), path.string(), ErrorCode::internal);
  check(H5Pset_fapl_sec2(access.get()), path.string(), ErrorCode::internal);
  const hid_t id = H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get());
  if (id < 0) fail_open(path);
  id_ = Handle(id);
  close_on_exec(id);
}

DatasetInfo File::describe(const std::string& path) const {
  DatasetInfo info;
  info.path = path;
  info.type.name = "unreadable";
  const std::string where = "HDF5 cannot read its description";
  try {
    const Handle dataset = own(H5Dopen2(id_.get(), ("/" + path).c_str(), H5P_DEFAULT), where);
    const Handle type = own(H5Dget_type(dataset.get()), where);
    info.type = describe_type(type.get(), where);
    info.shape = read_shape(dataset.get(), where);
    read_layout(dataset.get(), where, info);
    info.stored_bytes = H5Dget_storage_size(dataset.get());
    locate(dataset.get(), size_, info);
  } catch (const Error& error) {
    info.problem = error.what();
  }
  return info;
}

std::vector<DatasetInfo> File::datasets() const {
  const Scope scope;
  std::vector<DatasetInfo> result;
  for (const std::string& path : dataset_paths(id_.get(), path_)) result.push_back(describe(path));
  return result;
}

void File::read(const DatasetInfo& dataset, void* out, std::size_t bytes) const {
  const Scope scope;
  const std::string where = path_.string() + ": " + dataset.path;
  if (!dataset.problem.empty()) fail(ErrorCode::bad_file, "{}: {}", where, dataset.problem);
  if (dataset.layout == Layout::virtual_source || dataset.layout == Layout::external) {
    fail(ErrorCode::unsupported, "{}: its bytes lie in other files (virtual or external storage)", where);
  }
  if (element_count(dataset.shape) * dataset.type.bytes != bytes) {
    fail(ErrorCode::internal, "{}: asked for {} bytes of a dataset of another size", where, bytes);
  }
  if (bytes == 0) return;
  const Handle id = own(H5Dopen2(id_.get(), ("/" + dataset.path).c_str(), H5P_DEFAULT), where);
  const Handle type = own(H5Dget_type(id.get()), where);
  check(H5Dread(id.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, out), where);
}

std::map<std::string, std::string> File::attributes() const {
  const Scope scope;
  const std::string where = path_.string() + ": attributes of the root group";
  const Handle root = own(H5Gopen2(id_.get(), "/", H5P_DEFAULT), where);
  std::vector<std::string> names;
  hsize_t at = 0;
  check(H5Aiterate2(root.get(), H5_INDEX_NAME, H5_ITER_INC, &at, collect_attribute_name, &names), where);
  std::map<std::string, std::string> result;
  for (const std::string& name : names) {
    const std::string place = where + ": " + name;
    const Handle attribute = own(H5Aopen(root.get(), name.c_str(), H5P_DEFAULT), place);
    if (auto text = read_text(attribute.get(), size_, place)) result.emplace(name, std::move(*text));
  }
  return result;
}

std::vector<std::string> File::texts(const std::string& group, const std::string& attribute) const {
  const Scope scope;
  const std::string where = path_.string() + ": attribute " + attribute + " of group '" + group + "'";
  try {
    const Handle object = own(H5Gopen2(id_.get(), ("/" + group).c_str(), H5P_DEFAULT), where);
    if (H5Aexists(object.get(), attribute.c_str()) <= 0) return {};
    const Handle id = own(H5Aopen(object.get(), attribute.c_str(), H5P_DEFAULT), where);
    return read_texts(id.get(), size_, where);
  } catch (const Error&) {
    return {};  // no such group, or one that cannot be read: its tensors carry the reason
  }
}

}  // namespace bitrift::h5
