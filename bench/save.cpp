// save CHECKPOINT: holds the tensors of a checkpoint in memory, and for each line "SINK FILE" on standard
// input (SINK: plain, direct, shared) saves them as FILE and prints the seconds. For checkpoint.py.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ckpt/reader.h"
#include "core/error.h"
#include "sink/direct_sink.h"
#include "sink/hdf5_image.h"
#include "sink/image_writer.h"
#include "sink/plain_sink.h"
#include "sink/shared_sink.h"

namespace {

using namespace bitrift;
using Clock = std::chrono::steady_clock;

constexpr std::size_t processes = 2;  // of a shared save

struct Tensors {
  std::vector<ckpt::TensorMeta> metas;
  std::vector<std::vector<std::uint8_t>> bytes;
  std::map<std::string, std::string> attributes;
};

Tensors load(const char* path) {
  const ckpt::Reader reader(path);
  Tensors all;
  all.attributes = reader.attributes();
  for (const ckpt::TensorInfo& tensor : reader.tensors()) {
    if (tensor.path.starts_with("checksum/")) continue;
    all.metas.push_back({tensor.path, tensor.format.value(), tensor.shape});
    reader.read(tensor, all.bytes.emplace_back(all.metas.back().bytes()).data(), all.metas.back().bytes());
  }
  return all;
}

/// Whole tensors to each process, about as many bytes to each.
void give(ckpt::ImageWriter& writer, const Tensors& all, std::size_t part, std::size_t parts) {
  std::vector<std::uint64_t> load(parts);
  for (std::size_t i = 0; i < all.metas.size(); ++i) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += all.bytes[i].size();
    if (least - load.begin() == static_cast<std::ptrdiff_t>(part))
      writer.tensor(all.metas[i].path, all.bytes[i].data(), all.bytes[i].size());
  }
}

void save_alone(ckpt::Sink& sink, const Tensors& all) {
  const ckpt::Image image = ckpt::hdf5_image(all.metas, all.attributes);
  ckpt::ImageWriter writer(image, sink);
  writer.fixed();
  give(writer, all, 0, 1);
  writer.commit();
}

/// The other process of a shared save: waits for the name of the temporary file.
[[noreturn]] void save_as_other(const std::string& target, const Tensors& all, int first) {
  char name[256];
  const ssize_t length = ::recv(first, name, sizeof name, 0);
  if (length > 0) {
    const ckpt::Image image = ckpt::hdf5_image(all.metas, all.attributes);
    ckpt::SharedSink sink(target, std::string(name, static_cast<std::size_t>(length)));
    ckpt::ImageWriter writer(image, sink);
    give(writer, all, 1, processes);
    writer.checksums();
    sink.commit();
    (void)::send(first, "d", 1, MSG_NOSIGNAL);
  }
  ::_exit(0);
}

void save_as_first(const std::string& target, const Tensors& all, int other) {
  const ckpt::Image image = ckpt::hdf5_image(all.metas, all.attributes);
  ckpt::SharedSink sink(target);
  ckpt::ImageWriter writer(image, sink);
  const std::string name = sink.temporary();
  (void)::send(other, name.data(), name.size(), MSG_NOSIGNAL);
  writer.fixed();
  give(writer, all, 0, processes);
  writer.checksums();
  sink.sync();
  char done = 0;
  if (::recv(other, &done, 1, 0) != 1) fail(ErrorCode::io, "the other process failed");
  sink.commit();
}

double seconds_of(const std::string& kind, const std::string& target, const Tensors& all) {
  int ends[2] = {-1, -1};
  pid_t child = -1;
  if (kind == "shared") {
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) fail(ErrorCode::io, "no sockets");
    child = ::fork();
    if (child == 0) {
      ::close(ends[0]);
      save_as_other(target, all, ends[1]);
    }
    ::close(ends[1]);
  }
  const Clock::time_point start = Clock::now();
  if (kind == "plain") {
    ckpt::PlainSink sink(target);
    save_alone(sink, all);
  } else if (kind == "direct") {
    ckpt::DirectSink sink(target);
    save_alone(sink, all);
  } else if (kind == "shared") {
    save_as_first(target, all, ends[0]);
  } else {
    fail(ErrorCode::bad_input, "{}: no such sink", kind);
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (child > 0) {
    ::close(ends[0]);
    ::waitpid(child, nullptr, 0);
  }
  return seconds;
}

}  // namespace

int main(int count, char** words) {
  if (count != 2) return 2;
  try {
    const Tensors all = load(words[1]);
    for (std::string kind, target; std::cin >> kind >> target;)
      std::cout << seconds_of(kind, target, all) << std::endl;
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
    return error.exit_code();
  }
}
