#include "comm/model/link_model.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

#include "core/error.h"

namespace bitrift::comm {
namespace {

template <typename T>
using Earliest = std::priority_queue<T, std::vector<T>, std::greater<>>;

// Directed links: 2 e from a to b and 2 e + 1 back, for edge e.
class DirectedLinks {
 public:
  explicit DirectedLinks(const Graph& mesh) : mesh_(mesh) {}
  // The directed link between two chips, or -1.
  [[nodiscard]] int between(int from, int to) const {
    if (from < 0 || from >= mesh_.vertices()) return -1;
    for (const Neighbour& next : mesh_.neighbours(from))
      if (next.vertex == to)
        return 2 * next.edge + (mesh_.edges()[static_cast<std::size_t>(next.edge)].a == to);
    return -1;
  }

 private:
  const Graph& mesh_;
};

// The run. Events are times at which a link may start a send: when a send becomes ready, and when the link
// becomes free.
class LinkRun {
 public:
  LinkRun(const Graph& mesh, const LinkCost& cost, const SendList& sends, LinkOrder order,
          std::span<const double> delays)
      : mesh_(mesh),
        cost_(cost),
        sends_(sends),
        order_(order),
        delays_(delays),
        links_(2 * mesh.edges().size()) {
    prepare();
  }

  LinkTimes result() {
    if (order_ == LinkOrder::priority) {
      by_priority();
    } else {
      by_arrival();
    }
    if (started_ < sends_.size()) fail_for_a_wait();
    LinkTimes out{.finish = finish_, .start = std::move(start_), .forward = {}, .backward = {}};
    for (std::size_t i = 0; i < links_.size(); ++i)
      (i % 2 == 0 ? out.forward : out.backward).push_back(links_[i].busy);
    return out;
  }

 private:
  struct Link {
    double free = 0, busy = 0;
    Earliest<SendId> waiting;  // ready sends, in the order of the list
  };

  static constexpr SendId kNone = std::numeric_limits<SendId>::max();

  void prepare() {
    const std::size_t count = sends_.size();
    const DirectedLinks links(mesh_);
    link_.resize(count);
    left_.resize(count);
    start_.resize(count);
    first_.assign(count + 1, 0);
    for (SendId send = 0; send < count; ++send) {
      const int link = links.between(sends_.from(send), sends_.to(send));
      if (link < 0)
        fail(ErrorCode::bad_input, "send {}: no link from chip {} to chip {}", send, sends_.from(send),
             sends_.to(send));
      if (!(sends_.bytes(send) >= 0) || std::isinf(sends_.bytes(send)))
        fail(ErrorCode::bad_input, "send {}: {} bytes", send, sends_.bytes(send));
      link_[send] = static_cast<std::uint32_t>(link);
      left_[send] = static_cast<std::uint32_t>(sends_.after(send).size());
      for (const SendId before : sends_.after(send)) {
        if (before >= count ||
            (sends_.to(before) != sends_.from(send) && sends_.from(before) != sends_.from(send)))
          fail(ErrorCode::bad_input, "send {} waits for send {}, which chip {} neither receives nor sends",
               send, before, sends_.from(send));
        ++first_[before + 1];
      }
    }
    for (std::size_t i = 1; i <= count; ++i) first_[i] += first_[i - 1];
    dependents_.resize(sends_.waits());
    std::vector<std::uint32_t> next(first_.begin(), first_.end() - 1);
    for (SendId send = 0; send < count; ++send)
      for (const SendId before : sends_.after(send)) dependents_[next[before]++] = send;
    if (order_ == LinkOrder::listed) queue_in_list_order();
    for (SendId send = 0; send < count; ++send)
      if (left_[send] == 0) ready_.emplace(0.0, send);
  }

  // A send also waits until the one before it on its link has left.
  void queue_in_list_order() {
    next_.assign(sends_.size(), kNone);
    std::vector<SendId> last(links_.size(), kNone);
    for (SendId send = 0; send < sends_.size(); ++send) {
      SendId& before = last[link_[send]];
      if (before != kNone) {
        next_[before] = send;
        ++left_[send];
      }
      before = send;
    }
  }

  // Sends are processed as they become ready, so each finds on its link only those that became ready before
  // it.
  void by_arrival() {
    while (!ready_.empty()) {
      const auto [time, send] = ready_.top();
      ready_.pop();
      start(send, std::max(time, links_[link_[send]].free));
    }
  }

  void by_priority() {
    while (!ready_.empty() || !freed_.empty()) {
      const double now = freed_.empty() || (!ready_.empty() && ready_.top().first <= freed_.top().first)
                             ? ready_.top().first
                             : freed_.top().first;
      touched_.clear();
      for (; !ready_.empty() && ready_.top().first <= now; ready_.pop()) {
        const SendId send = ready_.top().second;
        links_[link_[send]].waiting.push(send);
        touched_.push_back(link_[send]);
      }
      for (; !freed_.empty() && freed_.top().first <= now; freed_.pop())
        touched_.push_back(freed_.top().second);
      for (const std::uint32_t link : touched_) {
        if (links_[link].waiting.empty() || links_[link].free > now) continue;
        const SendId send = links_[link].waiting.top();
        links_[link].waiting.pop();
        start(send, now);
        freed_.emplace(links_[link].free, link);
      }
    }
  }

  void start(SendId send, double time) {
    Link& link = links_[link_[send]];
    const std::size_t edge = link_[send] / 2;
    const auto capacity = static_cast<double>(mesh_.edges()[edge].capacity);
    const double busy = cost_.overhead + sends_.bytes(send) / (cost_.bandwidth * capacity);
    start_[send] = time;
    link.free = time + busy;
    link.busy += busy;
    const double arrival = link.free + cost_.latency + (delays_.empty() ? 0 : delays_[edge]);
    finish_ = std::max(finish_, arrival);
    ++started_;
    for (std::uint32_t i = first_[send]; i < first_[send + 1]; ++i) {
      const SendId next = dependents_[i];
      const double done = sends_.from(next) == sends_.to(send) ? arrival : link.free;
      release(next, done);
    }
    if (order_ == LinkOrder::listed && next_[send] != kNone) release(next_[send], link.free);
  }

  // One of the waits of a send is over. start_ holds the time of the last one until the send starts.
  void release(SendId send, double time) {
    start_[send] = std::max(start_[send], time);
    if (--left_[send] == 0) ready_.emplace(start_[send], send);
  }

  [[noreturn]] void fail_for_a_wait() const {
    for (SendId send = 0; send < sends_.size(); ++send)
      if (left_[send] > 0)
        fail(ErrorCode::conflict, "send {} from chip {} to chip {} waits for ever: sends wait for each other",
             send, sends_.from(send), sends_.to(send));
    fail(ErrorCode::internal, "a send was ready and did not start");
  }

  const Graph& mesh_;
  const LinkCost& cost_;
  const SendList& sends_;
  LinkOrder order_;
  std::span<const double> delays_;  // delays of edges; empty: none
  std::vector<Link> links_;
  std::vector<std::uint32_t> link_, left_;  // of each send: its directed link, and its remaining waits
  std::vector<double> start_;
  std::vector<std::uint32_t> first_;  // the first entry of a send in dependents_
  std::vector<SendId> dependents_;
  std::vector<SendId> next_;  // of each send: the next one on its link; only for LinkOrder::listed
  Earliest<std::pair<double, SendId>> ready_;
  Earliest<std::pair<double, std::uint32_t>> freed_;
  std::vector<std::uint32_t> touched_;
  double finish_ = 0;
  std::size_t started_ = 0;
};

}  // namespace

double LinkTimes::busiest() const {
  double most = 0;
  for (const double busy : forward) most = std::max(most, busy);
  for (const double busy : backward) most = std::max(most, busy);
  return most;
}

LinkTimes simulate(const Graph& mesh, const LinkCost& cost, const SendList& sends, LinkOrder order,
                   std::span<const double> delays) {
  const bool fine = cost.bandwidth > 0 && cost.latency >= 0 && cost.overhead >= 0 &&
                    std::isfinite(cost.bandwidth) && std::isfinite(cost.latency) &&
                    std::isfinite(cost.overhead);
  if (!fine)
    fail(ErrorCode::bad_input,
         "a link of {} B/s, latency {} s, overhead {} s: the bandwidth must be above 0, the others 0 or more",
         cost.bandwidth, cost.latency, cost.overhead);
  if (!delays.empty() && delays.size() != mesh.edges().size())
    fail(ErrorCode::bad_input, "{} delays for {} links", delays.size(), mesh.edges().size());
  for (const double delay : delays)
    if (!(delay >= 0) || std::isinf(delay)) fail(ErrorCode::bad_input, "a link with a delay of {} s", delay);
  return LinkRun(mesh, cost, sends, order, delays).result();
}

double bound_seconds(double bytes, double bandwidth, double tau) { return bytes / (bandwidth * tau); }

}  // namespace bitrift::comm
