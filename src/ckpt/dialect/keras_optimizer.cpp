#include "ckpt/dialect/keras_optimizer.h"

#include <optional>

#include "ckpt/dialect/catalog.h"

namespace bitrift::ckpt {
namespace {

/// Slots that are made in one pass over the model's variables, all slots of a variable together.
struct Pass {
  std::vector<std::string_view> roles;
  bool optional = false;
};

struct OptimizerClass {
  std::vector<Pass> passes;  ///< after the slots of every optimizer
  bool scalar_last = false;  ///< Nadam's product of its decays
};

const OptimizerClass* class_of(std::string_view name) {
  using Roles = std::vector<std::string_view>;
  const Pass one{Roles{unknown_role}}, two{Roles{unknown_role, unknown_role}},
      perhaps_one{Roles{unknown_role}, true};
  const Pass moments{Roles{"exp_avg", "exp_avg_sq"}}, squares{Roles{"exp_avg_sq"}};
  const Pass perhaps_momentum{Roles{"momentum"}, true};
  const OptimizerClass adam{{moments, perhaps_one}};  // amsgrad: the maxima
  const OptimizerClass rmsprop{{squares, perhaps_momentum, perhaps_one}};
  static const std::map<std::string_view, OptimizerClass> classes = {
      {"sgd", {{perhaps_momentum}}},
      {"adam", adam},
      {"adamw", adam},
      {"adam_w", adam},
      {"lamb", {{moments}}},
      {"nadam", {{moments}, true}},
      {"adamax", {{Pass{Roles{"exp_avg", unknown_role}}}}},
      {"rmsprop", rmsprop},
      {"rm_sprop", rmsprop},
      {"adagrad", {{one}}},
      {"lion", {{one}}},
      {"adadelta", {{two}}},
      {"ftrl", {{two}}},
      {"schedule_free_adam_w", {{two}}}};
  const auto at = classes.find(name);
  return at == classes.end() ? nullptr : &at->second;
}

/// One way in which the variables may have been made: with or without a learning rate (a schedule has none),
/// and a choice of passes.
class Hypothesis {
 public:
  Hypothesis(bool rate, bool scalar_last) : rate_(rate), scalar_last_(scalar_last) {}

  void add(const Pass& pass) {
    passes_.push_back(&pass);
    slots_ += pass.roles.size();
  }

  /// The roles; nullopt if variables of these shapes cannot come from it.
  [[nodiscard]] std::optional<std::vector<std::string_view>> roles(const std::vector<Shape>& variables,
                                                                   const ShapeCounts& model) const {
    const std::size_t first = rate_ ? 2 : 1, last = scalar_last_ ? 1 : 0;
    if (variables.size() < first + last || !variables[0].empty() || (rate_ && !variables[1].empty()))
      return std::nullopt;
    if (scalar_last_ && !variables.back().empty()) return std::nullopt;
    const std::size_t count = variables.size() - first - last;
    if (slots_ == 0 ? count != 0 : count % slots_ != 0) return std::nullopt;
    std::vector<std::string_view> roles(variables.size(), unknown_role);
    roles[0] = "step";
    if (rate_) roles[1] = "progress";
    const std::size_t trained = slots_ == 0 ? 0 : count / slots_;
    std::size_t at = first;
    for (const Pass* const pass : passes_) {
      const std::size_t width = pass->roles.size();
      for (std::size_t i = 0; i < trained * width; ++i, ++at) {
        // The first slot of each variable has its shape.
        if (variables[at] != variables[first + i / width * passes_.front()->roles.size()])
          return std::nullopt;
        roles[at] = pass->roles[i % width];
      }
    }
    if (!model.empty() && !are_in(model, variables, first, trained)) return std::nullopt;
    return roles;
  }

 private:
  /// Whether the model has this many variables of these shapes.
  [[nodiscard]] bool are_in(const ShapeCounts& model, const std::vector<Shape>& variables, std::size_t first,
                            std::size_t trained) const {
    ShapeCounts wanted;
    for (std::size_t i = 0; i < trained; ++i) {
      const Shape& shape = variables[first + i * passes_.front()->roles.size()];
      const auto found = model.find(shape);
      if (found == model.end() || ++wanted[shape] > found->second) return false;
    }
    return true;
  }

  bool rate_, scalar_last_;
  std::vector<const Pass*> passes_;
  std::size_t slots_ = 0;  // of each variable
};

/// For an optimizer whose slots are not known: counter and learning rate, which cannot be confused with a
/// scalar of the model.
std::vector<std::string_view> roles_at_the_head(std::string_view name, const std::vector<Shape>& variables,
                                                const ShapeCounts& model) {
  std::vector<std::string_view> roles(variables.size(), unknown_role);
  if (roles.empty() || !variables[0].empty()) return roles;
  roles[0] = "step";
  if (roles.size() < 2 || !variables[1].empty() || model.contains(Shape{})) return roles;
  // A schedule has no learning rate, and Adafactor makes scalars for the slots of vectors.
  const bool own_rate = name == "loss_scale_optimizer" || name == "multi_optimizer";
  if (own_rate || variables.size() == 2 || !variables[2].empty()) roles[1] = "progress";
  return roles;
}

}  // namespace

std::vector<std::string_view> keras_optimizer_roles(std::string_view name,
                                                    const std::vector<Shape>& variables,
                                                    const ShapeCounts& model) {
  const OptimizerClass* const known = class_of(name);
  if (known == nullptr) return roles_at_the_head(name, variables, model);
  // Averages of the variables (use_ema), then sums of gradients (gradient_accumulation_steps).
  static const Pass any_optimizer{std::vector<std::string_view>{unknown_role}, true};
  std::vector<const Pass*> passes = {&any_optimizer, &any_optimizer};
  for (const Pass& pass : known->passes) passes.push_back(&pass);
  std::optional<std::vector<std::string_view>> agreed;
  for (std::size_t choice = 0; choice < std::size_t{2} << passes.size(); ++choice) {
    Hypothesis hypothesis((choice & 1U) != 0, known->scalar_last);
    bool allowed = true;
    for (std::size_t i = 0; i < passes.size(); ++i) {
      const bool made = (choice >> (i + 1) & 1U) != 0;
      allowed = allowed && (made || passes[i]->optional);
      if (made) hypothesis.add(*passes[i]);
    }
    if (!allowed) continue;
    const auto roles = hypothesis.roles(variables, model);
    if (!roles) continue;
    if (!agreed) agreed = roles;
    for (std::size_t i = 0; i < roles->size(); ++i) {
      if ((*agreed)[i] != (*roles)[i]) (*agreed)[i] = unknown_role;
    }
  }
  return agreed ? *agreed : roles_at_the_head(name, variables, model);
}

}  // namespace bitrift::ckpt
