// bitrift._core: the libraries as Python sees them. Structured values cross as JSON text, in the same form as
// in files; the package `bitrift` gives them types.
#include <optional>
#include <variant>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include "analyze/rates/interval.h"
#include "campaigns.h"
#include "ckpt/compare.h"
#include "ckpt/reader.h"
#include "core/error.h"
#include "core/log.h"
#include "inject/draw/fault_plan.h"
#include "inject/manifest/manifest.h"
#include "inject/manifest/manifest_text.h"
#include "inject/manifest/replay.h"
#include "inject/write/apply.h"
#include "inject/write/disturb.h"
#include "integrity/repair.h"
#include "integrity/seal_checkpoint.h"
#include "integrity/verification.h"
#include "integrity/verification_json.h"
#include "json_text.h"
#include "record/fault/compute_fault.h"
#include "record/json/schema.h"
#include "record/provenance.h"
#include "traces.h"

namespace py = pybind11;
using Path = std::filesystem::path;

namespace {

using bitrift::Error;
using bitrift::ErrorCode;
using bitrift::python::text_of;
using bitrift::record::Json;

// A partial model: what is left out keeps its default.
bitrift::record::FaultModel model_of(const std::string& text) {
  const auto document = bitrift::record::parse_text(text, "fault model");
  Json schema = bitrift::record::shipped_schema("fault-manifest").at("properties").at("model");
  schema.erase("required");
  bitrift::record::check_schema(document, schema);
  return bitrift::record::fault_model_from_json(document.value);
}

std::string list_tensors(const Path& path) {
  const bitrift::ckpt::Reader reader(path);
  Json list = Json::array();
  for (const auto& tensor : reader.tensors()) {
    list.push_back({{"path", tensor.path},
                    {"role", tensor.role},
                    {"layer", tensor.layer},
                    {"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"storage", tensor.storage},
                    {"stored_bytes", tensor.stored_bytes},
                    {"offset", tensor.offset ? Json(reader.files().within(*tensor.offset)) : Json()},
                    {"refusal", tensor.refusal},
                    {"alias_of", tensor.alias_of},
                    {"file", tensor.file}});
  }
  return text_of(list);
}

// The reader is gone before anything is written: it holds a lock on the file.
bitrift::inject::Manifest planned(const Path& path, const std::string& model,
                                  const std::vector<std::string>& command) {
  const bitrift::ckpt::Reader reader(path);
  bitrift::inject::Manifest manifest;
  manifest.model = model_of(model);
  bitrift::inject::set_default_count(reader, manifest.model);
  bitrift::inject::set_base(manifest, path);
  manifest.plan = bitrift::inject::plan(reader, manifest.model);
  manifest.provenance = bitrift::record::provenance(command);
  return manifest;
}

std::string apply(const Path& path, const std::optional<Path>& output,
                  const bitrift::inject::Manifest& manifest) {
  if (output) {
    bitrift::inject::inject_copy(path, *output, manifest.plan.list);
  } else {
    bitrift::inject::inject_in_place(path, manifest.plan.list);
  }
  return text_of(bitrift::inject::to_json(manifest));
}

std::string inject(const Path& path, const std::optional<Path>& output, const std::string& model,
                   const std::vector<std::string>& command) {
  if (!output) bitrift::inject::take_back_unfinished(path);
  return apply(path, output, planned(path, model, command));
}

/// A manifest, in a file or as text.
using ManifestSource = std::variant<Path, std::string>;

std::string replay(const Path& path, const std::optional<Path>& output, const ManifestSource& source,
                   bool force, bool by_name) {
  using bitrift::inject::SameBase;
  if (force && by_name) bitrift::fail(ErrorCode::bad_input, "by_name and force exclude each other");
  const Path* const file = std::get_if<Path>(&source);
  auto manifest = file != nullptr
                      ? bitrift::inject::read_manifest(*file)
                      : bitrift::inject::manifest_of_text(std::get<std::string>(source), "manifest");
  if (!output) bitrift::inject::take_back_unfinished(path);
  {
    const bitrift::ckpt::Reader reader(path);
    bitrift::inject::check_replay(reader, manifest,
                                  by_name ? SameBase::tensors
                                  : force ? SameBase::values
                                          : SameBase::bytes);
  }
  return apply(path, output, manifest);
}

std::string diff(const Path& first, const Path& second) {
  Json list = Json::array();
  for (const auto& difference : bitrift::ckpt::compare(first, second)) {
    list.push_back({{"path", difference.path},
                    {"kind", difference.kind},
                    {"role", difference.role},
                    {"dtype", difference.dtype},
                    {"detail", difference.detail},
                    {"elements", difference.elements},
                    {"bits", difference.bits},
                    {"first_element", difference.first_element},
                    {"first_old", difference.first_old},
                    {"first_new", difference.first_new}});
  }
  return text_of(list);
}

std::pair<double, double> ends(const bitrift::analyze::Interval& interval) {
  return {interval.low, interval.high};
}

// The package knows the exception for each code (bitrift/errors.py).
void translate_errors() {
  // pybind11 asks for this signature. NOLINTNEXTLINE(performance-unnecessary-value-param)
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const Error& error) {
      const py::object value =
          py::module_::import("bitrift.errors")
              .attr("error_of")(bitrift::error_code_name(error.code()), error.what(), error.key());
      PyErr_SetObject(py::type::handle_of(value).ptr(), value.ptr());
    }
  });
}

std::string repair(const Path& path, const Path& output, const std::vector<std::string>& command) {
  const auto plan = bitrift::integrity::plan_repair(path, bitrift::integrity::verify(path));
  if (plan.sound) bitrift::fail(ErrorCode::bad_input, "{}: every sum fits", path.string());
  if (!plan.complete()) bitrift::fail(ErrorCode::conflict, "{}: {}", path.string(), plan.failure());
  std::string text;
  (void)bitrift::integrity::write_repaired(path, plan, output, [&](bitrift::inject::Manifest& manifest) {
    manifest.provenance = bitrift::record::provenance(command);
    text = text_of(to_json(manifest));
  });
  return text;
}

std::string compute_fault(const std::string& text) {
  return to_json(bitrift::record::compute_fault_from_text(text)).dump();
}

}  // namespace

PYBIND11_MODULE(_core, module) {
  bitrift::start_logging("bitrift");
  module.doc() = "The C++ libraries of bitrift; use the package `bitrift`.";
  module.attr("version") = bitrift::record::bitrift_version();
  translate_errors();
  module.def("compute_fault", &compute_fault, py::arg("text"));
  module.def("list_tensors", &list_tensors, py::arg("path"));
  using Strings = std::vector<std::string>;
  module.def(
      "plan",
      [](const Path& path, const std::string& model, const Strings& command) {
        return text_of(to_json(planned(path, model, command)));
      },
      py::arg("path"), py::arg("model"), py::arg("command"));
  module.def("inject", &inject, py::arg("path"), py::arg("output"), py::arg("model"), py::arg("command"));
  module.def(
      "replay",
      [](const Path& path, const std::optional<Path>& output, const Path& manifest, bool force,
         bool by_name) { return replay(path, output, manifest, force, by_name); },
      py::arg("path"), py::arg("output"), py::arg("manifest"), py::arg("force"), py::arg("by_name"));
  module.def(
      "replay_text",
      [](const Path& path, const std::optional<Path>& output, const std::string& manifest, bool force,
         bool by_name) { return replay(path, output, manifest, force, by_name); },
      py::arg("path"), py::arg("output"), py::arg("manifest"), py::arg("force"), py::arg("by_name"));
  module.def("undo", &bitrift::inject::undo, py::arg("path"));
  module.def(
      "verify", [](const Path& path) { return text_of(to_json(bitrift::integrity::verify(path))); },
      py::arg("path"));
  module.def(
      "disturb",
      [](const Path& path, const Path& copy, const Strings& tensors) {
        bitrift::inject::disturb(bitrift::ckpt::Reader(path), copy, tensors);
      },
      py::arg("path"), py::arg("copy"), py::arg("tensors"));
  module.def(
      "seal",
      [](const Path& path, double percent, bool replace, bool unchecked) {
        return text_of(to_json(bitrift::integrity::seal(path, {percent, replace}, unchecked)));
      },
      py::arg("path"), py::arg("percent"), py::arg("replace"), py::arg("unchecked"));
  module.def("repair", &repair, py::arg("path"), py::arg("output"), py::arg("command"));
  module.def("diff", &diff, py::arg("first"), py::arg("second"));
  bitrift::python::add_campaigns(module);
  bitrift::python::add_traces(module);
  module.def(
      "wilson",
      [](double successes, double n, double confidence) {
        return ends(bitrift::analyze::wilson(successes, n, confidence));
      },
      py::arg("successes"), py::arg("n"), py::arg("confidence"));
  module.def(
      "clopper_pearson",
      [](std::uint64_t successes, std::uint64_t n, double confidence) {
        return ends(bitrift::analyze::clopper_pearson(successes, n, confidence));
      },
      py::arg("successes"), py::arg("n"), py::arg("confidence"));
  module.def(
      "anytime",
      [](std::uint64_t successes, std::uint64_t n, double confidence,
         const std::optional<std::uint64_t>& population) {
        return ends(population ? bitrift::analyze::anytime_finite(successes, n, *population, confidence)
                               : bitrift::analyze::anytime(successes, n, confidence));
      },
      py::arg("successes"), py::arg("n"), py::arg("confidence"), py::arg("population"));
}
