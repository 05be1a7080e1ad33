#include "h5/memory_chunk.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include <hdf5.h>

#include "core/error.h"
#include "h5/library.h"

#if !H5_VERSION_GE(1, 10, 3)
#error "HDF5 1.10.3 or later is needed: it reads and writes chunks past their filters"
#endif

namespace bitrift::h5 {
namespace {

constexpr unsigned first_plugin_id = 256;  // lower numbers are those of HDF5 itself

// HDF5 up to 1.14 does not check how many bytes the filters of a chunk returned, and reads past their end. A
// filter of bitrift, which changes nothing, is placed next to the values to check this. Identifiers 256 to
// 511 are free.
constexpr H5Z_filter_t probe_id = 509;
constexpr unsigned probes = 1;  // filters before those of the pipeline
std::size_t probe_wanted = 0;   // guarded by Scope, as all of HDF5
std::size_t probe_found = 0;

std::size_t probe(unsigned flags, std::size_t, const unsigned*, std::size_t bytes, std::size_t*,
                  void**) noexcept {
  if ((flags & H5Z_FLAG_REVERSE) == 0) return bytes;
  probe_found = bytes;
  return bytes == probe_wanted ? bytes : 0;
}

void register_probe(const std::string& where) {
  const H5Z_class2_t kind = {H5Z_CLASS_T_VERS, probe_id, 1, 1, "probe", nullptr, nullptr, probe};
  check(H5Zregister(&kind), where, ErrorCode::internal);
}

std::string filter_name(unsigned id) {
  static const std::map<unsigned, const char*> names = {
      {4, "szip"},      {5, "nbit"},    {6, "scale-offset"},   {307, "bzip2"}, {32000, "lzf"},
      {32001, "blosc"}, {32004, "lz4"}, {32008, "bitshuffle"}, {32013, "zfp"}, {32015, "zstd"},
      {32017, "sz"},    {32024, "sz3"}, {32026, "blosc2"}};
  const auto found = names.find(id);
  return found == names.end() ? std::to_string(id) : fmt::format("{} ({})", id, found->second);
}

std::vector<std::uint32_t> values_of(hid_t list, unsigned at, const std::string& where) {
  std::array<unsigned, most_filter_values> values{};
  std::size_t count = values.size();
  unsigned flags = 0;
  unsigned config = 0;
  check(H5Pget_filter2(list, at, &flags, &count, values.data(), 0, nullptr, &config), where);
  return {values.begin(), values.begin() + static_cast<std::ptrdiff_t>(std::min(count, values.size()))};
}

/// The type that a datatype message describes. H5Tdecode expects it after two bytes of its own.
Handle decode_type(const PipelineSpec& spec, const std::string& where) {
  std::vector<std::uint8_t> message = {3, 0};
  message.insert(message.end(), spec.datatype.begin(), spec.datatype.end());
  message.resize(message.size() + 64);  // it does not know the end of the message
#if H5_VERSION_GE(2, 0, 0)
  const hid_t id = H5Tdecode2(message.data(), message.size());
#else
  const hid_t id = H5Tdecode(message.data());
#endif
  Handle type =
      own(id, where + ": datatype that HDF5 " + library_version() + " cannot read", ErrorCode::unsupported);
  if (H5Tget_size(type.get()) != spec.element_bytes) {
    fail(ErrorCode::bad_file, "{}: elements of {} bytes have a datatype of {}", where, spec.element_bytes,
         H5Tget_size(type.get()));
  }
  if (H5Tdetect_class(type.get(), H5T_VLEN) != 0 || H5Tdetect_class(type.get(), H5T_REFERENCE) != 0 ||
      H5Tis_variable_str(type.get()) != 0) {
    fail(ErrorCode::unsupported, "{}: elements of variable length are not coded", where);
  }
  return type;
}

}  // namespace

MemoryChunk::MemoryChunk(const PipelineSpec& spec, std::string where)
    : where_(std::move(where)), bytes_(spec.element_bytes), origin_(spec.chunk.size()) {
  for (const std::uint64_t extent : spec.chunk) bytes_ *= extent;
  for (const PipelineFilter& filter : spec.filters) {
    // The second value of n-bit says that it leaves nothing out. HDF5 then answers with the size of its
    // buffer, which is not that of the bytes in it.
    const bool idle = filter.id == 5 && filter.values.size() > 1 && filter.values[1] != 0;
    if (idle) idle_ |= std::uint32_t{1} << filter_ids_.size();
    filter_ids_.push_back(filter.id);
    if (H5Zfilter_avail(static_cast<H5Z_filter_t>(filter.id)) > 0) continue;
    fail(ErrorCode::unsupported,
         "{}: HDF5 finds no filter {}; set HDF5_PLUGIN_PATH to a folder that has it (pip install hdf5plugin "
         "brings "
         "one: python -c 'import hdf5plugin; print(hdf5plugin.PLUGIN_PATH)')",
         where_, filter_name(filter.id));
  }
  register_probe(where_);
  const Handle access = own(H5Pcreate(H5P_FILE_ACCESS), where_, ErrorCode::internal);
  check(H5Pset_fapl_core(access.get(), std::size_t{1} << 16, false), where_, ErrorCode::internal);
  file_ = own(H5Fcreate("chunk", H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), where_, ErrorCode::internal);
  type_ = decode_type(spec, where_);
  create(spec);
}

/// scale-offset keeps the fill value in its client data and takes it from the dataset's.
void MemoryChunk::set_scale_offset_fill(const PipelineFilter& filter, std::int64_t list) const {
  constexpr std::size_t defined_at = 7;
  constexpr std::size_t fill_at = 8;
  if (filter.values.size() <= fill_at || H5Tget_size(type_.get()) > 8) return;
  if (filter.values[defined_at] == 0) {
    check(H5Pset_fill_value(list, type_.get(), nullptr), where_);
    return;
  }
  std::array<std::uint8_t, 8> fill{};
  for (std::size_t i = 0; i < fill.size() && fill_at + i / 4 < filter.values.size(); ++i) {
    fill[i] = static_cast<std::uint8_t>(filter.values[fill_at + i / 4] >> (8 * (i % 4)));
  }
  const Handle little = own(H5Tcopy(type_.get()), where_);
  check(H5Tset_order(little.get(), H5T_ORDER_LE), where_);
  check(H5Pset_fill_value(list, little.get(), fill.data()), where_);
}

Handle MemoryChunk::creation_list(const PipelineSpec& spec,
                                  const std::vector<std::vector<std::uint32_t>>& values) const {
  Handle list = own(H5Pcreate(H5P_DATASET_CREATE), where_, ErrorCode::internal);
  const std::vector<hsize_t> shape(spec.chunk.begin(), spec.chunk.end());
  check(H5Pset_chunk(list.get(), static_cast<int>(shape.size()), shape.data()), where_);
  check(H5Pset_filter(list.get(), probe_id, H5Z_FLAG_MANDATORY, 0, nullptr), where_, ErrorCode::internal);
  for (std::size_t i = 0; i < spec.filters.size(); ++i) {
    const PipelineFilter& filter = spec.filters[i];
    if (filter.id == 6) set_scale_offset_fill(filter, list.get());
    check(H5Pset_filter(list.get(), static_cast<H5Z_filter_t>(filter.id),
                        filter.optional ? H5Z_FLAG_OPTIONAL : H5Z_FLAG_MANDATORY, values[i].size(),
                        values[i].empty() ? nullptr : values[i].data()),
          where_, ErrorCode::unsupported);
  }
  return list;
}

/// The first filter whose client data in the dataset differ from the requested ones.
std::size_t MemoryChunk::first_other_values(const PipelineSpec& spec) const {
  const Handle list = own(H5Dget_create_plist(dataset_.get()), where_);
  for (std::size_t i = 0; i < spec.filters.size(); ++i) {
    if (values_of(list.get(), static_cast<unsigned>(i) + probes, where_) != spec.filters[i].values) return i;
  }
  return spec.filters.size();
}

/// Filters amend their client data when a dataset is made. Most give the same result for the amended data;
/// some (bitshuffle) prepend values to the given ones, so they get only the rest.
void MemoryChunk::create(const PipelineSpec& spec) {
  std::vector<std::vector<std::uint32_t>> values;
  for (const PipelineFilter& filter : spec.filters) values.push_back(filter.values);
  std::optional<Error> first;
  for (;;) {
    try {
      create_with(spec, values);
      const std::size_t other = first_other_values(spec);
      if (other == spec.filters.size()) return;
      fail(ErrorCode::unsupported,
           "{}: filter {} of this machine would code with other parameters than the file's", where_,
           filter_name(spec.filters[other].id));
    } catch (const Error& error) {
      if (!first) first = error;
    }
    const auto next = std::find_if(values.begin(), values.end(), [&](const auto& one) {
      return !one.empty() &&
             spec.filters[static_cast<std::size_t>(&one - values.data())].id >= first_plugin_id;
    });
    if (next == values.end()) throw Error(*first);
    next->erase(next->begin());
  }
}

void MemoryChunk::create_with(const PipelineSpec& spec,
                              const std::vector<std::vector<std::uint32_t>>& values) {
  dataset_.reset();
  const std::vector<hsize_t> shape(spec.chunk.begin(), spec.chunk.end());
  const Handle space = own(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), where_);
  const Handle list = creation_list(spec, values);
  name_ = fmt::format("chunk {}", ++names_);
  dataset_ = own(
      H5Dcreate2(file_.get(), name_.c_str(), type_.get(), space.get(), H5P_DEFAULT, list.get(), H5P_DEFAULT),
      where_, ErrorCode::unsupported);
  reopen();
}

/// For a chunk that was written past the filters, HDF5 1.10 remembers the place, but not which filters were
/// skipped.
void MemoryChunk::reopen() {
  dataset_.reset();
  const Handle access = own(H5Pcreate(H5P_DATASET_ACCESS), where_, ErrorCode::internal);
  check(H5Pset_chunk_cache(access.get(), 0, 0, 0), where_, ErrorCode::internal);
  dataset_ = own(H5Dopen2(file_.get(), name_.c_str(), access.get()), where_, ErrorCode::internal);
}

/// HDF5 up to 1.14 lets n-bit and scale-offset read past the end of a chunk that is too short.
bool MemoryChunk::reads_on(std::uint32_t mask) const noexcept {
  for (std::size_t i = filter_ids_.size(); i-- > 0;) {
    if ((mask >> i & 1U) == 0) return filter_ids_[i] == 5 || filter_ids_[i] == 6;
  }
  return false;
}

std::vector<std::uint8_t> MemoryChunk::decode(std::span<const std::uint8_t> stored, std::uint32_t mask) {
  mask |= idle_;
  if (!reads_on(mask)) return decode_exactly(stored, mask);
  // The bytes after the chunk must not matter.
  std::vector<std::uint8_t> longer(stored.begin(), stored.end());
  longer.resize(stored.size() + bytes_ + 64, 0x00);
  std::vector<std::uint8_t> values = decode_exactly(longer, mask);
  std::fill(longer.begin() + static_cast<std::ptrdiff_t>(stored.size()), longer.end(), std::uint8_t{0xff});
  if (decode_exactly(longer, mask) != values) {
    fail(ErrorCode::bad_file, "{}: is stored in {} bytes, which end before its values", where_,
         stored.size());
  }
  return values;
}

std::vector<std::uint8_t> MemoryChunk::decode_exactly(std::span<const std::uint8_t> stored,
                                                      std::uint32_t mask) {
  const std::vector<hsize_t> origin(origin_.begin(), origin_.end());
  check(H5Dwrite_chunk(dataset_.get(), H5P_DEFAULT, mask << probes, origin.data(), stored.size(),
                       stored.data()),
        where_);
  reopen();
  std::vector<std::uint8_t> values(bytes_);
  probe_wanted = probe_found = bytes_;
  const herr_t read = H5Dread(dataset_.get(), type_.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  if (probe_found != bytes_) {
    static_cast<void>(take_error_text());
    fail(ErrorCode::bad_file, "{}: holds {} bytes of values, not {}", where_, probe_found, bytes_);
  }
  check(read, where_);
  return values;
}

StoredChunk MemoryChunk::encode(std::span<const std::uint8_t> values) {
  if (values.size() != bytes_) {
    fail(ErrorCode::internal, "{}: a chunk of {} bytes was given {}", where_, bytes_, values.size());
  }
  check(H5Dwrite(dataset_.get(), type_.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), where_,
        ErrorCode::unsupported);
  reopen();
  const std::vector<hsize_t> origin(origin_.begin(), origin_.end());
  hsize_t size = 0;
  check(H5Dget_chunk_storage_size(dataset_.get(), origin.data(), &size), where_);
  StoredChunk stored;
  stored.bytes.resize(size);
#if H5_VERSION_GE(2, 0, 0)
  std::size_t room = size;
  check(H5Dread_chunk2(dataset_.get(), H5P_DEFAULT, origin.data(), &stored.mask, stored.bytes.data(), &room),
        where_);
#else
  check(H5Dread_chunk(dataset_.get(), H5P_DEFAULT, origin.data(), &stored.mask, stored.bytes.data()), where_);
#endif
  stored.mask >>= probes;
  return stored;
}

}  // namespace bitrift::h5
