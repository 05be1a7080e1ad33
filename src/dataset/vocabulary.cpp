#include "dataset/vocabulary.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/file.h"

namespace bitrift::nn {
namespace {

constexpr std::size_t max_tokens = std::size_t{1} << 24;

// The number of bytes of the UTF-8 character that starts the text (Unicode 15, table 3-7); 0 if it does not
// start with one.
std::size_t character_size(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<std::uint8_t>(text[i]) : 0U; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool overlong = (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xF0 && byte(1) < 0x90);
  const bool outside = (lead == 0xED && byte(1) > 0x9F) || (lead == 0xF4 && byte(1) > 0x8F);
  return overlong || outside ? 0 : size;
}

// The token on a line; throws for an invalid line.
std::string token_of(std::string_view line, const std::filesystem::path& path, std::size_t number) {
  if (line.empty())
    fail(ErrorCode::bad_file, "{}: line {}: expected a token, found nothing", path.string(), number);
  std::string token;
  while (!line.empty()) {
    if (line[0] == '\\') {
      constexpr std::string_view written = "nrts\\", meant = "\n\r\t \\";
      const std::size_t which = line.size() < 2 ? written.npos : written.find(line[1]);
      if (which == written.npos) {
        fail(ErrorCode::bad_file, "{}: line {}: expected \\n, \\r, \\t, \\s or \\\\ after a backslash",
             path.string(), number);
      }
      token += meant[which];
      line.remove_prefix(2);
      continue;
    }
    const std::size_t size = character_size(line);
    if (size == 0)
      fail(ErrorCode::bad_file, "{}: line {}: expected UTF-8, found other bytes", path.string(), number);
    token += line.substr(0, size);
    line.remove_prefix(size);
  }
  return token;
}

}  // namespace

Vocabulary::Vocabulary(const std::filesystem::path& path) : path_(path) {
  const std::string content = read_text(path);
  std::string_view rest = content;
  std::set<std::size_t> lengths;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string token = token_of(rest.substr(0, end), path, number);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    lengths.insert(token.size());
    if (!ids_.emplace(std::move(token), static_cast<std::int32_t>(number - 1)).second) {
      fail(ErrorCode::bad_file, "{}: line {}: this token occurs on an earlier line too", path.string(),
           number);
    }
    if (ids_.size() > max_tokens) {
      fail(ErrorCode::bad_file, "{}: expected at most {} tokens, found more", path.string(), max_tokens);
    }
  }
  if (ids_.size() < 2)
    fail(ErrorCode::bad_file, "{}: expected at least 2 tokens, found {}", path.string(), ids_.size());
  lengths_.assign(lengths.rbegin(), lengths.rend());
}

std::vector<std::int32_t> Vocabulary::encode(std::string_view text, const std::filesystem::path& path) const {
  std::vector<std::int32_t> tokens;
  if (bytes()) {
    tokens.reserve(text.size());
    for (const char c : text) tokens.push_back(static_cast<std::uint8_t>(c));
    return tokens;
  }
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t before = at;
    for (const std::size_t length : lengths_) {
      if (length > text.size() - at) continue;
      const auto found = ids_.find(text.substr(at, length));
      if (found == ids_.end()) continue;
      tokens.push_back(found->second);
      at += length;
      break;
    }
    if (at == before) {
      fail(ErrorCode::bad_file, "{}: byte {} (of value {}): no token of {} matches the text there: add one",
           path.string(), at, static_cast<unsigned>(static_cast<std::uint8_t>(text[at])), path_.string());
    }
  }
  return tokens;
}

}  // namespace bitrift::nn
