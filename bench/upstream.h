#pragma once
// Which provider is never the bottleneck? One thread, HTTP/1.1 and TLS, answers known in advance.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "bench/socket.h"

namespace bench {

/// A target's query says what is wanted: none for a 2 kB answer, "?every_us=20000&events=0" for a stream of events of
/// 200 bytes with that time between them (0: all at once), that many of them (0: no end).
inline constexpr std::string_view kStreamQuery = "?every_us=";

/// CLOCK_MONOTONIC at the sending of an event, if one stands in these bytes whole.
[[nodiscard]] std::optional<std::chrono::nanoseconds> stamp_in(std::string_view bytes);

/// Serves both listening sockets until the process is killed.
[[noreturn]] void serve_upstream(Fd plain, Fd tls, const std::string& certificate_file, const std::string& key_file);

}  // namespace bench
