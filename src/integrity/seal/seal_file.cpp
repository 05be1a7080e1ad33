#include "integrity/seal/seal_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include <fcntl.h>

#include "core/digest.h"
#include "core/error.h"
#include "integrity/seal/erasure_code.h"
#include "record/json/json.h"

// A seal is: head, table, parity, table, tail. Numbers are little-endian. Each part takes whole blocks.
//   head    mark, and the text
//   table   pages of 511 digests and the digest of the page
//   parity  the blocks of parity row 0, by stripe, then of row 1, ...
//   tail    the text, and the mark in the last 24 bytes
// The mark is eight letters, the bytes of the text, and the digest of the text; the text is JSON.
namespace bitrift::integrity {
namespace {

using record::Json;

constexpr const char* schema = "bitrift/seal/1";
constexpr std::array<char, 8> letters = {'b', 'r', 's', 'e', 'a', 'l', '\r', '\n'};
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 56U;  // sums of sizes cannot overflow
constexpr std::uint64_t most_text = std::uint64_t{64} << 20U;

struct Mark {
  std::array<char, 8> letters;
  std::uint64_t bytes;
  std::uint64_t digest;
};
static_assert(sizeof(Mark) == 24);

struct Page {
  std::array<std::uint64_t, 511> digests;
  std::uint64_t own;
  [[nodiscard]] std::uint64_t digest(std::uint64_t number) const {
    return block_digest(digests.data(), sizeof digests, number);
  }
};
static_assert(sizeof(Page) == seal_block_bytes);

constexpr std::uint64_t in_blocks(std::uint64_t bytes) {
  return (bytes + seal_block_bytes - 1) / seal_block_bytes * seal_block_bytes;
}
std::uint64_t head_bytes(std::uint64_t text) { return in_blocks(sizeof(Mark) + text); }
std::uint64_t pages(const SealShape& shape) {
  constexpr std::uint64_t each = std::tuple_size_v<decltype(Page::digests)>;
  return (shape.blocks() + shape.parity_blocks() + each - 1) / each;
}
std::uint64_t table_bytes(const SealShape& shape) { return pages(shape) * seal_block_bytes; }
std::uint64_t parity_bytes(const SealShape& shape) { return shape.parity_blocks() * seal_block_bytes; }

std::string text_of(const SealHead& head) {
  Json value = {{"schema", schema},
                {"bytes", head.shape.bytes},
                {"block_bytes", seal_block_bytes},
                {"data_rows", head.shape.data_rows},
                {"parity_rows", head.shape.parity_rows}};
  for (const FileList::Part& part : head.files.parts)
    value["files"].push_back({{"name", part.name}, {"bytes", part.bytes}});
  try {
    return value.dump();
  } catch (const Json::type_error&) {
    fail(ErrorCode::unsupported, "{}: the name of a file in it is not UTF-8, which a seal cannot state",
         head.files.root.string());
  }
}

Mark mark_of(const std::string& text) {
  return {letters, text.size(), block_digest(text.data(), text.size(), 0)};
}

SealHead parse_head(const std::string& text, const std::filesystem::path& root, const std::string& name) {
  const Json value = Json::parse(text);
  if (const auto found = value.at("schema").get<std::string>(); found != schema) {
    fail(ErrorCode::unsupported,
         "{}: its schema is {}, expected {}: use the version of bitrift that wrote it", name, found, schema);
  }
  SealHead head;
  head.files.root = root;
  for (const Json& file : value.value("files", Json::array())) {
    const auto part = file.at("name").get<std::string>();
    const auto bytes = file.at("bytes").get<std::uint64_t>();
    if (!stays_in_folder(part)) fail(ErrorCode::bad_file, "it names a file outside of the folder");
    if (bytes > most_bytes) fail(ErrorCode::bad_file, "a size in it is too large");
    head.files.add(part, bytes);
  }
  SealShape& shape = head.shape;
  value.at("bytes").get_to(shape.bytes);
  value.at("data_rows").get_to(shape.data_rows);
  value.at("parity_rows").get_to(shape.parity_rows);
  if (shape.bytes == 0 || shape.bytes > most_bytes || shape.data_rows == 0 || shape.parity_rows == 0 ||
      shape.data_rows > ErasureCode::most_rows ||
      shape.parity_rows > ErasureCode::most_rows - shape.data_rows ||
      value.at("block_bytes").get<std::uint64_t>() != seal_block_bytes ||
      (head.files.several() && head.files.parts.back().end() != shape.bytes)) {
    fail(ErrorCode::bad_file, "its numbers do not fit each other");
  }
  return head;
}

}  // namespace

// --- writing ---

SealWriter::SealWriter(const std::filesystem::path& file, const SealHead& head)
    : path_(file), fd_(open_file(file, O_WRONLY)), shape_(head.shape), text_(text_of(head)) {}

void SealWriter::write_parity(unsigned row, std::uint64_t stripe, std::uint64_t blocks,
                              const std::uint8_t* data) const {
  const std::uint64_t first = head_bytes(text_.size()) + table_bytes(shape_);
  write_at(fd_, data, blocks * seal_block_bytes, first + (row * shape_.stripes() + stripe) * seal_block_bytes,
           path_);
}

void SealWriter::finish(const std::vector<std::uint64_t>& digests) const {
  const std::uint64_t head = head_bytes(text_.size());
  const std::uint64_t second = head + table_bytes(shape_) + parity_bytes(shape_);
  for (std::uint64_t number = 0; number < pages(shape_); ++number) {
    Page page{};
    const std::uint64_t first = number * page.digests.size();
    const auto count = std::min<std::uint64_t>(page.digests.size(), digests.size() - first);
    std::copy_n(digests.begin() + static_cast<std::ptrdiff_t>(first), count, page.digests.begin());
    page.own = page.digest(number);
    for (const std::uint64_t table : {head, second})
      write_at(fd_, &page, sizeof page, table + number * seal_block_bytes, path_);
  }
  const std::uint64_t tail = second + table_bytes(shape_);
  const Mark mark = mark_of(text_);
  write_at(fd_, text_.data(), text_.size(), tail, path_);
  write_at(fd_, &mark, sizeof mark, tail + head - sizeof mark, path_);
  write_at(fd_, text_.data(), text_.size(), sizeof mark, path_);
  write_at(fd_, &mark, sizeof mark, 0, path_);
}

// --- reading ---

namespace {

std::uint64_t bytes_of_seal(const std::filesystem::path& seal) {
  return size_of(open_file(seal, O_RDONLY), seal);
}

/// The text that a mark describes; nullopt if mark or text is damaged.
std::optional<std::string> text_at(const TolerantFiles& file, std::uint64_t bytes, bool at_end) {
  Mark mark{};
  if (bytes < 2 * sizeof mark) return std::nullopt;
  file.read(reinterpret_cast<std::uint8_t*>(&mark), sizeof mark, at_end ? bytes - sizeof mark : 0);
  if (mark.letters != letters || mark.bytes > most_text || head_bytes(mark.bytes) > bytes)
    return std::nullopt;
  std::string text(mark.bytes, '\0');
  file.read(reinterpret_cast<std::uint8_t*>(text.data()), text.size(),
            at_end ? bytes - head_bytes(mark.bytes) : sizeof mark);
  if (block_digest(text.data(), text.size(), 0) != mark.digest) return std::nullopt;
  return text;
}

}  // namespace

SealFile::SealFile(const std::filesystem::path& seal, const std::filesystem::path& root)
    : file_({seal}, bytes_of_seal(seal)) {
  try {
    read_head(root);
    read_digests();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_file) throw;
    fail(ErrorCode::bad_file, "{}: is damaged and cannot be used: {}", seal.string(), error.what());
  } catch (const Json::exception& error) {
    fail(ErrorCode::bad_file, "{}: is damaged and cannot be used: {}", seal.string(), error.what());
  }
}

void SealFile::read_head(const std::filesystem::path& root) {
  const std::uint64_t bytes = file_.bytes_now(0).value_or(0);
  const auto front = text_at(file_, bytes, false);
  const auto back = text_at(file_, bytes, true);
  damaged_ = !front || !back;
  if (!front && !back) fail(ErrorCode::bad_file, "neither its head nor its tail is one of a seal");
  const std::string& text = front ? *front : *back;
  head_ = parse_head(text, root, file_.files().root.string());
  head_bytes_ = head_bytes(text.size());
  const std::uint64_t whole = 2 * (head_bytes_ + table_bytes(shape())) + parity_bytes(shape());
  damaged_ = damaged_ || whole != bytes;
  if (table_bytes(shape()) > bytes) fail(ErrorCode::bad_file, "it was cut short");
  if (!front && whole != bytes) fail(ErrorCode::bad_file, "its head is damaged, and its size is wrong");
}

void SealFile::read_digests() {
  const std::uint64_t second = head_bytes_ + table_bytes(shape()) + parity_bytes(shape());
  const std::uint64_t count = shape().blocks() + shape().parity_blocks();
  digests_.reserve(count);
  for (std::uint64_t number = 0; number < pages(shape()); ++number) {
    Page page{};
    bool sound = false;
    for (const std::uint64_t table : {head_bytes_, second}) {
      Page copy{};
      file_.read(reinterpret_cast<std::uint8_t*>(&copy), sizeof copy, table + number * seal_block_bytes);
      if (copy.own == copy.digest(number)) {
        page = copy;
        sound = true;
      } else {
        damaged_ = true;
      }
    }
    if (!sound) fail(ErrorCode::bad_file, "both copies of some digests are damaged");
    const auto here = std::min<std::uint64_t>(page.digests.size(), count - digests_.size());
    digests_.insert(digests_.end(), page.digests.begin(),
                    page.digests.begin() + static_cast<std::ptrdiff_t>(here));
  }
}

void SealFile::read_parity(unsigned row, std::uint64_t stripe, std::uint64_t blocks,
                           std::uint8_t* out) const {
  const std::uint64_t first = head_bytes_ + table_bytes(shape());
  file_.read(out, blocks * seal_block_bytes, first + (row * shape().stripes() + stripe) * seal_block_bytes);
}

}  // namespace bitrift::integrity
