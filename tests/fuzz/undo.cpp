// Takes an injection back. The last bytes of the input choose between two games: a journal that was made up,
// and a sound one of a write that was cut short.
#include <algorithm>
#include <map>

#include <fuzzer/FuzzedDataProvider.h>
#include <spdlog/spdlog.h>

#include "core/crc32c.h"
#include "fuzz/harness.h"
#include "inject/write/apply.h"
#include "inject/write/undo_journal.h"

namespace bitrift::fuzz {
namespace {

const ScratchFile& file() {
  static const ScratchFile made("altered.h5");
  return made;
}

const ScratchFile& journal() {
  static const ScratchFile made("altered.h5.undo");
  return made;
}

/// A head that names a checksum gets the right one, or none would be believed.
std::string sealed(std::string text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view payload = std::string_view(text).substr(std::min(end + 1, text.size()));
  constexpr std::string_view key = "\"crc32c\":\"";
  const std::size_t at = text.find(key);
  if (at == std::string::npos || at + key.size() + 8 > end) return text;
  const std::string sum = fmt::format("{:08x}", crc32c(payload.data(), payload.size()));
  return text.replace(at + key.size(), sum.size(), sum);
}

void write_text(const ScratchFile& to, const std::string& text) {
  to.write({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

/// What is refused leaves the file alone; what is done gives the bytes that the journal names.
void take_back_made_up(const Bytes& bytes, const std::string& text) {
  file().write(bytes);
  write_text(journal(), sealed(text));
  inject::UndoJournal believed;
  if (!answered([&] { believed = inject::read_journal(file().path()); })) return;
  const bool done = answered([] { (void)inject::undo(file().path()); });
  const Bytes now = file().read();
  if (!done) return expect(now == bytes, "undo was refused and altered the file");
  expect(now.size() == believed.file_bytes, "the file has another size than before the injection");
  for (const auto& range : believed.patch.ranges) {
    const auto* const at = now.data() + range.offset;
    const auto before = believed.patch.before_of(range);
    expect(std::equal(before.begin(), before.end(), at), "a byte is not what it was before");
  }
  expect(!std::filesystem::exists(journal().path()), "a journal stays behind");
}

/// Cuts `original` into ranges with other bytes after the injection.
inject::UndoJournal journal_for(const Bytes& original, FuzzedDataProvider& input) {
  inject::UndoJournal made;
  made.file_bytes = made.patch.file_bytes = original.size();
  std::uint64_t at = 0;
  for (int i = 0; i < 8 && at < original.size(); ++i) {
    const std::uint64_t first = at + input.ConsumeIntegral<std::uint8_t>();
    const std::uint64_t bytes = input.ConsumeIntegralInRange<std::uint64_t>(1, 9);
    if (first >= original.size() || bytes > original.size() - first) break;
    const auto before = std::span(original).subspan(first, bytes);
    Bytes after(before.begin(), before.end());
    for (std::uint8_t& byte : after) byte ^= input.ConsumeIntegral<std::uint8_t>();
    made.patch.add(first, before, after);
    at = first + bytes;
  }
  made.patch.tail.assign(input.ConsumeIntegralInRange<std::size_t>(0, 20), 0);
  for (std::uint8_t& byte : made.patch.tail) byte = input.ConsumeIntegral<std::uint8_t>();
  return made;
}

/// A write that was cut short anywhere is taken back whole.
void take_back_torn(const Bytes& original, const inject::UndoJournal& made, FuzzedDataProvider& input) {
  Bytes torn = original;
  for (const auto& range : made.patch.ranges) {
    const auto after = made.patch.after_of(range);
    const auto written = input.ConsumeIntegralInRange<std::size_t>(0, after.size());
    std::copy_n(after.begin(), written, torn.begin() + static_cast<std::ptrdiff_t>(range.offset));
  }
  const auto appended = input.ConsumeIntegralInRange<std::size_t>(0, made.patch.tail.size());
  torn.insert(torn.end(), made.patch.tail.begin(),
              made.patch.tail.begin() + static_cast<std::ptrdiff_t>(appended));
  file().write(torn);
  must(
      [&] {
        inject::write_journal(file().path(), made);
        (void)inject::undo(file().path());
      },
      "a write that was cut short cannot be taken back");
  expect(file().read() == original, "the file is not as it was before");
}

}  // namespace
}  // namespace bitrift::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace bitrift::fuzz;
  spdlog::set_level(spdlog::level::off);
  FuzzedDataProvider input(data, size);  // takes numbers from the end
  if (input.ConsumeBool()) {
    const auto bytes = input.ConsumeIntegralInRange<std::size_t>(0, 2048);
    Bytes original(bytes);
    for (std::size_t i = 0; i < bytes; ++i) original[i] = static_cast<std::uint8_t>(7 * i);
    const auto made = journal_for(original, input);
    take_back_torn(original, made, input);
  } else {
    const auto bytes = input.ConsumeIntegralInRange<std::size_t>(0, 256);
    std::string text = input.ConsumeRemainingBytesAsString();
    const std::size_t file_bytes = std::min(bytes, text.size());
    const Bytes held(text.end() - static_cast<std::ptrdiff_t>(file_bytes), text.end());
    text.resize(text.size() - file_bytes);
    take_back_made_up(held, text);
  }
  journal().remove();
  return 0;
}
