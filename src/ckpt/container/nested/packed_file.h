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

/// Turns a block of `content`, which reads that file, into one of the archive. The member is one chunk: after
/// an alteration, `content` updates its own checksums, and the member is deflated again. `content` must
/// outlive the block. base: the offset that the file would have if it were stored after the archive's end;
/// prefix: goes in front of the paths.
void pack_block(Block& block, std::shared_ptr<const Member> member, const Container& content,
                std::uint64_t base, const std::string& prefix);

}  // namespace bitrift::ckpt
