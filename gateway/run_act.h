#pragma once
// What is done to a run by somebody's hand, and what comes of it.

#include <string>
#include <utility>

namespace gateway {

/// Whoever wants a run changed.
struct RunActor {
  // No aggregate: g++ 12 destroys such a temporary twice beside a co_await.
  RunActor(std::string of, std::string by, std::string because = {})
      : tenant(std::move(of)), who(std::move(by)), reason(std::move(because)) {}
  std::string tenant;  // Whose runs; empty: anybody's.
  std::string who;     // For the audit log.
  std::string reason;
};

/// 200, 202: done, or on its way; 0: whoever asked has gone; else why not.
struct RunActed {
  int status = 0;
  std::string state{};  // Of the run, as far as it is known.
  std::string code{};
  std::string title{};
  std::string detail{};
  int retry_after = 0;
};

}  // namespace gateway
