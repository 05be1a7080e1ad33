// A checkpoint file that is deflated in a zip archive.
#pragma once

#include <memory>
#include <string>

#include "ckpt/container/container.h"
#include "ckpt/format/member_values.h"
#include "core/file.h"

namespace bitrift::ckpt {

/// A file in memory that holds the content of a deflated member. Throws as unpacked(), and Error(io).
[[nodiscard]] FileDescriptor unpacked_file(const Member& member);

/// Takes a block of `content`, which reads that file, as one of the archive: the member is one chunk, and
/// what is altered in it is deflated again, after `content` has updated its own checksums. `content` must
/// outlive the block. base: where the file would begin if it were stored after the archive's end; prefix:
/// of its paths.
void pack_block(Block& block, std::shared_ptr<const Member> member, const Container& content,
                std::uint64_t base, const std::string& prefix);

}  // namespace bitrift::ckpt
