#include "core/digest.h"

#include <cerrno>
#include <new>
#include <vector>

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/error.h"
#include "core/file.h"

namespace bitrift {

struct Digest::State {
  XXH3_state_t* xxh = XXH3_createState();
  State() {
    if (xxh == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(xxh);
  }
  ~State() { XXH3_freeState(xxh); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

namespace {
std::string to_hex(XXH128_hash_t hash) { return fmt::format("{:016x}{:016x}", hash.high64, hash.low64); }
}  // namespace

Digest::Digest() : state_(std::make_unique<State>()) {}
Digest::~Digest() = default;
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;

Digest& Digest::add(const void* data, std::size_t size) {
  XXH3_128bits_update(state_->xxh, data, size);
  return *this;
}

std::string Digest::hex() const { return to_hex(XXH3_128bits_digest(state_->xxh)); }

std::string digest_bytes(const void* data, std::size_t size) { return to_hex(XXH3_128bits(data, size)); }

std::uint64_t block_digest(const void* data, std::size_t size, std::uint64_t number) noexcept {
  return XXH3_64bits_withSeed(data, size, number);
}

std::string digest_file(const std::filesystem::path& path) {
  const FileDescriptor file = open_file(path, O_RDONLY);
  Digest digest;
  std::vector<char> buffer(std::size_t{4} << 20);
  while (true) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(ErrorCode::io, "cannot read {}: {}", path.string(), errno_text(errno));
    if (got == 0) return digest.hex();
    digest.add(buffer.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace bitrift
