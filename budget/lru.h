#pragma once
// A map that forgets: names of models and credentials come from callers, so their number is theirs to choose.

#include <cassert>
#include <cstddef>
#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace budget {

/// Strings can be looked up by string_view.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

/// At most `capacity` (1 or more) values; the least recently used one goes. References hold until theirs goes.
template <typename Value, typename Key = std::string, typename Hash = TextHash>
class Lru {
 public:
  explicit Lru(std::size_t capacity) : capacity_{capacity} { assert(capacity_ >= 1); }
  Lru(const Lru&) = delete;
  Lru& operator=(const Lru&) = delete;

  /// Null if unknown; else it is now the most recently used.
  template <typename Like>
  [[nodiscard]] Value* find(const Like& key) {
    const auto found = index_.find(key);
    if (found == index_.end()) return nullptr;
    order_.splice(order_.begin(), order_, found->second);
    return &found->second->value;
  }

  /// Known or made by `make()`, and now the most recently used.
  template <typename Like, typename Make>
  Value& get(const Like& key, Make&& make) {
    if (Value* known = find(key)) return *known;
    if (index_.size() == capacity_) drop_last();
    order_.push_front(Node{.key = nullptr, .value = std::forward<Make>(make)()});
    const auto [place, added] = index_.emplace(Key{key}, order_.begin());
    assert(added);
    order_.front().key = &place->first;
    return order_.front().value;
  }

  /// Most recently used first; changes no order.
  template <typename Visit>
  void for_each(Visit&& visit) {
    for (Node& node : order_) visit(*node.key, node.value);
  }

  void resize(std::size_t capacity) {
    assert(capacity >= 1);
    capacity_ = capacity;
    while (index_.size() > capacity_) drop_last();
  }
  [[nodiscard]] std::size_t size() const { return index_.size(); }

 private:
  struct Node {
    const Key* key;
    Value value;
  };

  void drop_last() {
    index_.erase(index_.find(*order_.back().key));
    order_.pop_back();
  }

  std::size_t capacity_;
  std::list<Node> order_;  // Most recently used first.
  std::unordered_map<Key, typename std::list<Node>::iterator, Hash, std::equal_to<>> index_;
};

}  // namespace budget
