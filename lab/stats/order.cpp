#include <lab/stats/order.hpp>

namespace kl::stats {

std::vector<Arm> abba_order(int pairs) {
  std::vector<Arm> order;
  for (int pair = 0; pair < pairs; ++pair) {
    const Arm first = first_of_pair(pair);
    order.push_back(first);
    order.push_back(other(first));
  }
  return order;
}

}  // namespace kl::stats
