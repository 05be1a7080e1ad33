#include "archive/safetensors_header.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace bitrift::archive {
namespace {

using nlohmann::json;

constexpr std::uint64_t length_bytes = 8;
constexpr std::uint64_t most_header = 100'000'000;  // as in the format's own reader
constexpr std::size_t most_tensors = 500'000;
constexpr std::size_t most_dimensions = 64;
constexpr std::size_t most_nesting = 127;  // as in the format's own reader

std::uint64_t header_length(const BoundedFile& file) {
  const auto bytes = file.read(0, length_bytes, "the length of the safetensors header");
  std::uint64_t length = 0;
  for (unsigned i = length_bytes; i-- > 0;) length = length << 8U | bytes[i];
  return length;
}

/// Takes the header's events one by one, so that no document of it is held in memory: {"__metadata__": {text:
/// text}, name: {"dtype": text, "shape": [n], "data_offsets": [first, end]}}. Like the format's own reader,
/// it accepts null as "no metadata", and skips other keys of an entry with their values.
class HeaderEvents : public json::json_sax_t {
 public:
  HeaderEvents(const BoundedFile& file, SafetensorsHeader& header) : file_(file), header_(header) {}

  bool null() override { return skipping_ || (depth_ == 1 && in_metadata_) || wrong(); }
  bool boolean(bool) override { return skipping_ || wrong(); }
  bool number_integer(json::number_integer_t) override { return skipping_ || wrong(); }
  bool number_float(json::number_float_t, const std::string&) override { return skipping_ || wrong(); }
  bool binary(json::binary_t&) override { return skipping_ || wrong(); }
  bool number_unsigned(json::number_unsigned_t value) override {
    if (skipping_) return true;
    if (!in_list_ || list_.size() == most_dimensions) return wrong();
    list_.push_back(value);
    return true;
  }
  bool string(std::string& text) override {
    if (skipping_) return true;
    if (depth_ != 2 || in_list_) return wrong();
    if (in_metadata_) {
      if (!header_.metadata.emplace(key_, std::move(text)).second) return wrong();
      return true;
    }
    if (key_ != "dtype") return wrong();
    const auto type = safetensors_type(text);
    if (!type) {
      fail(ErrorCode::unsupported, "{}: tensor {} has the type {}, which bitrift does not know", file_.name(),
           printable(tensor_.name), printable(text));
    }
    tensor_.type = *type;
    return note("dtype");
  }
  bool start_object(std::size_t) override {
    if (opens()) return true;
    if (++depth_ > 2 || in_list_) return wrong();
    return true;
  }
  bool key(std::string& text) override {
    if (inside_ > 0) return true;
    if (depth_ == 2) {
      key_ = std::move(text);
      skipping_ = !in_metadata_ && key_ != "dtype" && key_ != "shape" && key_ != "data_offsets";
      return true;
    }
    in_metadata_ = text == "__metadata__";
    if (!names_.insert(text).second) {
      fail(ErrorCode::bad_file, "{}: the safetensors header has two entries named {}", file_.name(),
           printable(text));
    }
    tensor_ = {};
    tensor_.name = std::move(text);
    met_.clear();
    return true;
  }
  bool end_object() override {
    if (closes()) return true;
    skipping_ = false;
    if (--depth_ == 1 && !in_metadata_) finish();
    return true;
  }
  bool start_array(std::size_t) override {
    if (opens()) return true;
    if (depth_ != 2 || in_list_ || in_metadata_) return wrong();
    in_list_ = true;
    list_.clear();
    return true;
  }
  bool end_array() override {
    if (closes()) return true;
    in_list_ = false;
    if (key_ == "shape") {
      tensor_.shape = list_;
      return note("shape");
    }
    if (key_ != "data_offsets" || list_.size() != 2) return wrong();
    tensor_.first = list_[0];
    tensor_.end = list_[1];
    return note("data_offsets");
  }
  bool parse_error(std::size_t at, const std::string&, const json::exception&) override {
    fail(ErrorCode::bad_file, "{}: the safetensors header is not valid JSON (at byte {})", file_.name(),
         length_bytes + at);
  }

 private:
  [[noreturn]] bool wrong() const {
    fail(ErrorCode::bad_file, "{}: the safetensors header has something unexpected at {}", file_.name(),
         tensor_.name.empty() ? "its beginning" : printable(tensor_.name));
  }
  /// An object or list that belongs to a skipped value begins, or ends.
  bool opens() {
    if (!skipping_) return false;
    if (++inside_ > most_nesting) wrong();
    return true;
  }
  bool closes() {
    if (inside_ == 0) return false;
    --inside_;
    return true;
  }
  bool note(const char* key) { return met_.insert(key).second || wrong(); }

  void finish() {
    if (met_.size() != 3 || header_.tensors.size() == most_tensors) wrong();
    const std::uint64_t room = file_.size() - header_.bytes;
    const unsigned packed = tensor_.type.packed_bits;
    std::uint64_t bytes = packed != 0 ? packed : tensor_.type.bytes;  // or bits
    bool fits = true, empty = false;
    for (const std::uint64_t size : tensor_.shape) {
      empty = empty || size == 0;
      fits = fits && !__builtin_mul_overflow(bytes, size, &bytes);
    }
    if (packed != 0) {
      fits = fits && bytes % 8 == 0;
      bytes /= 8;
    }
    if (empty) bytes = 0;
    if ((!fits && !empty) || tensor_.first > tensor_.end || tensor_.end > room ||
        bytes != tensor_.end - tensor_.first) {
      fail(ErrorCode::bad_file,
           "{}: the bytes [{}, {}) of tensor {} fit neither its shape and type nor the {} bytes after the "
           "header",
           file_.name(), tensor_.first, tensor_.end, printable(tensor_.name), room);
    }
    tensor_.first += header_.bytes;
    tensor_.end += header_.bytes;
    header_.tensors.push_back(std::move(tensor_));
  }

  const BoundedFile& file_;
  SafetensorsHeader& header_;
  std::set<std::string> names_;
  std::size_t depth_ = 0;
  bool in_metadata_ = false, in_list_ = false;
  bool skipping_ = false;   // the value of the last key
  std::size_t inside_ = 0;  // the depth of objects and lists in it
  std::string key_;
  std::vector<std::uint64_t> list_;
  SafeTensor tensor_;
  std::set<std::string_view> met_;
};

}  // namespace

bool looks_like_safetensors(std::span<const std::uint8_t> first) noexcept {
  return first.size() > length_bytes && first[length_bytes] == '{' && first[5] == 0 && first[6] == 0 &&
         first[7] == 0;
}

SafetensorsHeader read_safetensors_header(const BoundedFile& file) {
  const std::uint64_t length = header_length(file);
  if (length > most_header) {
    fail(ErrorCode::bad_file, "{}: claims a safetensors header of {} bytes; at most {} are allowed",
         file.name(), length, most_header);
  }
  const auto text = file.read(length_bytes, length, "the safetensors header");
  SafetensorsHeader header;
  header.bytes = length_bytes + length;
  HeaderEvents events(file, header);
  json::sax_parse(text.begin(), text.end(), &events);
  std::sort(header.tensors.begin(), header.tensors.end(), [](const SafeTensor& a, const SafeTensor& b) {
    return std::pair(a.first, a.end) < std::pair(b.first, b.end);
  });
  std::uint64_t at = header.bytes;
  for (const SafeTensor& tensor : header.tensors) {
    if (tensor.first != at) {
      fail(ErrorCode::bad_file, "{}: {} between tensor {} and the bytes before it", file.name(),
           tensor.first < at ? "bytes are shared" : "there is a gap", printable(tensor.name));
    }
    at = tensor.end;
  }
  if (at != file.size()) {
    fail(ErrorCode::bad_file, "{}: {} bytes after the last tensor belong to nothing", file.name(),
         file.size() - at);
  }
  return header;
}

}  // namespace bitrift::archive
