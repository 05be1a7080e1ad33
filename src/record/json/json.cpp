#include "record/json/json.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/file.h"

namespace bitrift::record {
namespace {

// An iterator over text that counts how far the parser has read.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, std::size_t* consumed) : at_(at), consumed_(consumed) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*consumed_;
    return *this;
  }
  CountingIterator operator++(int) {
    const CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  std::size_t* consumed_;
};

std::string escape(const std::string& key) {
  std::string out;
  for (const char c : key) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return out;
}

// Notes the line of every key and element, and refuses a key that occurs twice.
class LineNotes : public nlohmann::json_sax<Json> {
 public:
  /// Notes nothing within the value at the pointer `left_out`.
  LineNotes(std::string_view text, Document& document, const std::size_t& consumed, std::string left_out)
      : text_(text), document_(document), consumed_(consumed), left_out_(std::move(left_out)) {}

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool string(string_t&) override { return value(); }
  bool binary(binary_t&) override { return value(); }
  bool start_object(std::size_t) override { return open(false); }
  bool start_array(std::size_t) override { return open(true); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    Level& level = levels_.back();
    level.pointer = level.base + "/" + escape(name);
    if (!level.keys.insert(name).second) {
      fail(ErrorCode::bad_file, "{}:{}: key '{}' occurs twice; keep one", document_.source, line(), name);
    }
    note(level.pointer);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }
  /// The line that was read last, where parsing stopped.
  [[nodiscard]] int last_line() { return line(); }
  /// The last key that was read within the open containers; empty when there is none.
  [[nodiscard]] std::string last_key() const {
    return levels_.empty() || levels_.back().pointer.empty() ? "" : key_name(levels_.back().pointer);
  }

 private:
  struct Level {
    bool array;
    std::string base;     // pointer of the container
    std::string pointer;  // of the current member
    std::size_t index = 0;
    std::set<std::string, std::less<>> keys = {};
  };

  // The last character that was read ends the token or follows it, so it never belongs to earlier lines.
  int line() {
    const std::size_t end = consumed_ == 0 ? 0 : consumed_ - 1;
    for (; scanned_ < end; ++scanned_) line_ += text_[scanned_] == '\n' ? 1 : 0;
    return line_;
  }
  void note(const std::string& pointer) {
    if (levels_.size() > 1 && !left_out_.empty() && pointer.starts_with(left_out_)) return;
    document_.places.emplace(pointer, fmt::format("{}:{}", document_.source, line()));
  }
  std::string begin_value() {
    if (levels_.empty()) {
      note("");
      return "";
    }
    Level& level = levels_.back();
    if (level.array) {
      level.pointer = level.base + "/" + std::to_string(level.index++);
      note(level.pointer);
    }
    return level.pointer;
  }
  bool value() {
    begin_value();
    return true;
  }
  bool open(bool array) {
    // A limit of depth: a recursive destructor or validator must not overflow the stack.
    if (levels_.size() > 200)
      fail(ErrorCode::bad_file, "{}:{}: nested deeper than 200 levels", document_.source, line());
    const std::string pointer = begin_value();
    levels_.push_back({array, pointer, pointer, 0});
    return true;
  }
  bool close() {
    levels_.pop_back();
    return true;
  }

  std::string_view text_;
  Document& document_;
  const std::size_t& consumed_;
  std::string left_out_;
  std::size_t scanned_ = 0;
  int line_ = 1;
  std::vector<Level> levels_;
};

}  // namespace

std::string key_name(const std::string& pointer) {
  std::string name;
  std::size_t at = 0;
  while (at < pointer.size()) {
    const std::size_t end = std::min(pointer.find('/', at + 1), pointer.size());
    const std::string part = pointer.substr(at + 1, end - at - 1);
    const bool index = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    name += index ? "[" + part + "]" : (name.empty() ? "" : ".") + part;
    at = end;
  }
  return name.empty() ? "the document" : name;
}

std::string Document::place(const std::string& pointer) const {
  for (std::string at = pointer;; at.resize(at.rfind('/'))) {
    if (const auto found = places.find(at); found != places.end()) return found->second;
    if (at.empty()) return source;
  }
}

std::string Document::where(const std::string& pointer) const {
  const std::string found = place(pointer);
  // An override names its own key: "--set arms.0.name".
  std::string dotted = pointer.substr(std::min<std::size_t>(1, pointer.size()));
  std::replace(dotted.begin(), dotted.end(), '/', '.');
  return found == "--set " + dotted ? found : found + ": " + key_name(pointer);
}

namespace {

/// Passes on the elements of an array as soon as each is complete.
Json parse_value(std::string_view text, const Elements* elements) {
  if (elements == nullptr) return Json::parse(text);
  bool inside = false;
  // Depth 0 is the outermost object, 1 its members, 2 the elements of arrays in it.
  return Json::parse(text, [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::key && depth == 1) inside = parsed == elements->key;
    if (!inside || depth != 2 || event != Json::parse_event_t::object_end) return true;
    elements->take(std::move(parsed));
    return false;
  });
}

}  // namespace

Document parse_text(std::string_view text, const std::string& source, const Elements* elements) {
  Document document;
  document.source = source;
  std::size_t consumed = 0;
  LineNotes notes(text, document, consumed, elements == nullptr ? "" : "/" + escape(elements->key) + "/");
  // The first pass finds lines, doubled keys and depth; the second builds the value and has the better
  // messages.
  (void)Json::sax_parse(CountingIterator(text.data(), &consumed),
                        CountingIterator(text.data() + text.size(), &consumed), &notes);
  try {
    document.value = parse_value(text, elements);
  } catch (const Json::exception& error) {
    std::string reason = error.what();
    if (const auto bracket = reason.find("] "); bracket != std::string::npos) reason.erase(0, bracket + 2);
    for (char& c : reason) c = c == '\n' ? ' ' : c;
    // Some of the library's messages (number overflow) carry no position.
    if (reason.find("at line") == std::string::npos) reason += fmt::format(" at line {}", notes.last_line());
    const std::string key = notes.last_key();
    fail(ErrorCode::bad_file, "{}:{}: not valid JSON{}: {}", source, notes.last_line(),
         key.empty() ? "" : " at key '" + key + "'", reason);
  }
  return document;
}

Document parse_file(const std::filesystem::path& path, const Elements* elements) {
  return parse_text(read_text(path), path.string(), elements);
}

Json number_to_json(double value) {
  if (std::isfinite(value)) return value;
  if (std::isnan(value)) return "NaN";
  return value > 0 ? "Infinity" : "-Infinity";
}

double number_from_json(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (value == "Infinity") return std::numeric_limits<double>::infinity();
  if (value == "-Infinity") return -std::numeric_limits<double>::infinity();
  fail(ErrorCode::bad_file, R"(expected a number or "NaN", "Infinity", "-Infinity"; found {})", value.dump());
}

std::string hex_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char text[64];
  std::snprintf(text, sizeof text, "%a", value);
  return text;
}

}  // namespace bitrift::record
