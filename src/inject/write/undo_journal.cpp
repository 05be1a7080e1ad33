#include "inject/write/undo_journal.h"

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "ckpt/set/file_set.h"
#include "core/byte_cursor.h"
#include "core/crc32c.h"
#include "core/error.h"
#include "inject/write/write_patch.h"
#include "record/json/json.h"

namespace bitrift::inject {
namespace {

using record::Json;
using Bytes = std::vector<std::uint8_t>;

constexpr const char* kSchema = "bitrift/undo/2";

/// Writes the data after the line of JSON, and computes their sum. Never as one text: with filtered chunks
/// that would have the size of all that are altered, twice.
class PayloadWriter {
 public:
  PayloadWriter(const FileDescriptor& fd, std::uint64_t start, std::filesystem::path path)
      : fd_(fd), at_(start), path_(std::move(path)) {}
  void add(std::span<const std::uint8_t> bytes) {
    if (block_.size() + bytes.size() > kBlockBytes) flush();
    if (bytes.size() > kBlockBytes) {
      write(bytes);
    } else {
      block_.insert(block_.end(), bytes.begin(), bytes.end());
    }
  }
  void add_number(std::uint64_t value) { add({reinterpret_cast<const std::uint8_t*>(&value), sizeof value}); }
  void flush() {
    write(block_);
    block_.clear();
  }
  [[nodiscard]] std::uint32_t sum() const noexcept { return sum_; }

 private:
  static constexpr std::size_t kBlockBytes = std::size_t{1} << 20U;
  void write(std::span<const std::uint8_t> bytes) {
    write_at(fd_, bytes.data(), bytes.size(), at_, path_);
    sum_ = crc32c(bytes.data(), bytes.size(), sum_);
    at_ += bytes.size();
  }
  const FileDescriptor& fd_;
  std::uint64_t at_;
  std::filesystem::path path_;
  Bytes block_;
  std::uint32_t sum_ = 0;
};

std::string head_of(const UndoJournal& journal, std::uint32_t sum) {
  Json head = {{"schema", kSchema},
               {"file_bytes", journal.file_bytes},
               {"ranges", journal.patch.ranges.size()},
               {"tail", journal.patch.tail.size()},
               {"crc32c", fmt::format("{:08x}", sum)}};
  for (const FileList::Part& part : journal.parts)
    head["files"].push_back({{"name", part.name}, {"bytes", part.bytes}});
  return head.dump() + "\n";
}

UndoJournal parse(const Json& head, std::span<const std::uint8_t> content) {
  UndoJournal journal;
  head.at("file_bytes").get_to(journal.file_bytes);
  journal.patch.file_bytes = journal.file_bytes;
  FileList files;
  if (head.contains("files")) {
    for (const Json& part : head["files"]) {
      const auto name = part.at("name").get<std::string>();
      if (!stays_in_folder(name)) fail(ErrorCode::bad_file, "it names a file outside of the folder");
      files.add(name, part.at("bytes").get<std::uint64_t>());
    }
    if (files.parts.empty() || files.parts.back().end() != journal.file_bytes)
      fail(ErrorCode::bad_file, "the sizes of its files do not add up");
  }
  journal.parts = std::move(files.parts);
  ByteCursor payload(content, "", "it");
  std::uint64_t end = 0;
  const auto count = head.at("ranges").get<std::uint64_t>();
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t offset = payload.u64();
    const std::uint64_t size = payload.u64();
    const auto before = payload.take(size);
    const auto after = payload.take(size);
    if (size == 0 || offset < end || size > journal.file_bytes || offset > journal.file_bytes - size) {
      fail(ErrorCode::bad_file, "it has an invalid range");
    }
    end = offset + size;
    journal.patch.add(offset, before, after);
  }
  const auto tail = payload.take(head.at("tail").get<std::uint64_t>());
  journal.patch.tail.assign(tail.begin(), tail.end());
  if (payload.left() != 0) fail(ErrorCode::bad_file, "it is longer than it says");
  return journal;
}

/// Throws Error(unsupported) for a journal of another schema, which need not be damaged.
void refuse_other_schema(const Json& head, const std::filesystem::path& path) {
  const auto found = head.at("schema").get<std::string>();
  if (found == kSchema) return;
  fail(ErrorCode::unsupported, "{}: its schema is {}, expected {}: use the version of bitrift that wrote it",
       path.string(), found, kSchema);
}

/// The state according to the tail, which may have any length if it was cut short.
void look_at_tail(const UndoJournal& journal, const FileRun& file, bool& any_old, bool& any_new) {
  const std::string name = file.files().root.string();
  for (std::size_t i = 0; i < journal.parts.size(); ++i) {
    const std::uint64_t size = size_of(file.part(i), file.files().path_of(i));
    if (size == journal.parts[i].bytes) continue;
    fail(ErrorCode::conflict, "{}: has {} bytes, {} when it was altered: it was replaced or changed since",
         file.files().path_of(i).string(), size, journal.parts[i].bytes);
  }
  const std::uint64_t size = file.bytes();
  const Bytes& tail = journal.patch.tail;
  if (size < journal.file_bytes || size > journal.file_bytes + tail.size()) {
    fail(ErrorCode::conflict, "{}: has {} bytes, {} when it was altered: it was replaced or changed since",
         name, size, journal.file_bytes);
  }
  const std::uint64_t there = size - journal.file_bytes;
  Bytes found(there);
  if (there > 0) file.read(found.data(), found.size(), journal.file_bytes);
  // Blocks that were not written yet may be zeros.
  for (std::uint64_t i = 0; i < there; ++i) {
    if (found[i] == tail[i]) continue;
    any_old = true;
    if (found[i] != 0) {
      fail(ErrorCode::conflict, "{} is {:#04x}, {:#04x} was appended there: the file was changed since",
           file.files().place(journal.file_bytes + i), found[i], tail[i]);
    }
  }
  any_old = any_old || there < tail.size();
  any_new = any_new || there > 0;
}

}  // namespace

std::filesystem::path undo_path(const std::filesystem::path& file) {
  std::error_code none;
  const auto root = ckpt::root_of_set(file);
  const bool indirect = std::filesystem::is_symlink(root, none) || std::filesystem::is_directory(root, none);
  const auto real = indirect ? std::filesystem::canonical(root, none) : root;
  return (none ? root : real).string() + ".undo";
}

void write_journal(const std::filesystem::path& file, const UndoJournal& journal) {
  PendingFile pending(undo_path(file));
  {
    const FileDescriptor fd = open_file(pending.path(), O_WRONLY);
    // The line is written last, because it has the sum; its length is known before.
    PayloadWriter payload(fd, head_of(journal, 0).size(), pending.target());
    for (const Patch::Range& range : journal.patch.ranges) {
      payload.add_number(range.offset);
      payload.add_number(range.bytes);
      payload.add(journal.patch.before_of(range));
      payload.add(journal.patch.after_of(range));
    }
    payload.add(journal.patch.tail);
    payload.flush();
    const std::string head = head_of(journal, payload.sum());
    write_at(fd, head.data(), head.size(), 0, pending.target());
  }
  pending.commit();
}

UndoJournal read_journal(const std::filesystem::path& file) {
  const std::filesystem::path path = undo_path(file);
  std::error_code none;
  const auto there = std::filesystem::status(path, none);
  if (!std::filesystem::exists(there)) {
    fail(ErrorCode::not_found, "{}: has no injection to undo ({} does not exist)", file.string(),
         path.string());
  }
  if (!std::filesystem::is_regular_file(there)) {
    fail(ErrorCode::bad_file, "{}: is not a regular file, so {} cannot be restored from it", path.string(),
         file.string());
  }
  const std::string text = read_text(path);
  try {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const Json head = Json::parse(text.substr(0, end));
    const auto payload = std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size())
                             .subspan(std::min(end + 1, text.size()));
    refuse_other_schema(head, path);
    if (head.at("crc32c") != fmt::format("{:08x}", crc32c(payload.data(), payload.size()))) {
      fail(ErrorCode::bad_file, "its checksum does not match");
    }
    return parse(head, payload);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::unsupported) throw;
    fail(ErrorCode::bad_file, "{}: is damaged, so {} cannot be restored from it ({})", path.string(),
         file.string(), error.what());
  } catch (const Json::exception&) {
    fail(ErrorCode::bad_file,
         "{}: is damaged, so {} cannot be restored from it (its first line is not that of "
         "an undo journal)",
         path.string(), file.string());
  }
}

void remove_journal(const std::filesystem::path& file) {
  const std::filesystem::path path = undo_path(file);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    fail(ErrorCode::io, "cannot remove {}: {}", path.string(), errno_text(errno));
  }
  sync_folder_of(path);
}

UndoState compare_with(const UndoJournal& journal, const FileRun& file) {
  bool any_old = false;
  bool any_new = false;
  look_at_tail(journal, file, any_old, any_new);
  read_ranges(file, journal.patch.ranges, [&](const Patch::Range& range, const std::uint8_t* found) {
    const std::uint8_t* const before = journal.patch.before_of(range).data();
    const std::uint8_t* const after = journal.patch.after_of(range).data();
    for (std::size_t i = 0; i < range.bytes; ++i) {
      const bool is_old = found[i] == before[i];
      const bool is_new = found[i] == after[i];
      if (!is_old && !is_new) {
        fail(ErrorCode::conflict,
             "{} is {:#04x}, neither {:#04x} (before the injection) nor {:#04x} (after it): the "
             "file has changed since, and {} no longer matches it",
             file.files().place(range.offset + i), found[i], before[i], after[i],
             undo_path(file.files().root).string());
      }
      any_old = any_old || !is_new;
      any_new = any_new || !is_old;
    }
  });
  if (!any_new) return UndoState::untouched;
  return any_old ? UndoState::partly : UndoState::complete;
}

std::uint64_t take_back(const UndoJournal& journal, const FileRun& file) {
  std::uint64_t changed = 0;
  if (compare_with(journal, file) == UndoState::untouched) return changed;
  // Only bytes that differ: those at which a file size limit or a full disk stopped the injection cannot be
  // written now either.
  std::vector<Patch::Range> altered;
  read_ranges(file, journal.patch.ranges, [&](const Patch::Range& range, const std::uint8_t* found) {
    const auto before = journal.patch.before_of(range);
    std::uint64_t first = range.bytes;
    std::uint64_t end = 0;
    for (std::uint64_t i = 0; i < range.bytes; ++i) {
      if (found[i] == before[i]) continue;
      ++changed;
      first = std::min(first, i);
      end = i + 1;
    }
    if (first < end) altered.push_back({range.offset + first, end - first, range.at + first});
  });
  write_ranges(file, altered, journal.patch.before);
  if (const std::uint64_t size = file.bytes(); size > journal.file_bytes) {
    // The old places must be valid again before the new ones disappear.
    file.sync();
    file.truncate(journal.file_bytes);
    changed += size - journal.file_bytes;
  }
  file.sync();
  if (compare_with(journal, file) != UndoState::untouched) {
    fail(ErrorCode::io, "{}: reading the restored bytes back gives other bytes", file.files().root.string());
  }
  return changed;
}

}  // namespace bitrift::inject
