#include "archive/pickle/old_torch_file.h"

#include <algorithm>
#include <set>

#include "archive/pickle/pickle.h"
#include "core/byte_cursor.h"
#include "core/error.h"

namespace bitrift::archive {
namespace {

constexpr std::uint64_t most_pickles = std::uint64_t{64} << 20U;
constexpr std::int64_t version = 1001;
constexpr std::uint64_t bytes_of_length = 8;

/// The pickles at the beginning of a file, one after the other.
class PickleSequence {
 public:
  explicit PickleSequence(const BoundedFile& file)
      : name_(file.name()), bytes_(file.read(0, std::min(file.size(), most_pickles), "the pickles")) {}

  Pickle next(const char* what) {
    const std::span<const std::uint8_t> rest = std::span(bytes_).subspan(at_);
    Pickle pickle(rest, name_ + ": " + what);
    at_ += pickle.bytes();
    return pickle;
  }
  [[nodiscard]] std::uint64_t at() const noexcept { return at_; }

 private:
  const std::string& name_;
  std::vector<std::uint8_t> bytes_;
  std::size_t at_ = 0;
};

std::vector<std::string> keys_in(const Pickle& pickle, const std::string& name) {
  const auto refuse = [&] {
    fail(ErrorCode::bad_file, "{}: the keys of its storages are not a list of different names", name);
  };
  const PickleValue& list = pickle[pickle.root()];
  if (list.kind != PickleKind::list) refuse();  // not every item of an object is a value
  std::vector<std::string> keys;
  std::set<std::string_view> met;
  for (const PickleId id : list.items) {
    const PickleValue& key = pickle[id];
    if (key.kind != PickleKind::text || !met.insert(key.text).second) refuse();
    keys.emplace_back(key.text);
  }
  return keys;
}

}  // namespace

OldTorchFile read_old_torch_file(const BoundedFile& file) {
  PickleSequence pickles(file);
  pickles.next("magic number");
  const Pickle said = pickles.next("version");
  if (said[said.root()].kind != PickleKind::integer || said[said.root()].integer != version)
    fail(ErrorCode::unsupported, "{}: was not written by version {} of torch.save", file.name(), version);
  pickles.next("facts of the machine");
  const Pickle object = pickles.next("the pickle of the object");
  OldTorchFile found{contents_of_pickle(object, file.name()), {}, 0};
  const auto described = storages_of_pickle(object, file.name());
  const Pickle keys = pickles.next("keys of storages");
  std::uint64_t at = found.pickles = pickles.at();
  for (std::string& key : keys_in(keys, file.name())) {
    const auto storage = described.find(key);
    if (storage == described.end())
      fail(ErrorCode::bad_file, "{}: holds a storage {} that no object uses", file.name(), printable(key));
    const auto length = file.read(at, bytes_of_length, "the length of a storage");
    const std::uint64_t elements = ByteCursor(length, file.name(), "the length of a storage").u64();
    if (elements != storage->second.bytes / storage->second.element_bytes) {
      fail(ErrorCode::bad_file, "{}: storage {} has {} elements, but {} are described", file.name(),
           printable(key), elements, storage->second.bytes / storage->second.element_bytes);
    }
    file.check(at + bytes_of_length, storage->second.bytes, "a storage");
    found.storages.push_back({std::move(key), at + bytes_of_length, storage->second.bytes});
    at += bytes_of_length + storage->second.bytes;
  }
  return found;
}

}  // namespace bitrift::archive
