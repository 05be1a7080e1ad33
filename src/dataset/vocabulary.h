// Token ids of a text: its bytes, or the tokens of a vocabulary file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace bitrift::nn {

/// The empty vocabulary gives each byte its value (256 ids). A vocabulary file has one token on each line
/// (UTF-8, \n, \r, \t, \s (a space) and \\ as escapes), whose id is the line's number from 0.
class Vocabulary {
 public:
  Vocabulary() = default;
  /// Throws Error(not_found | io), and Error(bad_file) that names file and line: an empty line, a token
  /// twice, an unknown escape, invalid UTF-8, fewer than 2 tokens, or more than 2^24.
  explicit Vocabulary(const std::filesystem::path& path);

  [[nodiscard]] std::int64_t size() const noexcept {
    return bytes() ? 256 : static_cast<std::int64_t>(ids_.size());
  }
  [[nodiscard]] bool bytes() const noexcept { return ids_.empty(); }
  /// The ids of a text: at each position the longest token that matches. `path` is for the message of
  /// Error(bad_file) when no token matches, which gives the byte's offset in the text.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text,
                                                 const std::filesystem::path& path) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>()(text);
    }
  };
  std::filesystem::path path_;
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids_;
  std::vector<std::size_t> lengths_;  // lengths of tokens in bytes, longest first, each once
};

}  // namespace bitrift::nn
