#pragma once
// How is a running callgate asked? One short HTTP request to its admin listener.

#include <chrono>
#include <cstddef>
#include <expected>
#include <string>

namespace cli {

inline constexpr std::size_t kLargestAnswer = 8 * 1024 * 1024;

struct AdminRequest {
  std::string address{};  // "127.0.0.1:4602", "unix:/path"
  std::string method{};
  std::string path{};
  std::string token{};  // Empty: none is shown.
  std::size_t largest = kLargestAnswer;
};
struct AdminAnswer {
  int status = 0;
  std::string body{};
};
/// Why it could not be asked, for people; `timed_out`: it was, and did not answer in time; `denied`: this user may
/// not use its socket.
struct Unreachable {
  std::string why{};
  bool timed_out = false;
  bool denied = false;
};
[[nodiscard]] std::expected<AdminAnswer, Unreachable> ask_admin(const AdminRequest& request,
                                                                std::chrono::milliseconds patience);

}  // namespace cli
