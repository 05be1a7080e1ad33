// The words of a study of checkpoints: formats, writers, parts, strata, outcomes.
#pragma once

#include <array>
#include <string>

#include <fmt/format.h>

#include "core/named_enum.h"
#include "record/json/json.h"

namespace bitrift::study {

/// Two are timed only. raw: the bytes of all tensors, one after the other, which no save can be faster than.
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

/// Who wrote a file: `bitrift-train`, or the library that defines the format.
enum class FileWriter { bitrift, native };
constexpr EnumNames<2> names_of(FileWriter) { return {"writer", {"bitrift", "native"}}; }

/// A format as one writer writes it: a line of every table.
struct FileKind {
  Format format;
  FileWriter writer;
  const char* extension;    ///< of the file; "" of a folder
  const char* option = "";  ///< of bitrift-train: --format; "": another program writes it
  bool operator==(const FileKind& other) const { return format == other.format && writer == other.writer; }
  /// "hdf5-gzip-native"
  [[nodiscard]] std::string name() const { return fmt::format("{}-{}", name_of(format), name_of(writer)); }
  /// Of the file or folder: "hdf5-bitrift.h5".
  [[nodiscard]] std::string file_name() const { return name() + extension; }
};

/// All that can be studied, in the order of the tables. Native files are written by
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

/// How several ranks write a file: those of record::SaveWriter, and those of bitrift-hdf5-parallel.
enum class SaveRoute { gather, shared, collective, independent };
constexpr EnumNames<4> names_of(SaveRoute) {
  return {"route", {"gather", "shared", "collective", "independent"}};
}

enum class StudyPart { size, determinism, damage, replay, kill, state, cost, policy };
constexpr EnumNames<8> names_of(StudyPart) {
  return {"part", {"size", "determinism", "damage", "replay", "kill", "state", "cost", "policy"}};
}

/// Which bits of a file: the bytes of the state's tensors as stored, or all others.
enum class BitStratum { payload, metadata };
constexpr EnumNames<2> names_of(BitStratum) { return {"stratum", {"payload", "metadata"}}; }

/// What a reader does with a damaged file.
enum class DamageOutcome {
  detected,        ///< it raises an error
  silently_wrong,  ///< it returns other tensors than were saved, or more or fewer
  same,            ///< it returns what was saved
  crash,           ///< its process ends
  hang,            ///< it does not answer in time
};
constexpr EnumNames<5> names_of(DamageOutcome) {
  return {"outcome", {"detected", "silently_wrong", "same", "crash", "hang"}};
}
inline constexpr std::size_t damage_outcomes = names_of(DamageOutcome{}).words.size();

/// What is left where a save over an older checkpoint was killed.
enum class KillOutcome {
  previous,        ///< the older checkpoint, whole
  complete,        ///< the new one, whole
  detected,        ///< neither: the reader raises an error
  silently_wrong,  ///< neither: the reader returns something
  crash,           ///< the reader's process ends
  hang,            ///< the reader does not answer in time
};
constexpr EnumNames<6> names_of(KillOutcome) {
  return {"outcome", {"previous", "complete", "detected", "silently_wrong", "crash", "hang"}};
}
inline constexpr std::size_t kill_outcomes = names_of(KillOutcome{}).words.size();

/// The file whose state is resumed without a piece of it.
inline constexpr FileKind state_kind{Format::hdf5, FileWriter::bitrift, ".h5", "hdf5"};

/// Reads whose outcome is known beforehand.
enum class DamageCanary {
  no_flip,  ///< the file as it was written: same
  zeroed,   ///< the stored bytes of a tensor are zero: never same
};
constexpr EnumNames<2> names_of(DamageCanary) { return {"canary", {"no_flip", "zeroed"}}; }

}  // namespace bitrift::study
