#include "h5/compressed_file.h"

#include <algorithm>
#include <vector>

#include <hdf5.h>

#include "h5/library.h"
#include "h5/memory_file.h"

namespace bitrift::h5 {
namespace {

using detail::done;
using detail::made;

constexpr std::size_t structure_room = 2048;  // HDF5's default; the rest of a piece stays unused
constexpr std::size_t memory_step = std::size_t{4} << 20U;
constexpr std::uint64_t most_of_chunk = std::uint64_t{1} << 20U, least_of_chunked = 4096;
constexpr unsigned deflate_level = 4;  // h5py's usual one

/// The first dimensions are split, so that a chunk is one piece of the dataset.
std::vector<hsize_t> chunk_of(const NewDataset& dataset) {
  std::vector<hsize_t> chunk(dataset.shape.begin(), dataset.shape.end());
  std::uint64_t bytes = dataset.bytes();
  for (hsize_t& size : chunk) {
    if (bytes <= most_of_chunk) break;
    const std::uint64_t one = bytes / size;
    size = std::max<std::uint64_t>(most_of_chunk / one, 1);
    bytes = one * size;
  }
  return chunk;
}

void set_storage(std::int64_t creation, const NewDataset& dataset) {
  const std::string& where = dataset.path;
  done(H5Pset_obj_track_times(creation, false), where);
  if (dataset.shape.empty() || dataset.bytes() < least_of_chunked) {
    done(H5Pset_layout(creation, H5D_CONTIGUOUS), where);
    done(H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER), where);
    return;
  }
  const std::vector<hsize_t> chunk = chunk_of(dataset);
  done(H5Pset_chunk(creation, static_cast<int>(chunk.size()), chunk.data()), where);
  // The last chunk may reach beyond the dataset; its rest must not be random memory.
  done(H5Pset_fill_time(creation, H5D_FILL_TIME_ALLOC), where);
  done(H5Pset_shuffle(creation), where);
  done(H5Pset_deflate(creation, deflate_level), where);
}

}  // namespace

struct CompressedFile::State {
  MemoryFile file{structure_room, memory_step};
};

CompressedFile::CompressedFile(const std::map<std::string, std::string>& attributes) {
  const Scope scope;
  if (H5Zfilter_avail(H5Z_FILTER_DEFLATE) <= 0)
    fail(ErrorCode::unsupported, "the HDF5 library was built without deflate; choose the format hdf5");
  state_ = std::make_unique<State>();
  for (const auto& [name, text] : attributes) state_->file.add_attribute(name, text);
}

CompressedFile::~CompressedFile() {
  const Scope scope;
  state_.reset();
}

void CompressedFile::add(const NewDataset& dataset, const void* data) {
  const Scope scope;
  const std::string& where = dataset.path;
  const Handle creation = made(H5Pcreate(H5P_DATASET_CREATE), where);
  set_storage(creation.get(), dataset);
  const Handle id = state_->file.add_dataset(dataset, creation);
  if (dataset.bytes() == 0) return;
  const Handle type = made(H5Dget_type(id.get()), where);
  done(H5Dwrite(id.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, data), where);
}

std::span<const std::uint8_t> CompressedFile::finish() {
  const Scope scope;
  const MemoryFile::Bytes bytes = state_->file.close();
  if (bytes.there.size() != bytes.file_bytes)
    fail(ErrorCode::internal, "HDF5 wrote {} bytes of a file of {}", bytes.there.size(), bytes.file_bytes);
  return bytes.there;
}

}  // namespace bitrift::h5
