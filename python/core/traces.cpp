#include "traces.h"

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include "study/kill/traced_save.h"

namespace bitrift::python {
namespace {

namespace py = pybind11;

py::tuple to_python(const study::TracedSave& save) {
  py::list calls;
  for (const study::AlteringCall& call : save.calls)
    calls.append(py::make_tuple(call.name, call.bytes, call.aside));
  return py::make_tuple(calls, save.status.code, save.status.signal, save.waited);
}

py::tuple trace_save(int pid, const std::filesystem::path& folder, std::optional<std::size_t> call,
                     bool half) {
  study::TracedSave save;
  {
    const py::gil_scoped_release others;
    std::optional<study::KillPoint> point;
    if (call) point = study::KillPoint{*call, half};
    save = study::trace_save(pid, folder, point);
  }
  return to_python(save);
}

py::tuple trace_race(int pid, const std::filesystem::path& folder, std::size_t call, double seconds) {
  study::TracedSave save;
  {
    const py::gil_scoped_release others;
    const std::chrono::duration<double> most(seconds);
    save = study::trace_race(pid, folder, call, std::chrono::duration_cast<std::chrono::milliseconds>(most));
  }
  return to_python(save);
}

}  // namespace

void add_traces(py::module_& module) {
  module.def("trace_save", &trace_save, py::arg("pid"), py::arg("folder"), py::arg("call"), py::arg("half"));
  module.def("trace_race", &trace_race, py::arg("pid"), py::arg("folder"), py::arg("call"),
             py::arg("seconds"));
}

}  // namespace bitrift::python
