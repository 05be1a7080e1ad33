#include "archive/npy_header.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "core/error.h"

namespace bitrift::archive {
namespace {

constexpr std::string_view npy_magic = "\x93NUMPY";
constexpr std::size_t most_npy_dimensions = 64;

/// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderText {
 public:
  HeaderText(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  void read(NpyHeader& header) {
    expect('{');
    bool has_type = false, has_order = false, has_shape = false;
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr" && !has_type) {
        has_type = true;
        read_type(header);
      } else if (key == "fortran_order" && !has_order) {
        has_order = true;
        header.fortran_order = truth();
      } else if (key == "shape" && !has_shape) {
        has_shape = true;
        header.shape = numbers();
      } else {
        damaged("it has an unknown key");
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_spaces();
    if (!text_.empty() || !has_type || !has_order || !has_shape) damaged("it is incomplete");
  }

 private:
  [[noreturn]] void damaged(const char* what) const {
    fail(ErrorCode::bad_file, "{}: its .npy header is damaged: {}", where_, what);
  }
  void skip_spaces() {
    const std::size_t first = text_.find_first_not_of(" \t\r\n");
    text_.remove_prefix(std::min(first, text_.size()));
  }
  bool accept(char wanted) {
    skip_spaces();
    if (!text_.starts_with(wanted)) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted)) damaged("its text is not a Python dictionary");
  }

  std::string quoted() {
    skip_spaces();
    const char quote = text_.empty() ? '\0' : text_.front();
    if (quote != '\'' && quote != '"') damaged("a text is missing");
    const std::size_t end = text_.find(quote, 1);
    if (end == std::string_view::npos) damaged("a text does not end");
    std::string found(text_.substr(1, end - 1));
    if (found.find('\\') != std::string::npos) damaged("a text has an escape sequence");
    text_.remove_prefix(end + 1);
    return found;
  }

  bool truth() {
    skip_spaces();
    for (const std::string_view word : {"True", "False"}) {
      if (!text_.starts_with(word)) continue;
      text_.remove_prefix(word.size());
      return word == "True";
    }
    damaged("fortran_order is neither True nor False");
  }

  void read_type(NpyHeader& header) {
    skip_spaces();
    if (text_.starts_with('[')) {
      // A structured type: its members are ignored, and the size of an element stays unknown.
      skip_list();
      header.type = {"compound", 0, false, false, false};
      return;
    }
    const std::string code = quoted();
    const auto type = npy_type(code);
    if (!type) damaged("its type is unknown");
    header.type = *type;
  }

  void skip_list() {
    std::size_t depth = 0;
    while (!text_.empty()) {
      const char one = text_.front();
      if (one == '\'' || one == '"') {
        (void)quoted();
        continue;
      }
      text_.remove_prefix(1);
      if (one == '[' || one == '(') ++depth;
      if ((one == ']' || one == ')') && --depth == 0) return;
    }
    damaged("a list does not end");
  }

  std::vector<std::uint64_t> numbers() {
    std::vector<std::uint64_t> found;
    expect('(');
    while (!accept(')')) {
      skip_spaces();
      std::uint64_t value = 0;
      const auto [rest, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
      if (error != std::errc{} || found.size() == most_npy_dimensions)
        damaged("its shape is not a list of sizes");
      text_.remove_prefix(static_cast<std::size_t>(rest - text_.data()));
      (void)accept('L');  // as Python 2 wrote them
      found.push_back(value);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return found;
  }

  std::string_view text_;
  const std::string& where_;
};

void check_npy_size(const NpyHeader& header, std::uint64_t array_bytes, const std::string& where) {
  if (!header.type.plain) return;  // pickled objects, or elements of unknown size
  std::uint64_t bytes = header.type.bytes;
  bool fits = true, empty = false;
  for (const std::uint64_t size : header.shape) {
    empty = empty || size == 0;
    fits = fits && !__builtin_mul_overflow(bytes, size, &bytes);
  }
  if (empty) bytes = 0;
  if ((fits || empty) && bytes == array_bytes - header.bytes) return;
  fail(ErrorCode::bad_file, "{}: its shape and type do not fit the {} bytes after its .npy header", where,
       array_bytes - header.bytes);
}

}  // namespace

NpyHeader read_npy_header(std::span<const std::uint8_t> array, std::uint64_t array_bytes,
                          const std::string& where) {
  const std::string_view text(reinterpret_cast<const char*>(array.data()), array.size());
  if (!text.starts_with(npy_magic) || array.size() < 10) {
    fail(ErrorCode::bad_file, "{}: does not begin like a .npy array", where);
  }
  const unsigned version = array[6];
  if (version < 1 || version > 3) {
    fail(ErrorCode::unsupported, "{}: has a .npy header of version {}.{}, which is unknown", where, version,
         array[7]);
  }
  const unsigned width = version == 1 ? 2 : 4;
  if (array.size() < 8 + width) fail(ErrorCode::bad_file, "{}: its .npy header ends too early", where);
  std::uint64_t length = 0;
  for (unsigned i = width; i-- > 0;) length = length << 8U | array[8 + i];
  NpyHeader header;
  header.bytes = 8 + width + length;
  if (header.bytes > array_bytes) {
    fail(ErrorCode::bad_file, "{}: its .npy header of {} bytes is longer than the array of {} bytes", where,
         header.bytes, array_bytes);
  }
  if (header.bytes > array.size()) {
    fail(ErrorCode::unsupported, "{}: its .npy header has {} bytes; at most {} are read", where, header.bytes,
         most_npy_header);
  }
  HeaderText(text.substr(8 + width, length), where).read(header);
  check_npy_size(header, array_bytes, where);
  return header;
}

}  // namespace bitrift::archive
