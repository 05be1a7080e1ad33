// Tells which bytes of a checkpoint are payload, and what all other bytes are.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "study/reader/native_reader.h"
#include "study/row/study_kinds.h"
#include "study/row/study_row.h"

namespace bitrift::study {

/// Bytes [first, end) of a file that belong to one tensor or structure.
struct BitExtent {
  std::string file;  ///< as BitFault::file
  std::uint64_t first = 0, end = 0;
  std::string structure;
};

/// All bytes of a file or folder, each in one stratum. Payload is all bytes that hold values of the state's
/// tensors as stored, compressed or not; bitrift's own checksums are metadata.
class FileBits {
 public:
  /// payload: the places of the values, according to the writer of the file or folder; all other bytes of all
  /// its files are then metadata. If empty, bitrift reads the format itself. Throws as ckpt::Reader does, and
  /// Error(bad_file) when an extent is not inside its file or overlaps another.
  explicit FileBits(const std::filesystem::path& path, const std::vector<WrittenExtent>& payload = {});

  [[nodiscard]] const std::vector<BitExtent>& extents(BitStratum stratum) const noexcept {
    return extents_[static_cast<std::size_t>(stratum)];
  }
  [[nodiscard]] std::uint64_t bits(BitStratum stratum) const noexcept;
  [[nodiscard]] std::uint64_t bytes() const noexcept;
  /// The place of a bit of a stratum: byte by byte, bit 0 first.
  [[nodiscard]] BitFault locate(BitStratum stratum, std::uint64_t bit) const;
  /// The structure that a byte belongs to; "" beyond the end.
  [[nodiscard]] std::string structure_at(const std::string& file, std::uint64_t byte) const;

 private:
  void add(BitStratum stratum, BitExtent extent);
  void read(const std::filesystem::path& path);
  void divide(const std::filesystem::path& path, const std::vector<WrittenExtent>& payload);

  std::array<std::vector<BitExtent>, 2> extents_;
  std::array<std::vector<std::uint64_t>, 2> ends_;  // cumulative bytes of the stratum's extents
};

/// Faults 0 to count - 1 of a stratum, without replacement; each is a pure function of seed, kind, stratum
/// and its number: bit Permutation(bits, derive_key(seed, "study.damage/FORMAT/WRITER/STRATUM"))(number).
[[nodiscard]] std::vector<BitFault> draw_faults(const FileBits& bits, const FileKind& kind,
                                                BitStratum stratum, std::uint64_t seed, std::uint64_t count);

}  // namespace bitrift::study
