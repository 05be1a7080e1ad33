// The storage of a dataset's elements, according to its object header.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "h5map/structure/seal.h"

namespace bitrift::h5map {

/// Sizes and origin that the superblock fixes for the whole file.
struct Frame {
  std::uint64_t base = 0;     ///< added to every address of the file: size of the user block
  unsigned offset_bytes = 8;  ///< size of an address
  unsigned length_bytes = 8;  ///< size of a length
};

/// Bytes of the file that hold a field, and the checksum that covers them, if there is one.
struct Field {
  std::uint64_t offset = 0;  ///< in the file, user block included
  unsigned bytes = 0;
  std::optional<Seal> seal;
};

/// One filter of a pipeline, in the order in which writing applies them.
struct Filter {
  unsigned id = 0;  ///< 1 deflate, 2 shuffle, 3 fletcher32, 4 szip, 5 nbit, 6 scale-offset, 32000 lzf, ...
  bool optional = false;
  std::string name;                   ///< as in the file; may be empty
  std::vector<std::uint32_t> values;  ///< client data
};

enum class Storage { contiguous, compact, chunked, virtual_source, external };

/// How the chunks of a dataset are found (HDF5 file format, section VII.C of version 3.0, "Appendix C: Types
/// of Indexes for Dataset Chunks").
enum class ChunkIndex { btree1, single, implicit, fixed_array, extensible_array, btree2 };

/// A chunked layout.
struct ChunkedLayout {
  std::vector<std::uint64_t> chunk;  ///< shape of a chunk in elements, as many dimensions as the dataset
  ChunkIndex index = ChunkIndex::btree1;
  std::uint64_t address = 0;  ///< place of the index (of the chunk itself for single, of all chunks for
                              ///< implicit), in the file, user block included; `undefined`: no chunk exists
  bool partial_unfiltered = false;  ///< chunks that reach beyond the dataset's edge are stored without
                                    ///< filters
  bool full_sizes = false;          ///< layout version 5: sizes of filtered chunks in the index have
                                    ///< Frame::length_bytes bytes, whatever the size of a chunk
  std::uint64_t element_bytes = 0;  ///< as the layout repeats it after the shape of the chunk
  std::uint64_t single_bytes = 0;   ///< single, with filters: stored size of the one chunk
  std::uint32_t single_mask = 0;    ///< single, with filters: its filter mask
  Field single_bytes_field, address_field;  ///< where in the object header these are
};

/// A piece of the raw data in another file.
struct ExternalSegment {
  std::string file;          ///< as in the file: relative to a folder that HDF5 chooses
  std::uint64_t offset = 0;  ///< in that file
  std::uint64_t bytes = 0;   ///< `undefined`: without limit
};

/// A part of a virtual dataset, and the place of its elements.
struct VirtualSource {
  std::string file;  ///< "." is this file
  std::string dataset;
  std::vector<std::uint8_t> source_selection, virtual_selection;  ///< as serialised by HDF5
};

/// The storage of one dataset.
struct Layout {
  Storage storage = Storage::contiguous;
  std::uint64_t offset = 0;  ///< contiguous, compact: of the first byte, user block included; `undefined`:
                             ///< nothing allocated
  std::uint64_t bytes = 0;   ///< contiguous, compact: allocated
  std::optional<Seal> seal;  ///< compact: the checksum that covers the values, in an object header with
                             ///< checksums
  ChunkedLayout chunked;
  std::vector<Filter> filters;
  std::vector<ExternalSegment> external;       ///< in the order of the elements
  std::vector<VirtualSource> virtual_sources;  ///< in the order of the file
};

}  // namespace bitrift::h5map
