#pragma once
// How does a peer take its time, and how is something awaited that nobody announces?

#include <chrono>
#include <thread>

namespace support {

/// A peer that is slow on purpose. Not for waiting until something has happened.
inline void dawdle(std::chrono::milliseconds time) { std::this_thread::sleep_for(time); }

/// Looks again and again until it holds; false if it does not within `patience`.
template <typename Condition>
bool eventually(const Condition& holds, std::chrono::milliseconds patience = std::chrono::seconds{10}) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > until) return false;
    dawdle(std::chrono::milliseconds{1});
  }
  return true;
}

/// What `look` finds once it is what is expected, or when patience ends. For counts of a call's end, which come after
/// its answer.
template <typename Look>
double awaited(double expected, const Look& look) {
  double last = look();
  (void)eventually([&] { return (last = look()) == expected; });
  return last;
}

}  // namespace support
