#include "study/cost/cost_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "core/error.h"

namespace bitrift::study {
namespace {

constexpr std::size_t terms = 4;
using Row = std::array<double, terms>;

// The factors of fixed, rank, byte and spread.
Row factors(SaveRoute route, int cores, int ranks, double bytes) {
  const double r = ranks;
  const double f = route == SaveRoute::gather ? (r - 1) / r : 1.0 / std::min(r, static_cast<double>(cores));
  return {1, r - 1, bytes, bytes * f};
}

double product(const Row& a, const Row& b) {
  double sum = 0;
  for (std::size_t i = 0; i < terms; ++i) sum += a[i] * b[i];
  return sum;
}

// Least squares over the terms of `used`, while all other terms are 0, by Gauss's elimination with pivots;
// nullopt where the rows do not determine them. Columns are scaled, as bytes are large and seconds small.
std::optional<Row> solve(const std::vector<Row>& rows, const std::vector<std::size_t>& used,
                         const Row& scale) {
  const std::size_t n = used.size();
  std::vector<std::vector<double>> matrix(n, std::vector<double>(n + 1));
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < n; ++i) {
      const double left = row[used[i]] / scale[used[i]];
      for (std::size_t k = 0; k < n; ++k) matrix[i][k] += left * row[used[k]] / scale[used[k]];
      matrix[i][n] += left;  // the right side is 1: errors are relative
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    const auto pivot =
        std::max_element(matrix.begin() + static_cast<std::ptrdiff_t>(i), matrix.end(),
                         [&](const auto& a, const auto& b) { return std::abs(a[i]) < std::abs(b[i]); });
    if (std::abs((*pivot)[i]) < 1e-9) return std::nullopt;
    std::swap(matrix[i], *pivot);
    for (std::size_t k = 0; k < n; ++k) {
      if (k == i) continue;
      const double times = matrix[k][i] / matrix[i][i];
      for (std::size_t j = i; j <= n; ++j) matrix[k][j] -= times * matrix[i][j];
    }
  }
  Row solution{};
  for (std::size_t i = 0; i < n; ++i) solution[used[i]] = matrix[i][n] / matrix[i][i] / scale[used[i]];
  return solution;
}

void check(const std::vector<SaveSample>& samples) {
  std::set<int> ranks;
  std::set<double> sizes;
  for (const SaveSample& sample : samples) {
    ranks.insert(sample.ranks);
    sizes.insert(sample.bytes);
  }
  if (ranks.size() >= 2 && sizes.size() >= 2) return;
  fail(ErrorCode::bad_input,
       "a cost model needs saves of at least two sizes and two numbers of ranks; there are {} and {}",
       sizes.size(), ranks.size());
}

}  // namespace

double CostModel::seconds(int ranks, double bytes) const noexcept {
  return product({fixed, rank, byte, spread}, factors(route, cores, ranks, bytes));
}

// There are so few terms that every set of nonzero ones can be tried.
CostModel fit_cost(SaveRoute route, int cores, const std::vector<SaveSample>& samples) {
  check(samples);
  std::vector<Row> rows;
  Row scale{};
  for (const SaveSample& sample : samples) {
    Row row = factors(route, cores, sample.ranks, sample.bytes);
    for (std::size_t i = 0; i < terms; ++i) {
      row[i] /= sample.seconds;
      scale[i] = std::max(scale[i], row[i]);
    }
    rows.push_back(row);
  }
  Row best{};
  double least = std::numeric_limits<double>::infinity();
  for (unsigned set = 1; set < 1U << terms; ++set) {
    std::vector<std::size_t> used;
    for (std::size_t i = 0; i < terms; ++i) {
      if ((set >> i & 1U) != 0 && scale[i] > 0) used.push_back(i);
    }
    const auto found = solve(rows, used, scale);
    if (!found || *std::min_element(found->begin(), found->end()) < 0) continue;
    double error = 0;
    for (const Row& row : rows) error += std::pow(product(row, *found) - 1, 2);
    if (error < least) {
      least = error;
      best = *found;
    }
  }
  return {route, cores, best[0], best[1], best[2], best[3]};
}

double modelled_seconds(const CostModel& fitted, const Cluster& cluster, double local, int ranks,
                        double bytes) noexcept {
  const double r = ranks;
  const double overhead = fitted.fixed + fitted.rank * (r - 1);
  if (fitted.route == SaveRoute::gather) {
    const double others = r <= cluster.ranks_machine ? 0 : (r - cluster.ranks_machine) / r;
    return overhead + bytes * (local + 1 / std::min(cluster.write_machine, cluster.write_all) +
                               others / cluster.send_machine);
  }
  const double machines = std::ceil(r / cluster.ranks_machine);
  return overhead + bytes * (local / r + 1 / std::min(cluster.write_machine * machines, cluster.write_all));
}

}  // namespace bitrift::study
