#include "mesh/mesh_options.h"

#include <fmt/format.h>

#include "comm/model/quantity.h"
#include "output.h"

namespace bitrift::cli {

void add_bytes_option(CLI::App& command, WorkText& work) {
  command
      .add_option("--bytes", work.bytes,
                  "size of each chip's buffer: a number and nothing, K, M, G or T for powers of 1000 "
                  "(default: 102M, the gradients of ResNet-50)")
      ->type_name("SIZE");
}

void add_bandwidth_option(CLI::App& command, WorkText& work) {
  command
      .add_option("--bandwidth", work.bandwidth,
                  "bytes per second in each direction of a link, written like a size (default: 83G)")
      ->type_name("RATE");
}

void add_cost_options(CLI::App& command, WorkText& work) {
  add_bandwidth_option(command, work);
  command
      .add_option("--latency", work.latency,
                  "from the end of a message on a link to its arrival: a number and ns, us, ms or s "
                  "(default: 1us)")
      ->type_name("TIME");
  command
      .add_option("--overhead", work.overhead,
                  "for which each message also occupies the link (default: 0.1us)")
      ->type_name("TIME");
}

comm::LinkCost cost_of(const WorkText& work) {
  return {.bandwidth = comm::bandwidth_from_text(work.bandwidth, "--bandwidth"),
          .latency = comm::seconds_from_text(work.latency, "--latency"),
          .overhead = comm::seconds_from_text(work.overhead, "--overhead")};
}

comm::Workload workload_of(const WorkText& work) {
  return {.bytes = comm::bytes_from_text(work.bytes, "--bytes"), .cost = cost_of(work)};
}

std::string mesh_line(const comm::Topology& mesh) {
  return fmt::format("mesh      {}x{}, wrap {}, {} alive\n", mesh.rows(), mesh.columns(),
                     name_of(mesh.wrap()), counted(mesh.live().size(), "chip"));
}

std::string cost_line(const comm::LinkCost& cost) {
  return fmt::format("assumed   links of {}/s in each direction, latency {}, overhead {} a message\n",
                     comm::bytes_text(cost.bandwidth), comm::seconds_text(cost.latency),
                     comm::seconds_text(cost.overhead));
}

}  // namespace bitrift::cli
