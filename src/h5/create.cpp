#include "h5/create.h"

#include <algorithm>

#include <hdf5.h>

#include "h5/library.h"
#include "h5/memory_file.h"

namespace bitrift::h5 {
namespace {

using detail::done;
using detail::made;

constexpr std::size_t head_step = std::size_t{1} << 12U;  // by which the memory grows

/// Space for all structures in one piece, so that they come before the elements: an object header takes 80 to
/// 200 bytes, a link in a group about 40 in addition to its name, and the blocks of a group's heap double in
/// size.
std::size_t head_room(const std::vector<NewDataset>& datasets,
                      const std::map<std::string, std::string>& attributes) {
  std::size_t bytes = 16384;
  for (const NewDataset& dataset : datasets) bytes += 1024 + 4 * dataset.path.size();
  for (const auto& [name, text] : attributes) bytes += 512 + name.size() + text.size() + text.size() / 4;
  return bytes;
}

std::uint64_t create_dataset(MemoryFile& file, const NewDataset& dataset) {
  const std::string& where = dataset.path;
  const Handle creation = made(H5Pcreate(H5P_DATASET_CREATE), where);
  done(H5Pset_layout(creation.get(), H5D_CONTIGUOUS), where);
  done(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY), where);
  done(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER), where);
  done(H5Pset_obj_track_times(creation.get(), false), where);
  done(H5Pset_dset_no_attrs_hint(creation.get(), true), where);  // no room for attributes
  const Handle id = file.add_dataset(dataset, creation);
  if (dataset.bytes() == 0) return 0;
  const haddr_t offset = H5Dget_offset(id.get());
  if (offset == HADDR_UNDEF) fail(ErrorCode::internal, "{}: HDF5 allocated no space", where);
  return offset;
}

/// The structures in one piece of `room` bytes, or in two if they do not fit.
Blueprint with_room(std::size_t room, const std::vector<NewDataset>& datasets,
                    const std::map<std::string, std::string>& attributes) {
  Blueprint blueprint;
  MemoryFile file(room, head_step);
  for (const auto& [name, text] : attributes) file.add_attribute(name, text);
  for (const NewDataset& dataset : datasets) file.add_groups_of(dataset.path);
  for (const NewDataset& dataset : datasets) blueprint.offsets.push_back(create_dataset(file, dataset));
  const MemoryFile::Bytes bytes = file.close();
  // HDF5's memory grows in steps, and reaches into the elements; memory that HDF5 did not write is zero.
  std::size_t written = bytes.there.size();
  while (written > 0 && bytes.there[written - 1] == 0) --written;
  blueprint.head.assign(bytes.there.begin(), bytes.there.begin() + static_cast<std::ptrdiff_t>(written));
  blueprint.file_bytes = bytes.file_bytes;
  return blueprint;
}

/// The used part of the space; zeros at its end are not counted.
std::size_t used_of(const Blueprint& blueprint, std::size_t room) {
  std::size_t used = std::min(room, blueprint.head.size());
  while (used > 0 && blueprint.head[used - 1] == 0) --used;
  return used;
}

/// Makes it as small as possible: HDF5 does not say what it needs, so a wide room is tried first.
Blueprint fitting(const std::vector<NewDataset>& datasets,
                  const std::map<std::string, std::string>& attributes) {
  const std::size_t most = head_room(datasets, attributes);
  Blueprint wide = with_room(most, datasets, attributes);
  for (const std::size_t zeros : {512U, 4096U, 32768U}) {  // at the end of the last structure
    const std::size_t room = used_of(wide, most) + zeros;
    if (room >= most) break;
    Blueprint tight = with_room(room, datasets, attributes);
    if (tight.file_bytes + (most - room) <= wide.file_bytes) return tight;
  }
  return wide;
}

}  // namespace

Blueprint lay_out(const std::vector<NewDataset>& datasets,
                  const std::map<std::string, std::string>& attributes) {
  const Scope scope;
  Blueprint blueprint = fitting(datasets, attributes);
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    if (blueprint.offsets[i] + datasets[i].bytes() > blueprint.file_bytes) {
      fail(ErrorCode::internal, "{}: lies beyond the end of the new file", datasets[i].path);
    }
  }
  return blueprint;
}

}  // namespace bitrift::h5
