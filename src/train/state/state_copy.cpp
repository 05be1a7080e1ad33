#include "train/state/state_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/error.h"
#include "train/state/checkpoint_names.h"

namespace bitrift::train {
namespace {

void put(std::string& text, std::string_view bytes) {
  const std::uint64_t size = bytes.size();
  text.append(reinterpret_cast<const char*>(&size), sizeof size);
  text.append(bytes);
}

std::string_view take(std::string_view& text) {
  std::uint64_t size = 0;
  if (text.size() < sizeof size) fail(ErrorCode::internal, "a copy of a state ends within a length");
  std::memcpy(&size, text.data(), sizeof size);
  text.remove_prefix(sizeof size);
  if (text.size() < size) fail(ErrorCode::internal, "a copy of a state ends within a tensor");
  const std::string_view bytes = text.substr(0, size);
  text.remove_prefix(size);
  return bytes;
}

}  // namespace

StateCopy copy_state(Session& session, bool shared) {
  StateCopy copy;
  for (const StateTensor& tensor : session.tensors(shared)) {
    tensor.read([&](const void* bytes) {
      copy.emplace(tensor.meta.path, std::string(static_cast<const char*>(bytes), tensor.meta.bytes()));
    });
  }
  return copy;
}

void restore_session(Session& session, const StateCopy& kept) {
  session.drop_gradients();
  const bool with_optimizer = std::any_of(
      kept.begin(), kept.end(), [](const auto& one) { return one.first.starts_with(optimizer_prefix); });
  if (with_optimizer) {
    session.optimizer().allocate();
  } else {
    session.optimizer().clear();
  }
  for (StateTensor& tensor : session.tensors()) {
    const auto found = kept.find(tensor.meta.path);
    if (found == kept.end() || found->second.size() != tensor.meta.bytes())
      fail(ErrorCode::internal, "a copy of a state lacks tensor {}", tensor.meta.path);
    tensor.write([&](void* into) { std::memcpy(into, found->second.data(), found->second.size()); });
  }
}

void pack_state(Session& session, std::string& into) {
  std::vector<StateTensor> tensors = session.tensors();
  std::size_t size = 0;
  for (const StateTensor& tensor : tensors)
    size += 2 * sizeof(std::uint64_t) + tensor.meta.path.size() + tensor.meta.bytes();
  into.resize(size);
  char* at = into.data();
  const auto put_next = [&](const void* bytes, std::uint64_t count) {
    std::memcpy(at, &count, sizeof count);
    std::memcpy(at + sizeof count, bytes, count);
    at += sizeof count + count;
  };
  for (StateTensor& tensor : tensors) {
    put_next(tensor.meta.path.data(), tensor.meta.path.size());
    tensor.read([&](const void* bytes) { put_next(bytes, tensor.meta.bytes()); });
  }
}

std::string packed(const StateCopy& copy) {
  std::string text;
  for (const auto& [path, bytes] : copy) {
    put(text, path);
    put(text, bytes);
  }
  return text;
}

StateCopy unpacked(std::string_view text) {
  StateCopy copy;
  while (!text.empty()) {
    const std::string path(take(text));
    copy.emplace(path, std::string(take(text)));
  }
  return copy;
}

}  // namespace bitrift::train
