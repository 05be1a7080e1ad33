#include "h5parallel/parallel_save.h"

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>

#include <fcntl.h>
#include <hdf5.h>

#include "core/error.h"
#include "core/file.h"
#include "core/number/shape.h"
#include "h5/handle.h"
#include "h5/library.h"
#include "h5/number_type.h"
#include "mpi/handles.h"

namespace bitrift::h5parallel {
namespace {

using h5::Handle;

Handle made(std::int64_t id, const std::string& where) { return h5::own(id, where, ErrorCode::io); }
void done(std::int64_t result, const std::string& where) { h5::check(result, where, ErrorCode::io); }

// HDF5's property lists.
struct Lists {
  Handle groups, dataset, transfer;
};

Lists lists_of(Transfer transfer, const std::string& where) {
  Lists lists{made(H5Pcreate(H5P_LINK_CREATE), where), made(H5Pcreate(H5P_DATASET_CREATE), where),
              made(H5Pcreate(H5P_DATASET_XFER), where)};
  done(H5Pset_create_intermediate_group(lists.groups.get(), 1), where);
  done(H5Pset_layout(lists.dataset.get(), H5D_CONTIGUOUS), where);
  done(H5Pset_alloc_time(lists.dataset.get(), H5D_ALLOC_TIME_EARLY), where);
  done(H5Pset_fill_time(lists.dataset.get(), H5D_FILL_TIME_NEVER), where);
  done(H5Pset_obj_track_times(lists.dataset.get(), false), where);
  const auto mode = transfer == Transfer::collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT;
  done(H5Pset_dxpl_mpio(lists.transfer.get(), mode), where);
  return lists;
}

Handle create(const mpi::Communicator& ranks, const std::string& path) {
  const Handle access = made(H5Pcreate(H5P_FILE_ACCESS), path);
  done(H5Pset_fapl_mpio(access.get(), ranks.state().handle, MPI_INFO_NULL), path);
  return made(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), path);
}

Handle space_of(const std::vector<std::uint64_t>& shape, const std::string& where) {
  if (shape.empty()) return made(H5Screate(H5S_SCALAR), where);
  const std::vector<hsize_t> dimensions(shape.begin(), shape.end());
  return made(H5Screate_simple(static_cast<int>(dimensions.size()), dimensions.data(), nullptr), where);
}

// Selects the rows in the dataset, and returns the space of their values in memory.
Handle select(const Handle& space, const TensorPart& part) {
  const std::string& where = part.meta.path;
  if (part.rows.count == 0) {
    done(H5Sselect_none(space.get()), where);
    return made(H5Scopy(space.get()), where);
  }
  const hsize_t elements = part.values.size() / part.meta.format.bytes;
  if (!part.meta.shape.empty()) {
    std::vector<hsize_t> first(part.meta.shape.size(), 0);
    std::vector<hsize_t> count(part.meta.shape.begin(), part.meta.shape.end());
    first.front() = part.rows.first;
    count.front() = part.rows.count;
    done(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, first.data(), nullptr, count.data(), nullptr),
         where);
  }
  return made(H5Screate_simple(1, &elements, nullptr), where);
}

void write(const Handle& file, const TensorPart& part, const Lists& lists, Transfer transfer) {
  const std::string& where = part.meta.path;
  const Handle type = h5::make_type(part.meta.format);
  const Handle space = space_of(part.meta.shape, where);
  const Handle dataset = made(H5Dcreate2(file.get(), where.c_str(), type.get(), space.get(),
                                         lists.groups.get(), lists.dataset.get(), H5P_DEFAULT),
                              where);
  if (element_count(part.meta.shape) == 0) return;  // on every rank
  if (part.rows.count == 0 && transfer == Transfer::independent) return;
  const Handle memory = select(space, part);
  done(H5Dwrite(dataset.get(), type.get(), memory.get(), space.get(), lists.transfer.get(),
                part.values.data()),
       where);
}

void write_all(const mpi::Communicator& ranks, const std::vector<TensorPart>& parts, const std::string& path,
               Transfer transfer) {
  const h5::Scope scope;
  const Lists lists = lists_of(transfer, path);
  Handle file = create(ranks, path);
  try {
    for (const TensorPart& part : parts) write(file, part, lists, transfer);
  } catch (...) {
    static_cast<void>(file.release());  // closing it would wait for ranks that do not close it
    throw;
  }
  done(H5Fclose(file.release()), path);
}

void replace(const std::filesystem::path& target, const std::filesystem::path& temporary) {
  if (std::rename(temporary.c_str(), target.c_str()) != 0)
    fail(ErrorCode::io, "{}: cannot be replaced: {}", target.string(), errno_text(errno));
  sync_folder_of(target);
}

}  // namespace

double save(const mpi::Communicator& ranks, const std::vector<TensorPart>& parts,
            const std::filesystem::path& temporary, const std::filesystem::path& target, Transfer transfer) {
  ranks.barrier();
  const auto began = std::chrono::steady_clock::now();
  try {
    write_all(ranks, parts, temporary.string(), transfer);
  } catch (const Error& error) {
    fail(error.code(), "{}: cannot be written in parallel: {}", target.string(), error.what());
  }
  mpi::agreed(ranks, [&] { sync_file(open_file(temporary, O_WRONLY), target); });  // of each machine
  mpi::agreed(ranks, [&] {
    if (ranks.rank() == 0) replace(target, temporary);
  });
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

std::string hdf5_version() { return h5::library_version(); }

}  // namespace bitrift::h5parallel
