// Several files that are one checkpoint: which ones, and what says so.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace bitrift::ckpt {

/// How the files of a checkpoint belong together.
enum class SetKind {
  distributed,  ///< ".metadata" of torch.distributed.checkpoint, and files of pieces of tensors
  indexed,      ///< an index that says which file holds which tensor, as Hugging Face and Keras write it
  folder,       ///< models and their optimizers, each in one file, or a file of each rank
};

/// A file with tensors.
struct SetFile {
  std::string name;    ///< relative to the folder
  std::string prefix;  ///< of its tensors' paths, "optimizer/"; "" for a model
};

struct FileSet {
  SetKind kind = SetKind::folder;
  std::filesystem::path folder;
  std::string index;                ///< the file that says what belongs to it; "" if none does
  std::vector<SetFile> files = {};  ///< not of a distributed one, whose metadata names them
  std::map<std::string, std::string> indexed = {};  ///< the file of each tensor that the index names
};

/// The set of files that a folder is, or that an index in a folder names; nullopt for everything else. Throws
/// Error(bad_file) for an index that is damaged or names files outside of its folder, Error(not_found) for a
/// file that is missing, Error(bad_input) for a folder with several models.
[[nodiscard]] std::optional<FileSet> find_file_set(const std::filesystem::path& path);

/// The folder if the path is one, or if it is an index in one (see find_file_set()); otherwise the path
/// itself.
[[nodiscard]] std::filesystem::path root_of_set(const std::filesystem::path& path);

}  // namespace bitrift::ckpt
