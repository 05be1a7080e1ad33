// bitrift-hdf5: applies and undoes the filters of HDF5's library and its plugins for the other programs,
// which ask it through two channels. Nobody calls it by hand.
#include <cstdio>

#include <fcntl.h>

#include "core/process/confined.h"
#include "filters/filter_request.h"
#include "h5/library.h"
#include "h5/memory_chunk.h"

namespace {

using bitrift::h5::FilterRequest;
using bitrift::h5::FilterTask;
using Bytes = std::vector<std::uint8_t>;

Bytes work(std::span<const std::uint8_t> bytes) {
  const FilterRequest request = FilterRequest::unpacked(bytes);
  if (request.task == FilterTask::version) {
    const std::string text = bitrift::h5::library_version();
    return bitrift::h5::packed({{text.begin(), text.end()}, 0});
  }
  const bitrift::h5::Scope scope;
  bitrift::h5::MemoryChunk chunk(request.spec, request.where);
  if (request.task == FilterTask::encode) return bitrift::h5::packed(chunk.encode(request.chunk.bytes));
  return bitrift::h5::packed({chunk.decode(request.chunk.bytes, request.chunk.mask), 0});
}

}  // namespace

int main(int argc, char**) {
  if (argc > 1 || ::fcntl(3, F_GETFD) < 0 || ::fcntl(4, F_GETFD) < 0) {
    std::fputs(
        "bitrift-hdf5: error: this program is started by bitrift, where a file needs filters of HDF5's "
        "library\n",
        stderr);
    return 2;
  }
  bitrift::serve_confined(work);
}
