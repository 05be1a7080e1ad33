// The terms of a study of checkpoints: formats, writers, parts, strata, outcomes.
#pragma once

#include <array>
#include <string>

#include <fmt/format.h>

#include "core/named_enum.h"
#include "record/json/json.h"

namespace bitrift::study {

/// Two are only timed. raw: the bytes of all tensors, one after another; no save can be faster.
/// hdf5_parallel: one HDF5 file that several ranks write with its parallel interface.
enum class Format {
  hdf5,
  hdf5_gzip,
  pytorch,
  npz,
  npz_deflated,
  safetensors,
  dcp,
  tensorflow,
  keras,
  raw,
  hdf5_parallel
};
constexpr EnumNames<11> names_of(Format) {
  return {"format",
          {"hdf5", "hdf5-gzip", "pytorch", "npz", "npz-deflated", "safetensors", "dcp", "tensorflow", "keras",
           "raw", "hdf5-parallel"}};
}

/// What wrote a file: `bitrift-train`, or the library that defines the format.
enum class FileWriter { bitrift, native };
constexpr EnumNames<2> names_of(FileWriter) { return {"writer", {"bitrift", "native"}}; }

/// A format as written by one writer: a line of every table.
struct FileKind {
  Format format;
  FileWriter writer;
  const char* extension;    ///< extension of the file; "" for a folder
  const char* option = "";  ///< of bitrift-train: --format; "": another program writes it
  bool operator==(const FileKind& other) const { return format == other.format && writer == other.writer; }
  /// "hdf5-gzip-native"
  [[nodiscard]] std::string name() const { return fmt::format("{}-{}", name_of(format), name_of(writer)); }
  /// The name of the file or folder: "hdf5-bitrift.h5".
  [[nodiscard]] std::string file_name() const { return name() + extension; }
};

/// All kinds that can be studied, in the order of the tables. Native files are written by
/// python/bitrift/study/formats.py.
inline constexpr std::array file_kinds = {
    FileKind{Format::hdf5, FileWriter::bitrift, ".h5", "hdf5"},
    FileKind{Format::hdf5, FileWriter::native, ".h5", ""},
    FileKind{Format::hdf5_gzip, FileWriter::bitrift, ".h5", "hdf5-deflate"},
    FileKind{Format::hdf5_gzip, FileWriter::native, ".h5", ""},
    FileKind{Format::pytorch, FileWriter::bitrift, ".pt", "pytorch"},
    FileKind{Format::pytorch, FileWriter::native, ".pt", ""},
    FileKind{Format::npz, FileWriter::bitrift, ".npz", "npz"},
    FileKind{Format::npz, FileWriter::native, ".npz", ""},
    FileKind{Format::npz_deflated, FileWriter::bitrift, ".npz", "npz-deflate"},
    FileKind{Format::npz_deflated, FileWriter::native, ".npz", ""},
    FileKind{Format::safetensors, FileWriter::bitrift, ".safetensors", "safetensors"},
    FileKind{Format::safetensors, FileWriter::native, ".safetensors", ""},
    FileKind{Format::dcp, FileWriter::native, "", ""},
    FileKind{Format::tensorflow, FileWriter::native, "", ""},
    FileKind{Format::keras, FileWriter::native, ".keras", ""},
};

/// The ways in which several ranks write a file: those of record::SaveWriter, and those of
/// bitrift-hdf5-parallel.
enum class SaveRoute { gather, shared, collective, independent };
constexpr EnumNames<4> names_of(SaveRoute) {
  return {"route", {"gather", "shared", "collective", "independent"}};
}

enum class StudyPart { size, determinism, damage, replay, kill, state, cost, policy };
constexpr EnumNames<8> names_of(StudyPart) {
  return {"part", {"size", "determinism", "damage", "replay", "kill", "state", "cost", "policy"}};
}

/// Which bits of a file: the stored bytes of the state's tensors, or all others.
enum class BitStratum { payload, metadata };
constexpr EnumNames<2> names_of(BitStratum) { return {"stratum", {"payload", "metadata"}}; }

/// The behaviour of a reader with a damaged file.
enum class DamageOutcome {
  detected,        ///< it raises an error
  silently_wrong,  ///< it returns other tensors than the saved ones, or more or fewer
  same,            ///< it returns the saved tensors
  crash,           ///< its process ends
  hang,            ///< it does not answer in time
};
constexpr EnumNames<5> names_of(DamageOutcome) {
  return {"outcome", {"detected", "silently_wrong", "same", "crash", "hang"}};
}
inline constexpr std::size_t damage_outcomes = names_of(DamageOutcome{}).words.size();

/// What remains where a save over an older checkpoint was killed.
enum class KillOutcome {
  previous,        ///< the older checkpoint, whole
  complete,        ///< the new one, whole
  detected,        ///< neither: the reader raises an error
  silently_wrong,  ///< neither: the reader returns something else
  crash,           ///< the reader's process ends
  hang,            ///< the reader does not answer in time
};
constexpr EnumNames<6> names_of(KillOutcome) {
  return {"outcome", {"previous", "complete", "detected", "silently_wrong", "crash", "hang"}};
}
inline constexpr std::size_t kill_outcomes = names_of(KillOutcome{}).words.size();

/// The file whose state is resumed without a piece of it.
inline constexpr FileKind state_kind{Format::hdf5, FileWriter::bitrift, ".h5", "hdf5"};

/// Reads whose outcome is known in advance.
enum class DamageCanary {
  no_flip,  ///< the file as written: same
  zeroed,   ///< the stored bytes of a tensor are zero: never same
};
constexpr EnumNames<2> names_of(DamageCanary) { return {"canary", {"no_flip", "zeroed"}}; }

}  // namespace bitrift::study
