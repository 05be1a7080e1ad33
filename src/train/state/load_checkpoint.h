// A session from a checkpoint file (docs/checkpoint-format.md). Inside train/ only.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ckpt/reader.h"
#include "train/state/session.h"

namespace bitrift::train {

struct LoadOptions {
  int replica = 0, replicas = 1;  ///< index in this rank's layout
  bool convert = false;           ///< numbers of another floating type are rounded to the session's
  bool verify = false;  ///< compare every tensor with its stored checksum, which only HDF5 files have
};

/// What there is to say about a load that succeeded.
struct Loaded {
  std::string remark;                      ///< "" or one line
  std::vector<std::string> bad_checksums;  ///< paths of this rank's tensors that do not match theirs
};

/// Overwrites everything in the session with this rank's part of the file: nothing of the earlier state is
/// left, momentum included. If replicas differ, the file's replica of that number is loaded when it has as
/// many as the layout, else replica 0. Not collective. Throws Error(bad_input) for options that the file's
/// format cannot serve, Error(bad_file) that names the tensor that is missing, unexpected, or of another type
/// or shape, and as Reader does; the session is then to be loaded again before use. check_progress() decides
/// whether the loaded progress makes sense.
Loaded load_session(const ckpt::Reader& reader, Session& session, const LoadOptions& options);

/// Overwrites those of `paths` that this rank holds from `copy`, a copy of the base in which only their
/// values were altered. Not collective. Throws as Reader does.
void read_tensors(const ckpt::Reader& base, const std::filesystem::path& copy, Session& session,
                  const std::vector<std::string>& paths);

}  // namespace bitrift::train
