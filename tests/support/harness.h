#pragma once
// How do end-to-end tests run real programs and talk to them down to the byte? Everything is bounded by a
// patience; what does not come in time, or comes otherwise, is a Failed that tells what was seen instead.

#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace support {

using std::chrono::milliseconds;
inline constexpr milliseconds kPatience{10'000};

struct Failed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Empty at first; gone with all that is in it at the end.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Writes a file in it and returns its path.
  std::string file(const std::string& name, std::string_view text) const;

 private:
  std::string path_;
};

/// A running program; killed at the end, or when the thread that started it ends.
class Process {
 public:
  struct Options {
    std::vector<std::pair<std::string, std::string>> env{};  // Beside ours.
    std::string directory{};                                 // To run in; empty: ours.
  };
  explicit Process(std::vector<std::string> command, Options options);
  explicit Process(std::vector<std::string> command) : Process(std::move(command), Options()) {}
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  [[nodiscard]] int pid() const;
  /// The next line of its standard output that was not asked for yet.
  std::string line(milliseconds patience = kPatience);
  /// The next such line that is JSON with this "event"; those before it are passed over.
  nlohmann::json json_line(std::string_view event, milliseconds patience = kPatience);
  /// Everything that it has said so far.
  [[nodiscard]] std::vector<std::string> lines() const;
  [[nodiscard]] std::string err() const;

  void signal(int number) const;
  void close_stdin();
  /// Its exit code, or 128 + the signal that ended it.
  int wait(milliseconds patience = kPatience);
  [[nodiscard]] bool running();

  // From /proc; zero when it has gone.
  [[nodiscard]] std::uint64_t rss_bytes() const;
  [[nodiscard]] std::size_t open_files() const;
  [[nodiscard]] milliseconds cpu() const;
  /// How long its first thread was ready to run and got no CPU: the machine's doing, not the program's.
  [[nodiscard]] std::chrono::nanoseconds starved() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// tests/support/README.md says what its scripts can do.
class FakeProvider {
 public:
  explicit FakeProvider(const std::vector<std::string>& more_arguments = {});

  [[nodiscard]] const std::string& url() const { return url_; }
  [[nodiscard]] int port() const;
  void script(std::string_view json) const;
  [[nodiscard]] nlohmann::json seen(std::uint64_t since = 0) const;
  [[nodiscard]] nlohmann::json stats() const;
  /// Until it holds, such as "requests=2&open_connections=0"; then the stats.
  nlohmann::json wait(const std::string& condition, milliseconds patience = kPatience) const;
  /// Lets all, or the next so many, through a gate of the script.
  void release(const std::string& gate, std::optional<int> permits = std::nullopt) const;
  /// Ends connections from outside: how is fin, rst or notify.
  void drop(const std::string& how, bool only_idle = false) const;
  void reset() const;
  Process& process() { return process_; }

 private:
  [[nodiscard]] nlohmann::json ask(const std::string& method, const std::string& path, std::string_view body,
                                   milliseconds patience) const;
  Process process_;
  std::string url_{};
  std::string control_{};
};

/// `callgate serve` with a configuration of its own, in a directory of its own, so that relative paths in it
/// are too.
class Callgate {
 public:
  struct Options {
    std::vector<std::string> arguments{};  // After `serve --config FILE`.
    std::vector<std::pair<std::string, std::string>> env{};
    std::string directory{};   // One that outlives it, for tests of restarts; empty: a temporary one.
    std::string executable{};  // Another one than ours.
  };
  /// Returns when it says that it listens. Its configuration should name port 0; for listen.admin that is the default
  /// here.
  Callgate(std::string_view yaml, Options options);
  explicit Callgate(std::string_view yaml) : Callgate(yaml, Options()) {}

  [[nodiscard]] int data_port() const { return data_port_; }
  [[nodiscard]] int health_port() const { return health_port_; }
  /// "http://127.0.0.1:4600"
  [[nodiscard]] std::string data_url() const;
  [[nodiscard]] std::string health_url() const;
  [[nodiscard]] std::string admin_url() const;
  [[nodiscard]] const std::string& directory() const { return directory_; }
  [[nodiscard]] const std::string& config_file() const { return config_file_; }
  /// For reloads: the file is replaced in one step.
  void write_config(std::string_view yaml) const;
  /// SIGTERM; its exit code.
  int stop(milliseconds patience = kPatience);
  Process& process() { return *process_; }

 private:
  std::unique_ptr<TempDir> own_directory_{};
  std::string directory_{};
  std::string config_file_{};
  std::unique_ptr<Process> process_{};
  int data_port_ = 0;
  int health_port_ = 0;
  int admin_port_ = 0;
};

struct Response {
  int status = 0;
  std::string reason{};
  std::vector<std::pair<std::string, std::string>> headers{};
  std::string body{};
  std::vector<int> interim{};  // 1xx that came before.

  /// Complete by its own framing, or how else it ended; Open: it has not.
  enum class End : std::uint8_t { Open, Complete, Fin, Rst, TimedOut };
  End end = End::Open;

  struct Piece {
    std::size_t bytes;
    std::chrono::steady_clock::time_point at;
  };
  std::vector<Piece> pieces{};  // One a chunk, when it was whole; without chunks, one a read.

  /// Empty if there is none.
  [[nodiscard]] std::string header(std::string_view name) const;
};

/// A client that does what no HTTP library would.
class RawClient {
 public:
  explicit RawClient(int port);
  struct Tls {
    std::string ca_file{};
    std::string host = "localhost";  // Whom the certificate must name.
    std::string alpn{};              // "h2"; empty: none is offered.
  };
  RawClient(int port, const Tls& tls);
  ~RawClient();
  RawClient(RawClient&&) noexcept;
  RawClient& operator=(RawClient&&) noexcept;

  void send(std::string_view bytes, milliseconds patience = kPatience);
  /// False if they could not all be sent: the peer has gone, or does not read.
  bool try_send(std::string_view bytes, milliseconds patience = kPatience);

  /// A whole response to anything but HEAD; never throws for how it ends.
  Response read_response(milliseconds patience = kPatience);
  /// Or in parts: the head (status 0 if none came), …
  Response read_head(milliseconds patience = kPatience);
  /// … the body until `text` is in it (true) or it has ended, …
  bool read_until(Response& response, std::string_view text, milliseconds patience = kPatience);
  /// … and what is left of it.
  void read_rest(Response& response, milliseconds patience = kPatience);

  /// Exactly so many bytes, as they come.
  std::string read_exactly(std::size_t bytes, milliseconds patience = kPatience);
  /// Reads and discards until the peer ends the connection: Fin, Rst or TimedOut.
  Response::End read_to_end(milliseconds patience = kPatience);

  void fin();  // Our direction only.
  void rst();
  void close();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// "POST /path HTTP/1.1", Host, the headers, Content-Length if there is a body or the method is POST, and the
/// body.
[[nodiscard]] std::string request_text(std::string_view method, std::string_view target, std::string_view body = {},
                                       const std::vector<std::pair<std::string, std::string>>& headers = {});

/// One request on a connection of its own; url like http://127.0.0.1:4601/readyz.
Response http(std::string_view method, std::string_view url, std::string_view body = {},
              const std::vector<std::pair<std::string, std::string>>& headers = {},
              milliseconds patience = kPatience);
Response http_get(std::string_view url, milliseconds patience = kPatience);

}  // namespace support
