#include "inject/undo_journal.h"

#include <array>
#include <cerrno>
#include <string_view>

#include <sys/stat.h>
#include <unistd.h>

#include "core/crc32c.h"
#include "core/error.h"
#include "record/json.h"

namespace bitrift::inject {
namespace {

using record::Json;
using Bytes = std::vector<std::uint8_t>;

constexpr const char* kSchema = "bitrift/undo/1";

std::string to_hex(const Bytes& bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::uint8_t byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

Bytes from_hex(const std::string& text) {
  const std::string_view digits = "0123456789abcdef";
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    const std::size_t high = digits.find(text[i]);
    const std::size_t low = digits.find(text[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return {};
    bytes.push_back(static_cast<std::uint8_t>(high << 4 | low));
  }
  return bytes;
}

std::string checksum_of(const Json& body) {
  const std::string text = body.dump();
  return fmt::format("{:08x}", crc32c(text.data(), text.size()));
}

std::uint64_t size_of(const FileDescriptor& fd, const std::filesystem::path& file) {
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) fail(ErrorCode::io, "{}: {}", file.string(), errno_text(errno));
  return static_cast<std::uint64_t>(status.st_size);
}

UndoJournal parse(const Json& body) {
  UndoJournal journal;
  body.at("file_bytes").get_to(journal.file_bytes);
  std::uint64_t end = 0;
  for (const Json& entry : body.at("ranges")) {
    Patch::Range range;
    entry.at("offset").get_to(range.offset);
    range.before = from_hex(entry.at("before").get<std::string>());
    range.after = from_hex(entry.at("after").get<std::string>());
    const std::uint64_t size = range.before.size();
    if (size == 0 || size != range.after.size() || range.offset < end || size > journal.file_bytes ||
        range.offset > journal.file_bytes - size) {
      fail(ErrorCode::bad_file, "a range makes no sense");
    }
    end = range.offset + size;
    journal.patch.ranges.push_back(std::move(range));
  }
  return journal;
}

}  // namespace

std::filesystem::path undo_path(const std::filesystem::path& file) {
  std::error_code none;
  const bool is_link = std::filesystem::is_symlink(file, none);
  const auto real = is_link ? std::filesystem::canonical(file, none) : file;
  return (none ? file : real).string() + ".undo";
}

void write_journal(const std::filesystem::path& file, const UndoJournal& journal) {
  Json ranges = Json::array();
  for (const Patch::Range& range : journal.patch.ranges) {
    ranges.push_back(
        {{"offset", range.offset}, {"before", to_hex(range.before)}, {"after", to_hex(range.after)}});
  }
  const Json body = {{"schema", kSchema}, {"file_bytes", journal.file_bytes}, {"ranges", std::move(ranges)}};
  const Json document = {{"body", body}, {"crc32c", checksum_of(body)}};
  replace_text(undo_path(file), document.dump() + "\n");
}

UndoJournal read_journal(const std::filesystem::path& file) {
  const std::filesystem::path path = undo_path(file);
  if (!std::filesystem::exists(path)) {
    fail(ErrorCode::not_found, "{}: has no injection to undo ({} does not exist)", file.string(),
         path.string());
  }
  const std::string text = read_text(path);
  try {
    const Json document = Json::parse(text);
    const Json& body = document.at("body");
    if (document.at("crc32c") != checksum_of(body)) fail(ErrorCode::bad_file, "its checksum does not fit");
    if (body.at("schema") != kSchema) fail(ErrorCode::bad_file, "its schema is not {}", kSchema);
    return parse(body);
  } catch (const std::exception& error) {
    fail(ErrorCode::bad_file, "{}: is damaged, so {} cannot be restored from it ({})", path.string(),
         file.string(), error.what());
  }
}

void remove_journal(const std::filesystem::path& file) {
  const std::filesystem::path path = undo_path(file);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    fail(ErrorCode::io, "cannot remove {}: {}", path.string(), errno_text(errno));
  }
  sync_folder_of(path);
}

UndoState compare_with(const UndoJournal& journal, const FileDescriptor& fd,
                       const std::filesystem::path& file) {
  const std::uint64_t size = size_of(fd, file);
  if (size != journal.file_bytes) {
    fail(ErrorCode::conflict, "{}: has {} bytes, {} when it was altered: it was replaced or changed since",
         file.string(), size, journal.file_bytes);
  }
  bool any_old = false;
  bool any_new = false;
  for (const Patch::Range& range : journal.patch.ranges) {
    Bytes found(range.before.size());
    read_at(fd, found.data(), found.size(), range.offset, file);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const bool is_old = found[i] == range.before[i];
      const bool is_new = found[i] == range.after[i];
      if (!is_old && !is_new) {
        fail(ErrorCode::conflict,
             "{}: byte {} is {:#04x}, neither {:#04x} (before the injection) nor {:#04x} (after it): "
             "the file was changed since, and {} no longer fits it",
             file.string(), range.offset + i, found[i], range.before[i], range.after[i],
             undo_path(file).string());
      }
      any_old = any_old || !is_new;
      any_new = any_new || !is_old;
    }
  }
  if (!any_new) return UndoState::untouched;
  return any_old ? UndoState::partly : UndoState::complete;
}

std::uint64_t take_back(const UndoJournal& journal, const FileDescriptor& fd,
                        const std::filesystem::path& file) {
  std::uint64_t changed = 0;
  if (compare_with(journal, fd, file) == UndoState::untouched) return changed;
  for (const Patch::Range& range : journal.patch.ranges) {
    Bytes found(range.before.size());
    read_at(fd, found.data(), found.size(), range.offset, file);
    for (std::size_t i = 0; i < found.size(); ++i) changed += found[i] != range.before[i] ? 1U : 0U;
    write_at(fd, range.before.data(), range.before.size(), range.offset, file);
  }
  sync_file(fd, file);
  if (compare_with(journal, fd, file) != UndoState::untouched) {
    fail(ErrorCode::io, "{}: what was restored does not read back", file.string());
  }
  return changed;
}

}  // namespace bitrift::inject
