// A session's tensors as bytes in memory. Inside train/ only.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "train/state/session.h"

namespace bitrift::train {

/// Path to bytes.
using StateCopy = std::map<std::string, std::string>;

/// All tensors of this rank. shared: with rng/ and progress/, which every rank holds.
[[nodiscard]] StateCopy copy_state(Session& session, bool shared = true);

/// Overwrites everything in the session with a copy, which may hold more than the session. Throws
/// Error(internal) that names a tensor that the copy lacks; optimizer state that it lacks altogether is
/// dropped.
void restore_session(Session& session, const StateCopy& kept);

/// All tensors of this rank in the form that unpacked() reads, in a buffer that may have held an earlier
/// state: writing to used memory is about three times as fast.
void pack_state(Session& session, std::string& into);
/// One string, and the inverse. Throws Error(internal) for any other text.
[[nodiscard]] std::string packed(const StateCopy& copy);
[[nodiscard]] StateCopy unpacked(std::string_view text);

}  // namespace bitrift::train
