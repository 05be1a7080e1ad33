// A part of a file that a sum protects.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "core/named_enum.h"
#include "h5map/chunk/chunk_table.h"

namespace bitrift::integrity {

/// The sums in checkpoints.
enum class SumKind {
  crc32,       ///< of a member of a zip archive, decoded
  crc32c,      ///< of a tensor's values, in HDF5 files of bitrift
  fletcher32,  ///< of a chunk of HDF5
  adler32,     ///< of the deflated data of a chunk of HDF5, decoded
  seal,        ///< digests of blocks, in the seal beside the checkpoint
};
constexpr EnumNames<5> names_of(SumKind) {
  return {"sum", {"CRC-32", "CRC-32C", "Fletcher-32", "Adler-32", "seal"}};
}

/// A member of a zip archive.
struct MemberPlace {
  std::uint64_t first = 0, bytes = 0;  ///< as stored, in the file
  bool deflated = false;
  std::uint64_t decoded_bytes = 0;
};
/// A chunk of a dataset, as stored.
struct ChunkPlace {
  std::string dataset;
  h5map::Chunk chunk;
};
/// The values of a tensor, wherever they are.
struct ValuesPlace {
  std::string tensor;
};
using SummedPlace = std::variant<MemberPlace, ChunkPlace, ValuesPlace>;

/// The part of a file that one sum protects, and whether the sum fits.
struct SummedPart {
  SumKind kind = SumKind::crc32;
  std::string name;  ///< "member archive/data/3", "raw chunk 2 of /w", "values of model/w"
  SummedPlace place;
  std::uint32_t expected = 0;  ///< the stored sum; for chunks 0
  std::uint32_t found = 0;     ///< that of the bytes; for chunks 0
  std::string damage;          ///< one line; "" if the sum fits
};

}  // namespace bitrift::integrity
