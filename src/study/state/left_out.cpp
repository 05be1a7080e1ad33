#include "study/state/left_out.h"

#include <cstdint>
#include <system_error>

#include <fcntl.h>

#include "core/error.h"
#include "core/file.h"

namespace bitrift::study {
namespace {

std::string piece_of(const ckpt::TensorInfo& tensor) {
  const std::string& path = tensor.path;
  if (path == "progress/epoch_correct" || path == "progress/epoch_loss_sum") return "progress/cursor";
  if (path.starts_with("rng/") || path.starts_with("progress/")) return path;
  if (path.starts_with("optimizer/")) return path.substr(0, path.find('/', std::string("optimizer/").size()));
  if (!path.starts_with("model/")) return "";
  return tensor.role == "running_stat" ? "running_stat" : all_parameters;
}

std::vector<char> value_of(const ckpt::TensorInfo& tensor, const ckpt::Reader& reader) {
  std::vector<char> value(tensor.elements() * tensor.element_bytes);
  reader.read(tensor, value.data(), value.size());
  return value;
}

// The value of the tensor where nothing was saved. saved: its real value.
std::vector<char> value_without(const ckpt::TensorInfo& tensor, const std::vector<char>& saved,
                                const ckpt::Reader& fresh) {
  if (tensor.path.starts_with("rng/")) {
    std::vector<char> other = saved;
    if (!other.empty()) other.front() = static_cast<char>(other.front() ^ 1);
    return other;
  }
  const ckpt::TensorInfo* const before = fresh.find(tensor.path);
  const bool there = before != nullptr && before->elements() * before->element_bytes == saved.size();
  return there ? value_of(*before, fresh) : std::vector<char>(saved.size());
}

}  // namespace

std::map<std::string, std::vector<std::string>> state_pieces(const ckpt::Reader& reader) {
  std::map<std::string, std::vector<std::string>> pieces;
  for (const ckpt::TensorInfo& tensor : reader.tensors()) {
    if (const std::string piece = piece_of(tensor); !piece.empty()) pieces[piece].push_back(tensor.path);
  }
  return pieces;
}

std::uint64_t leave_out(const std::vector<std::string>& tensors, const std::filesystem::path& base,
                        const std::filesystem::path& fresh, const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::copy_file(base, path, std::filesystem::copy_options::overwrite_existing, error);
  if (error)
    fail(ErrorCode::io, "{}: cannot be copied to {}: {}", base.string(), path.string(), error.message());
  const ckpt::Reader from(base);
  const ckpt::Reader initial(fresh);
  const FileDescriptor file = open_file(path, O_RDWR);
  std::uint64_t changed = 0;
  for (const std::string& name : tensors) {
    const ckpt::TensorInfo* const tensor = from.find(name);
    if (tensor == nullptr || !tensor->offset)
      fail(ErrorCode::bad_file, "{}: {} is not stored contiguously", base.string(), name);
    const std::vector<char> saved = value_of(*tensor, from);
    const std::vector<char> value = value_without(*tensor, saved, initial);
    changed += value == saved ? 0 : 1;
    write_at(file, value.data(), value.size(), *tensor->offset, path);
  }
  return changed;
}

}  // namespace bitrift::study
