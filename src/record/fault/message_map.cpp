#include "record/fault/message_map.h"

#include <algorithm>

#include "core/error.h"
#include "core/number/number_format.h"

namespace bitrift::record {

std::int64_t MessageMap::elements(std::size_t bucket, const Send& send) const {
  const std::int64_t all = buckets.at(bucket);
  return all / chunks + (send.chunk < all % chunks ? 1 : 0);
}

int MessageMap::bits() const {
  const auto format = number_format(dtype);
  if (!format) fail(ErrorCode::bad_file, "messages of '{}', which is not a number format", dtype);
  return static_cast<int>(format->bytes) * 8;
}

Json to_json(const MessageMap& map) {
  Json sends = Json::array();
  for (const MessageMap::Send& send : map.sends) sends.push_back({send.chunk, send.kind});
  return {{"steps_per_epoch", map.steps_per_epoch},
          {"dtype", map.dtype},
          {"chunks", map.chunks},
          {"buckets", map.buckets},
          {"sends", sends}};
}

MessageMap message_map_from_json(const Json& value) {
  try {
    MessageMap map;
    value.at("steps_per_epoch").get_to(map.steps_per_epoch);
    value.at("dtype").get_to(map.dtype);
    value.at("chunks").get_to(map.chunks);
    value.at("buckets").get_to(map.buckets);
    for (const Json& send : value.at("sends"))
      map.sends.push_back({send.at(0).get<std::int64_t>(), send.at(1).get<MessageKind>()});
    const auto beyond = [&](const MessageMap::Send& send) {
      return send.chunk < 0 || send.chunk >= map.chunks;
    };
    const bool sound =
        map.steps_per_epoch >= 1 && map.chunks >= 1 && number_format(map.dtype) &&
        std::none_of(map.sends.begin(), map.sends.end(), beyond) &&
        std::all_of(map.buckets.begin(), map.buckets.end(), [](auto size) { return size > 0; });
    if (sound) return map;
  } catch (const Json::exception&) {
  }
  fail(ErrorCode::bad_file,
       "messages: expected 'steps_per_epoch', 'dtype', 'chunks', 'buckets' (elements of each) and 'sends' "
       "([chunk, kind] of each); found {:.200}",
       value.dump());
}

void check_exists(const LinkFault& fault, const MessageMap& map) {
  const auto check = [&](const char* what, std::int64_t number, std::int64_t count) {
    if (number < count) return;
    fail(ErrorCode::bad_input, "{}: there is no {} {}; {}", to_text(fault), what, number,
         count == 0 ? "there is none" : fmt::format("there are 0 to {}", count - 1));
  };
  check("bucket", fault.bucket, static_cast<std::int64_t>(map.buckets.size()));
  check("send", fault.send, static_cast<std::int64_t>(map.sends.size()));
  check(
      "element", fault.element,
      map.elements(static_cast<std::size_t>(fault.bucket), map.sends[static_cast<std::size_t>(fault.send)]));
  check("bit", fault.bit, map.bits());
}

}  // namespace bitrift::record
