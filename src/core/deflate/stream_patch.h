// A deflate stream for content that differs from another stream's content in few bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace bitrift::deflate {

/// The deflate stream (RFC 1951) of `after`, made from that of `before`: nothing is searched for again. A
/// literal that changes is written with the code of its block; a copy whose bytes or sources change is split
/// around them; a block that has no code for a byte gets one and is rewritten. Then other copies nearby
/// are written in forms of other lengths, so that the bits after them stay where they are, and the stream
/// keeps its size; where that fails it may be a few bytes shorter or longer.
///
/// `stream` ends with the last byte of its last block; `before` is what it inflates to, and has the size of
/// `after`. nullopt where the contents differ in too many bytes for this to pay, and for streams of a form
/// that few writers use: these must be packed again. The same arguments always give the same bytes. Takes
/// little memory beside the result.
[[nodiscard]] std::optional<std::vector<std::uint8_t>> patch_stream(std::span<const std::uint8_t> stream,
                                                                    std::span<const std::uint8_t> before,
                                                                    std::span<const std::uint8_t> after);

/// Does the same and checks the result: `inflate` returns the content of a deflate stream, or throws Error,
/// and the content must equal `after`. A wrong stream would be a fault of bitrift: it is logged and not
/// returned. `before` is freed before `inflate` is called, so that the two never need memory at the same
/// time.
[[nodiscard]] std::optional<std::vector<std::uint8_t>> patch_checked(
    std::span<const std::uint8_t> stream, std::vector<std::uint8_t> before,
    std::span<const std::uint8_t> after,
    const std::function<std::vector<std::uint8_t>(std::span<const std::uint8_t>)>& inflate);

}  // namespace bitrift::deflate
