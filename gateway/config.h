#pragma once
// What has the operator decided? Plain values with their defaults; only config.cpp knows YAML.
// Names and defaults are those of docs/configuration.md.

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace gateway {

struct UpstreamConfig {
  std::string name{};
  std::string dialect{};                   // A name that classifier::find_dialect() knows.
  std::string url{};                       // "https://host[:port][/path]", without a slash at the end.
  int http = 1;                            // 1 | 2
  std::string ca_file{};
  int concurrent = 256;                    // limits.concurrent; 0: no limit.
  struct Timeouts {                        // 0: none.
    std::chrono::milliseconds connect{5'000};
    std::chrono::milliseconds first_byte{600'000};
    std::chrono::milliseconds idle{120'000};
    std::chrono::milliseconds total{0};
  } timeouts{};
  std::vector<std::string> replay_safe{};  // Further POST paths that may be repeated after their body was sent.
};

struct LaneRetry {
  int attempts = 8;
  std::chrono::milliseconds max_elapsed{0};  // 0: none.
};

struct Config {
  struct Listen {
    std::string data = "127.0.0.1:4600";     // or unix:/path
    std::string health = "127.0.0.1:4601";
    std::vector<std::string> hosts{"localhost", "127.0.0.1", "[::1]"};
  } listen{};

  std::vector<UpstreamConfig> upstreams{};   // Built-in ones included, by name.
  std::map<std::string, std::string, std::less<>> default_upstream{};  // dialect -> upstream

  struct Retry {
    std::chrono::milliseconds base{500};
    std::chrono::milliseconds cap{30'000};
    std::chrono::milliseconds longest_wait{60'000};
    bool on_timeout = true;
    LaneRetry interactive{4, std::chrono::milliseconds{0}};
    LaneRetry bulk{8, std::chrono::milliseconds{120'000}};
    LaneRetry backfill{8, std::chrono::milliseconds{120'000}};
  } retry{};

  struct Queue {
    std::size_t total = 10'000;
    struct MaxWait {
      std::chrono::milliseconds interactive{30'000};
      std::chrono::milliseconds bulk{300'000};
      std::chrono::milliseconds backfill{1'800'000};
    } max_wait{};
  } queue{};

  struct Stream {
    std::chrono::milliseconds hold_head{45'000};
    std::uint64_t hold_bytes = 256 * 1024;
    bool ask_for_usage = true;
    std::chrono::milliseconds heartbeat{15'000};  // 0: none.
  } stream{};

  std::uint64_t hold_unary = 4 * 1024 * 1024;  // answers.hold_unary

  struct Limits {
    std::uint64_t header_bytes = 64 * 1024;
    std::uint64_t body_bytes = 64 * 1024 * 1024;
    std::uint64_t buffered_bytes = 0;            // 0: auto, 40 % of the memory limit of our cgroup (or of the machine).
    std::size_t connections = 20'000;
    std::chrono::milliseconds header_timeout{30'000};
    std::chrono::milliseconds write_stall{60'000};
    std::chrono::milliseconds keep_alive{620'000};
    bool half_close_is_gone = true;              // half_close: gone | allow
  } limits{};

  struct Shutdown {
    std::chrono::milliseconds drain{25'000};
  } shutdown{};

  struct Log {
    enum class Level : std::uint8_t { Debug, Info, Warn, Error } level = Level::Info;
    enum class Format : std::uint8_t { Json, Text } format = Format::Json;
  } log{};
};

/// One thing that is wrong, with the place to look at and the mend.
struct Problem {
  std::string file{};     // As it was named.
  int line = 0;           // From 1; 0: the whole file.
  int column = 0;
  std::string path{};     // "retry.base"
  std::string message{};  // "must be a duration such as 250ms, 30s or 5m (is \"5 minutes\")"
};

struct Loaded {
  Config config{};
  std::vector<Problem> problems{};  // Empty: config may be used.
};

/// The defaults with the built-in upstreams.
[[nodiscard]] Config default_config();
/// Reads and checks a whole file and lists all problems at once; never throws for what stands in it.
[[nodiscard]] Loaded load_config(const std::string& file);
[[nodiscard]] Loaded parse_config(std::string_view text, const std::string& file_name);

}  // namespace gateway
