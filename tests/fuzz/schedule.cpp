// Reads an allreduce schedule and proves it. One that is accepted is the same after it was written and read
// again, and one that is proved does what it should in a run with numbers.
#include "comm/mesh_schedule_json.h"
#include "comm/verify.h"
#include "fuzz/harness.h"
#include "unit/comm/interpreter.h"

namespace bitrift::fuzz {
namespace {

constexpr std::size_t most_numbers = 65'536;  // that a run holds

void read_and_prove(std::string_view text) {
  const comm::Schedule schedule = comm::schedule_from_text(text, "plan.json");
  const std::string written = comm::schedule_text(schedule);
  must(
      [&] {
        expect(comm::schedule_from_text(written, "plan.json") == schedule, "another schedule is read back");
      },
      "a schedule of ours is refused");
  const comm::Verdict verdict = comm::verify(schedule);
  const auto numbers = static_cast<std::size_t>(schedule.topology().chips()) * schedule.chunks();
  if (verdict.counter_example) {
    expect(!verdict.counter_example->text.empty(), "a counter-example without a text");
    return;
  }
  if (numbers > most_numbers) return;
  for (const std::uint64_t seed : {1U, 2U}) {
    const std::string wrong = tests::run_schedule(schedule, seed);
    expect(wrong.empty(), "a schedule is proved, and in a run: " + wrong);
  }
}

}  // namespace
}  // namespace bitrift::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace bitrift::fuzz;
  answered([&] { read_and_prove({reinterpret_cast<const char*>(data), size}); });
  return 0;
}
