// A session to and from a checkpoint file (docs/checkpoint-format.md). Inside train/ only.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ckpt/reader.h"
#include "mpi/communicator.h"
#include "record/training_spec.h"
#include "train/session.h"

namespace bitrift::train {

/// The spec in a checkpoint. Throws Error(bad_file): not one of bitrift's, or of another schema version.
[[nodiscard]] record::TrainingSpec checkpoint_spec(const ckpt::Reader& reader);

/// Overwrites everything in the session with this rank's part of the file: nothing of what was there before
/// is left, momentum included. Not collective. Throws Error(bad_file) that names the tensor that is missing,
/// unexpected, or of another type or shape, and as Reader does; the session is then to be loaded again before
/// use. Whether the loaded progress makes sense is for check_progress() to say.
void load_session(const ckpt::Reader& reader, Session& session);

/// Writes the state of all ranks as one file; rank 0 writes, stages send it one tensor after the other, so no
/// rank holds more than its part and one tensor. `staged`: ranks are stages, else replicas of which rank 0's
/// is saved. The same state gives the same bytes under every strategy. Collective; throws mpi::AgreedError on
/// all ranks.
void save_session(const std::filesystem::path& path, Session& session, const record::TrainingSpec& spec,
                  const mpi::Communicator& communicator, bool staged);

}  // namespace bitrift::train
