#include "comm/mesh_schedule_json.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"

namespace bitrift::comm {
namespace {

using nlohmann::json;

constexpr int schema = 1;
// A mesh has at most two links for each chip, and a dead link is three values.
constexpr std::size_t most_header_values = 8 * static_cast<std::size_t>(most_chips);
constexpr std::size_t most_header_depth = 8;

struct RawSend {
  std::uint32_t from = 0, to = 0, chunk = 0;
  SendKind kind = SendKind::add;
};

/// Takes the events of a file one by one: sends go into flat lists, everything else into one small value.
class FileEvents : public json::json_sax_t {
 public:
  explicit FileEvents(const std::string& source) : source_(source) {}

  json header;
  bool has_sends = false;
  std::vector<RawSend> sends;
  std::vector<std::uint32_t> after;
  std::vector<std::size_t> after_end;

  bool null() override { return value(nullptr); }
  bool boolean(bool is) override { return value(is); }
  bool number_integer(json::number_integer_t number) override { return value(number); }
  bool number_float(json::number_float_t number, const std::string&) override { return value(number); }
  bool binary(json::binary_t&) override { return wrong("holds something that is not JSON"); }
  bool number_unsigned(json::number_unsigned_t number) override {
    if (!in_sends_) return value(number);
    if (number > std::numeric_limits<std::uint32_t>::max()) return wrong_send("holds too large a number");
    const auto small = static_cast<std::uint32_t>(number);
    if (depth_ == 3 && field_ == 4) {
      if (after.size() == most_waits) return wrong("waits for too many others");
      after.push_back(small);
      return true;
    }
    if (depth_ != 2 || field_ > 2) return wrong_send(expected_);
    (field_ == 0 ? send_.from : field_ == 1 ? send_.to : send_.chunk) = small;
    ++field_;
    return true;
  }
  bool string(std::string& text) override {
    if (!in_sends_) return value(text);
    const auto kind = find_named<SendKind>(text);
    if (depth_ != 2 || field_ != 3 || !kind) return wrong_send(expected_);
    send_.kind = *kind;
    ++field_;
    return true;
  }
  bool start_array(std::size_t) override {
    if (in_sends_) {
      const bool begins_send = depth_ == 1;
      if (!begins_send && (depth_ != 2 || field_ != 4)) return wrong_send(expected_);
      if (begins_send) field_ = 0;
      ++depth_;
      return true;
    }
    if (open_.size() == 1 && open_.back()->is_object() && key_ == "sends") {
      note_key();
      has_sends = in_sends_ = true;
      depth_ = 1;
      return true;
    }
    return open(json::array());
  }
  bool end_array() override {
    if (!in_sends_) return close();
    --depth_;
    if (depth_ == 2) field_ = 5;
    if (depth_ == 1) take_send();
    if (depth_ == 0) in_sends_ = false;
    return true;
  }
  bool start_object(std::size_t) override {
    if (in_sends_) return wrong_send(expected_);
    return open(json::object());
  }
  bool end_object() override { return close(); }
  bool key(std::string& text) override {
    key_ = std::move(text);
    return true;
  }
  bool parse_error(std::size_t at, const std::string&, const json::exception&) override {
    fail(ErrorCode::bad_file, "{}: not valid JSON at byte {}", source_, at);
  }

 private:
  [[noreturn]] bool wrong(const char* what) const {
    fail(ErrorCode::bad_file, "{}: the schedule {}", source_, what);
  }
  [[noreturn]] bool wrong_send(const char* what) const {
    fail(ErrorCode::bad_file, "{}: send {} {}", source_, sends.size(), what);
  }
  void take_send() {
    if (field_ != 5) wrong_send(expected_);
    if (sends.size() == most_sends) wrong("has too many sends");
    sends.push_back(send_);
    after_end.push_back(after.size());
  }
  void note_key() {
    if (!open_.back()->is_object()) return;
    if (open_.back()->contains(key_)) wrong("has a key twice");
    (*open_.back())[key_] = nullptr;
  }
  // Stores a value at the place of the current event, and returns where it is.
  json& place(json one) {
    if (++values_ > most_header_values) wrong("has too many values outside its sends");
    if (open_.empty()) {
      header = std::move(one);
      return header;
    }
    note_key();
    json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(one));
      return parent.back();
    }
    return parent[key_] = std::move(one);
  }
  bool value(json one) {
    if (in_sends_) return wrong_send(expected_);
    place(std::move(one));
    return true;
  }
  bool open(json one) {
    if (open_.size() == most_header_depth) return wrong("is nested too deep");
    open_.push_back(&place(std::move(one)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  static constexpr const char* expected_ =
      "is not [from, to, chunk, \"add\" or \"copy\", [sends to wait for]] with whole numbers from 0";

  const std::string& source_;
  std::vector<json*> open_;  // an array that grows moves its elements, but none is open then
  std::string key_;
  std::size_t values_ = 0;
  bool in_sends_ = false;
  int depth_ = 0;  // within the sends
  int field_ = 0;  // the part of a send that comes next
  RawSend send_;
};

std::uint32_t whole_number(const json& header, const char* key, const std::string& source) {
  const auto found = header.find(key);
  if (found == header.end()) fail(ErrorCode::bad_file, "{}: '{}' is missing", source, key);
  if (!found->is_number_unsigned() || found->get<std::uint64_t>() > std::numeric_limits<std::uint32_t>::max())
    fail(ErrorCode::bad_file, "{}: '{}' is not a whole number from 0", source, key);
  return found->get<std::uint32_t>();
}

Schedule empty_schedule(const json& header, bool has_sends, const std::string& source) {
  if (!header.is_object()) fail(ErrorCode::bad_file, "{}: not a schedule: expected an object", source);
  const std::uint32_t found = whole_number(header, "schema", source);
  if (found != schema) {
    fail(ErrorCode::bad_file, "{}: has schema {}; this program reads schema {}", source, found, schema);
  }
  for (const auto& [key, unused] : header.items()) {
    if (key != "schema" && key != "scheme" && key != "topology" && key != "chunks" && key != "sends") {
      fail(ErrorCode::bad_file,
           "{}: holds a key that is not known; a schedule has schema, scheme, topology, chunks and sends",
           source);
    }
  }
  const std::uint32_t chunks = whole_number(header, "chunks", source);
  const auto scheme = header.find("scheme");
  const auto named = scheme != header.end() && scheme->is_string()
                         ? find_named<Scheme>(scheme->get_ref<const std::string&>())
                         : std::nullopt;
  if (!named) fail(ErrorCode::bad_file, "{}: 'scheme' is none of {}", source, list_names<Scheme>());
  if (!header.contains("topology")) fail(ErrorCode::bad_file, "{}: 'topology' is missing", source);
  if (!has_sends) fail(ErrorCode::bad_file, "{}: 'sends' is missing or not an array", source);
  return {topology_from_json(header.at("topology")), *named, chunks};
}

}  // namespace

std::string schedule_text(const Schedule& schedule) {
  const json topology = to_json(schedule.topology());
  std::string text = fmt::format(
      "{{\n\"schema\": {},\n\"scheme\": \"{}\",\n\"topology\": {},\n\"chunks\": {},\n\"sends\": [", schema,
      name_of(schedule.scheme()), topology.dump(), schedule.chunks());
  auto out = std::back_inserter(text);
  for (std::size_t i = 0; i < schedule.size(); ++i) {
    const Send& send = schedule.send(i);
    fmt::format_to(out, "{}[{},{},{},\"{}\",[", i == 0 ? "\n" : ",\n", send.from, send.to, send.chunk,
                   name_of(send.kind));
    const auto after = schedule.after(i);
    for (std::size_t k = 0; k < after.size(); ++k) fmt::format_to(out, "{}{}", k == 0 ? "" : ",", after[k]);
    text += "]]";
  }
  text += "\n]\n}\n";
  return text;
}

Schedule schedule_from_text(std::string_view text, const std::string& source) {
  FileEvents events(source);
  json::sax_parse(text.begin(), text.end(), &events);
  try {
    Schedule schedule = empty_schedule(events.header, events.has_sends, source);
    constexpr std::uint32_t widest = std::numeric_limits<std::uint16_t>::max();
    for (std::size_t i = 0; i < events.sends.size(); ++i) {
      const RawSend& raw = events.sends[i];
      if (raw.from > widest || raw.to > widest)
        fail(ErrorCode::bad_file, "send {}: chip {} does not exist", i, std::max(raw.from, raw.to));
      const std::size_t begin = i == 0 ? 0 : events.after_end[i - 1];
      schedule.append(
          {static_cast<std::uint16_t>(raw.from), static_cast<std::uint16_t>(raw.to), raw.chunk, raw.kind},
          std::span(events.after).subspan(begin, events.after_end[i] - begin));
    }
    schedule.require_sound();
    return schedule;
  } catch (const Error& error) {
    const std::string what = error.what();
    fail(ErrorCode::bad_file, "{}{}", what.starts_with(source + ":") ? "" : source + ": ", what);
  }
}

Schedule read_schedule(const std::filesystem::path& path) {
  std::error_code unknown;
  const std::uintmax_t bytes = std::filesystem::file_size(path, unknown);
  if (!unknown && bytes > most_file_bytes)
    fail(ErrorCode::bad_file, "{}: has {} bytes; a schedule has at most {}", path.string(), bytes,
         most_file_bytes);
  return schedule_from_text(read_text(path), path.string());
}

}  // namespace bitrift::comm
