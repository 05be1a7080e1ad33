#include "ckpt/set/open_checkpoint.h"

#include <utility>

#include "ckpt/container/open_container.h"
#include "ckpt/set/set_container.h"

namespace bitrift::ckpt {

std::unique_ptr<Container> open_checkpoint(const std::filesystem::path& path) {
  if (auto set = find_file_set(path)) return std::make_unique<SetContainer>(std::move(*set));
  return open_container(path);
}

}  // namespace bitrift::ckpt
