// Flips a chosen bit in a copy of a checkpoint, lists what differs, and prints an interval.
#include <cstdio>

#include <bitrift/analyze/rates/interval.h>
#include <bitrift/ckpt/compare.h>
#include <bitrift/ckpt/reader.h>
#include <bitrift/core/error.h>
#include <bitrift/inject/draw/fault_plan.h>
#include <bitrift/inject/write/apply.h>

#include "core/error.h"

int main(int count, char** arguments) {
  if (count != 4) return 2;
  try {
    bitrift::record::FaultModel model;
    model.tensors = {arguments[3]};
    model.element = 3;
    model.bits = "30";
    model.count = 1;
    bitrift::inject::Plan plan;
    {
      const bitrift::ckpt::Reader reader(arguments[1]);
      plan = bitrift::inject::plan(reader, model);
    }
    bitrift::inject::inject_copy(arguments[1], arguments[2], plan.list);
    for (const auto& difference : bitrift::ckpt::compare(arguments[1], arguments[2])) {
      std::printf("%s %llu %llu\n", difference.path.c_str(),
                  static_cast<unsigned long long>(difference.first_element),
                  static_cast<unsigned long long>(difference.first_old ^ difference.first_new));
    }
    std::printf("%.4f\n", bitrift::analyze::wilson(1, 10, 0.95).high);
  } catch (const bitrift::Error& error) {
    std::fprintf(stderr, "%s: %s\n", own_error, error.what());
    return error.exit_code();
  }
}
