#include "tests/support/harness.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

namespace support {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
}

[[noreturn]] void fail_by_errno(const std::string& what) { throw Failed(what + ": " + std::strerror(errno)); }

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { close(); }
  void close() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }
  [[nodiscard]] int get() const { return number_; }

 private:
  int number_ = -1;
};

struct Pipe {
  Descriptor read{};
  Descriptor write{};
};
Pipe new_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) fail_by_errno("pipe");
  return {Descriptor{ends[0]}, Descriptor{ends[1]}};
}

bool same_name(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

std::string file_text(const std::string& path) {
  std::ifstream in{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

int port_of(std::string_view address) {
  const auto colon = address.rfind(':');
  int port = 0;
  if (colon != std::string_view::npos) {
    std::from_chars(address.data() + colon + 1, address.data() + address.size(), port);
  }
  if (port <= 0) throw Failed("no port in '" + std::string{address} + "'");
  return port;
}

}  // namespace

// TempDir

TempDir::TempDir() {
  const char* root = std::getenv("TMPDIR");
  std::string name = std::string{root != nullptr ? root : "/tmp"} + "/callgate-test-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) fail_by_errno("cannot make " + name);
  path_ = name;
}
TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}
std::string TempDir::file(const std::string& name, std::string_view text) const {
  const auto path = path_ + "/" + name;
  std::ofstream{path, std::ios::binary} << text;
  return path;
}

// Process

class Process::Impl {
 public:
  Impl(std::vector<std::string> command, Options options) : command_(std::move(command)) {
    auto in = new_pipe();
    auto out = new_pipe();
    auto err = new_pipe();
    auto trouble = new_pipe();  // Stays empty if the program could be started.

    std::vector<std::string> env;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string_view text{*entry};
      const auto overridden = [&](const auto& pair) { return text.starts_with(pair.first + "="); };
      if (std::none_of(options.env.begin(), options.env.end(), overridden)) env.emplace_back(text);
    }
    for (const auto& [name, value] : options.env) env.push_back(name + "=" + value);
    const auto pointers = [](std::vector<std::string>& texts) {
      std::vector<char*> all;
      for (auto& text : texts) all.push_back(text.data());
      all.push_back(nullptr);
      return all;
    };
    const auto argv = pointers(command_);
    const auto envp = pointers(env);

    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ < 0) fail_by_errno("fork");
    if (pid_ == 0) {
      // Whatever ends the test ends the program.
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(127);
      ::signal(SIGPIPE, SIG_DFL);
      dup2(in.read.get(), STDIN_FILENO);
      dup2(out.write.get(), STDOUT_FILENO);
      dup2(err.write.get(), STDERR_FILENO);
      if (options.directory.empty() || chdir(options.directory.c_str()) == 0) {
        execvpe(argv[0], argv.data(), envp.data());
      }
      const int problem = errno;
      [[maybe_unused]] const auto written = write(trouble.write.get(), &problem, sizeof problem);
      _exit(127);
    }
    trouble.write.close();
    int problem = 0;
    if (read(trouble.read.get(), &problem, sizeof problem) == sizeof problem) {
      waitpid(pid_, nullptr, 0);
      throw Failed("cannot run " + command_[0] + ": " + std::strerror(problem));
    }
    in_ = std::move(in.write);
    pidfd_ = Descriptor{static_cast<int>(syscall(SYS_pidfd_open, pid_, 0))};
    if (pidfd_.get() < 0) fail_by_errno("pidfd_open");
    reader_ = std::thread{[this, out_end = std::move(out.read), err_end = std::move(err.read)]() mutable {
      read_all(out_end, err_end);
    }};
  }

  ~Impl() {
    if (!status_) {
      ::kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    stop_.write.close();
    reader_.join();
  }

  std::string line(milliseconds patience) {
    const auto deadline = Clock::now() + patience;
    std::unique_lock lock{mutex_};
    changed_.wait_until(lock, deadline, [&] { return lines_.size() > read_ || ended_; });
    if (lines_.size() == read_) throw Failed(story("a line of output"));
    return lines_[read_++];
  }
  std::string story(const std::string& awaited) const {  // With the lock held.
    std::string text = command_[0] + ": waited for " + awaited + " in vain" +
                       (ended_ ? "; it has closed its output" : "") + "\nstdout:\n";
    for (const auto& line : lines_) text.append("  ").append(line).append("\n");
    return text.append("stderr:\n").append(err_);
  }

  std::optional<int> wait(milliseconds patience) {
    if (status_) return status_;
    pollfd ended{pidfd_.get(), POLLIN, 0};
    const auto deadline = Clock::now() + patience;
    int ready = 0;
    do {
      ready = poll(&ended, 1, milliseconds_until(deadline));
    } while (ready < 0 && errno == EINTR);
    int status = 0;
    if (ready <= 0 || waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
    status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return status_;
  }

  std::vector<std::string> command_;
  pid_t pid_ = -1;
  Descriptor in_{};
  Descriptor pidfd_{};
  std::optional<int> status_{};

  mutable std::mutex mutex_{};
  std::condition_variable changed_{};
  std::vector<std::string> lines_{};
  std::size_t read_ = 0;
  std::string err_{};
  bool ended_ = false;

 private:
  // All the time, so that a program that says much is never held up by a full pipe.
  void read_all(Descriptor& out, Descriptor& err) {
    std::string unfinished;
    std::array<pollfd, 3> ends{{{out.get(), POLLIN, 0}, {err.get(), POLLIN, 0}, {stop_.read.get(), POLLIN, 0}}};
    while (ends[0].fd >= 0 || ends[1].fd >= 0) {
      if (poll(ends.data(), ends.size(), -1) < 0) continue;
      bool any = false;
      for (const std::size_t i : {0U, 1U}) {
        if (ends[i].fd < 0 || ends[i].revents == 0) continue;
        std::array<char, 16 * 1024> buffer;
        const auto size = read(ends[i].fd, buffer.data(), buffer.size());
        any = true;
        if (size <= 0) {
          ends[i].fd = -1;
          continue;
        }
        const std::lock_guard lock{mutex_};
        if (i == 1) {
          err_.append(buffer.data(), static_cast<std::size_t>(size));
          continue;
        }
        unfinished.append(buffer.data(), static_cast<std::size_t>(size));
        for (auto end = unfinished.find('\n'); end != std::string::npos; end = unfinished.find('\n')) {
          lines_.push_back(unfinished.substr(0, end));
          unfinished.erase(0, end + 1);
        }
        changed_.notify_all();
      }
      // A grandchild may keep the pipes; once we are to stop, what is there is read and no more.
      if (!any && ends[2].revents != 0) break;
    }
    const std::lock_guard lock{mutex_};
    if (!unfinished.empty()) lines_.push_back(unfinished);
    ended_ = true;
    changed_.notify_all();
  }

  Pipe stop_ = new_pipe();
  std::thread reader_{};
};

Process::Process(std::vector<std::string> command, Options options)
    : impl_(std::make_unique<Impl>(std::move(command), std::move(options))) {}
Process::~Process() = default;

int Process::pid() const { return impl_->pid_; }
std::string Process::line(milliseconds patience) { return impl_->line(patience); }

Json Process::json_line(std::string_view event, milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  for (;;) {
    const auto json = Json::parse(line(milliseconds{milliseconds_until(deadline)}), nullptr, false);
    if (json.is_object() && json.value("event", Json{}) == event) return json;
  }
}

std::vector<std::string> Process::lines() const {
  const std::lock_guard lock{impl_->mutex_};
  return impl_->lines_;
}
std::string Process::err() const {
  const std::lock_guard lock{impl_->mutex_};
  return impl_->err_;
}

void Process::signal(int number) const {
  if (!impl_->status_) ::kill(impl_->pid_, number);
}
void Process::close_stdin() { impl_->in_.close(); }
int Process::wait(milliseconds patience) {
  const auto status = impl_->wait(patience);
  std::unique_lock lock{impl_->mutex_};
  if (!status) throw Failed(impl_->story("its end"));
  // Its last words may still be in the pipe; a grandchild may keep that open, though.
  impl_->changed_.wait_for(lock, milliseconds{1000}, [&] { return impl_->ended_; });
  return *status;
}
bool Process::running() { return !impl_->wait(milliseconds{0}).has_value(); }

std::uint64_t Process::rss_bytes() const {
  std::ifstream in{"/proc/" + std::to_string(pid()) + "/statm"};
  std::uint64_t pages = 0;
  in >> pages >> pages;
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}
std::size_t Process::open_files() const {
  std::error_code gone;
  const std::filesystem::directory_iterator files{"/proc/" + std::to_string(pid()) + "/fd", gone};
  return gone ? 0 : static_cast<std::size_t>(std::distance(begin(files), end(files)));
}
milliseconds Process::cpu() const {
  const auto text = file_text("/proc/" + std::to_string(pid()) + "/stat");
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) return milliseconds{0};
  std::istringstream fields{text.substr(name_end + 1)};
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  std::int64_t user = 0;
  std::int64_t system = 0;
  fields >> user >> system;
  return milliseconds{(user + system) * 1000 / sysconf(_SC_CLK_TCK)};
}

std::chrono::nanoseconds Process::starved() const {
  std::ifstream in{"/proc/" + std::to_string(pid()) + "/schedstat"};
  std::int64_t ran = 0;
  std::int64_t waited = 0;
  in >> ran >> waited;
  return std::chrono::nanoseconds{waited};
}

// FakeProvider

namespace {

std::vector<std::string> with_front(std::string first, const std::vector<std::string>& rest) {
  std::vector<std::string> all{std::move(first)};
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

}  // namespace

FakeProvider::FakeProvider(const std::vector<std::string>& more_arguments)
    : process_(with_front(FAKE_PROVIDER_EXE, more_arguments)) {
  const auto line = process_.json_line("listening");
  url_ = line.at("url");
  control_ = line.at("control");
}

int FakeProvider::port() const { return port_of(url_); }

Json FakeProvider::ask(const std::string& method, const std::string& path, std::string_view body,
                       milliseconds patience) const {
  const auto response = http(method, control_ + path, body, {}, patience);
  if (response.status != 200) throw Failed("fake provider, " + method + " " + path + ": " + response.body);
  return Json::parse(response.body);
}

void FakeProvider::script(std::string_view json) const { (void)ask("PUT", "/script", json, kPatience); }
Json FakeProvider::seen(std::uint64_t since) const {
  return ask("GET", "/seen?since=" + std::to_string(since), {}, kPatience);
}
Json FakeProvider::stats() const { return ask("GET", "/stats", {}, kPatience); }
Json FakeProvider::wait(const std::string& condition, milliseconds patience) const {
  return ask(
      "GET", "/wait?" + condition + "&timeout_ms=" + std::to_string(patience.count()), {}, patience + kPatience);
}
void FakeProvider::release(const std::string& gate, std::optional<int> permits) const {
  (void)ask("POST", "/release?gate=" + gate + (permits ? "&n=" + std::to_string(*permits) : ""), {}, kPatience);
}
void FakeProvider::drop(const std::string& how, bool only_idle) const {
  (void)ask("POST", "/drop?how=" + how + (only_idle ? "&which=idle" : ""), {}, kPatience);
}
void FakeProvider::reset() const { (void)ask("POST", "/reset", {}, kPatience); }

// Callgate

Callgate::Callgate(std::string_view yaml, Options options) : directory_(std::move(options.directory)) {
  if (directory_.empty()) {
    own_directory_ = std::make_unique<TempDir>();
    directory_ = own_directory_->path();
  }
  config_file_ = directory_ + "/callgate.yaml";
  write_config(yaml);
  auto command =
      with_front(options.executable.empty() ? CALLGATE_EXE : options.executable, {"serve", "--config", config_file_});
  command.insert(command.end(), options.arguments.begin(), options.arguments.end());
  // Tests run side by side, and few of them care about this listener.
  if (yaml.find("admin:") == yaml.npos) options.env.emplace_back("CALLGATE_LISTEN__ADMIN", "127.0.0.1:0");
  process_ = std::make_unique<Process>(std::move(command), Process::Options{std::move(options.env), directory_});
  const auto line = process_->json_line("listening");
  const auto port = [&line](const char* listener) {
    const auto address = line.at(listener).get<std::string>();
    return address.starts_with("unix:") ? 0 : port_of(address);
  };
  data_port_ = port("data");
  health_port_ = port("health");
  admin_port_ = line.contains("admin") ? port("admin") : 0;  // Older executables have none.
}

std::string Callgate::data_url() const { return "http://127.0.0.1:" + std::to_string(data_port_); }
std::string Callgate::health_url() const { return "http://127.0.0.1:" + std::to_string(health_port_); }
std::string Callgate::admin_url() const { return "http://127.0.0.1:" + std::to_string(admin_port_); }

void Callgate::write_config(std::string_view yaml) const {
  const auto fresh = config_file_ + ".new";
  std::ofstream{fresh, std::ios::binary} << yaml;
  std::filesystem::rename(fresh, config_file_);
}

int Callgate::stop(milliseconds patience) {
  process_->signal(SIGTERM);
  return process_->wait(patience);
}

// RawClient

std::string Response::header(std::string_view name) const {
  const auto found =
      std::find_if(headers.begin(), headers.end(), [&](const auto& header) { return same_name(header.first, name); });
  return found == headers.end() ? std::string{} : found->second;
}

class RawClient::Impl {
 public:
  using End = Response::End;

  explicit Impl(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      fail_by_errno("connect to port " + std::to_string(port));
    }
    const int yes = 1;
    setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    fcntl(socket_.get(), F_SETFL, O_NONBLOCK);
  }

  void start_tls(const Tls& options) {
    ::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes without MSG_NOSIGNAL.
    context_.reset(SSL_CTX_new(TLS_client_method()));
    if (SSL_CTX_load_verify_locations(context_.get(), options.ca_file.c_str(), nullptr) != 1) {
      throw Failed("cannot read " + options.ca_file);
    }
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_verify(ssl_.get(), SSL_VERIFY_PEER, nullptr);
    SSL_set_tlsext_host_name(ssl_.get(), options.host.c_str());
    SSL_set1_host(ssl_.get(), options.host.c_str());
    if (!options.alpn.empty()) {
      const std::string wire = static_cast<char>(options.alpn.size()) + options.alpn;
      SSL_set_alpn_protos(
          ssl_.get(), reinterpret_cast<const unsigned char*>(wire.data()), static_cast<unsigned int>(wire.size()));
    }
    SSL_set_fd(ssl_.get(), socket_.get());
    const auto deadline = Clock::now() + kPatience;
    for (;;) {
      const int result = SSL_connect(ssl_.get());
      if (result == 1) return;
      const int error = SSL_get_error(ssl_.get(), result);
      if ((error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) ||
          !await(error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, deadline)) {
        std::array<char, 256> text{};
        ERR_error_string_n(ERR_get_error(), text.data(), text.size());
        throw Failed(std::string{"TLS handshake: "} + text.data() + ", " +
                     X509_verify_cert_error_string(SSL_get_verify_result(ssl_.get())));
      }
    }
  }

  bool try_send(std::string_view bytes, Clock::time_point deadline) {
    while (!bytes.empty()) {
      short wanted = POLLOUT;
      ssize_t sent = 0;
      if (ssl_) {
        const int result = SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()));
        const int error = SSL_get_error(ssl_.get(), result);
        if (error == SSL_ERROR_WANT_READ) wanted = POLLIN;
        if (result <= 0 && error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) return false;
        sent = result;
      } else {
        sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR) return false;
      }
      if (sent > 0) {
        bytes.remove_prefix(static_cast<std::size_t>(sent));
      } else if (!await(wanted, deadline)) {
        return false;
      }
    }
    return true;
  }

  /// More bytes into in_: Complete; else how it ended.
  End read_more(Clock::time_point deadline) {
    std::array<char, 64 * 1024> buffer;
    for (;;) {
      ssize_t size = 0;
      if (ssl_) {
        size = SSL_read(ssl_.get(), buffer.data(), static_cast<int>(buffer.size()));
        const int error = SSL_get_error(ssl_.get(), static_cast<int>(size));
        if (size <= 0 && error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
          return error == SSL_ERROR_SYSCALL && errno == ECONNRESET ? End::Rst : End::Fin;
        }
      } else {
        size = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
        if (size == 0) return End::Fin;
        if (size < 0 && errno != EAGAIN && errno != EINTR) return End::Rst;
      }
      if (size > 0) {
        in_.append(buffer.data(), static_cast<std::size_t>(size));
        return End::Complete;
      }
      if (!await(POLLIN, deadline)) return End::TimedOut;
    }
  }

  Response read_head(Clock::time_point deadline) {
    Response response;
    for (;;) {
      const auto end = in_.find("\r\n\r\n");
      if (end == std::string::npos) {
        response.end = read_more(deadline);
        if (response.end != End::Complete) return response;
        continue;
      }
      parse_head(std::string_view{in_}.substr(0, end), response);
      in_.erase(0, end + 4);
      if (response.status < 100 || response.status > 199 || response.status == 101) break;
      response.interim.push_back(response.status);
    }
    response.end = End::Open;
    left_ = 0;
    if (response.status == 204 || response.status == 304) {
      framing_ = Framing::Length;
    } else if (same_name(response.header("transfer-encoding"), "chunked")) {
      framing_ = Framing::ChunkSize;
    } else if (const auto length = response.header("content-length"); !length.empty()) {
      framing_ = Framing::Length;
      std::from_chars(length.data(), length.data() + length.size(), left_);
    } else {
      framing_ = Framing::UntilEnd;
    }
    return response;
  }

  template <typename Stop>
  void read_body(Response& response, Clock::time_point deadline, Stop enough) {
    for (;;) {
      if (take_body(response)) {
        response.end = End::Complete;
        return;
      }
      if (enough()) return;
      const auto got = read_more(deadline);
      if (got == End::Complete) continue;
      const bool by_its_end = framing_ == Framing::UntilEnd && got == End::Fin;
      response.end = by_its_end ? End::Complete : got;
      return;
    }
  }

  void end_our_direction() { ::shutdown(socket_.get(), SHUT_WR); }
  void reset() {
    const linger now{1, 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    socket_.close();
  }
  void close() { socket_.close(); }

  std::string in_{};

 private:
  struct Freed {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };
  enum class Framing : std::uint8_t { Length, ChunkSize, ChunkData, ChunkEnd, Trailers, UntilEnd };

  bool await(short what, Clock::time_point deadline) const {
    pollfd waiting{socket_.get(), what, 0};
    int ready = 0;
    do {
      ready = poll(&waiting, 1, milliseconds_until(deadline));
    } while (ready < 0 && errno == EINTR);
    return ready > 0;
  }

  static void parse_head(std::string_view text, Response& response) {
    response.headers.clear();
    auto line_end = text.find("\r\n");
    const auto first = text.substr(0, line_end);
    if (!first.starts_with("HTTP/1.") || first.size() < 12) throw Failed("no status line: " + std::string{first});
    std::from_chars(first.data() + 9, first.data() + 12, response.status);
    response.reason = first.size() > 13 ? first.substr(13) : "";
    while (line_end != std::string_view::npos) {
      text.remove_prefix(line_end + 2);
      line_end = text.find("\r\n");
      const auto line = text.substr(0, line_end);
      const auto colon = line.find(':');
      if (colon == std::string_view::npos) throw Failed("no header line: " + std::string{line});
      const auto value = line.find_first_not_of(" \t", colon + 1);
      response.headers.emplace_back(line.substr(0, colon), value == std::string_view::npos ? "" : line.substr(value));
    }
  }

  /// What is there of the body; true: that was its end.
  bool take_body(Response& response) {
    const auto move = [&](std::size_t most) {
      const auto size = std::min(most, in_.size());
      response.body.append(in_, 0, size);
      in_.erase(0, size);
      return size;
    };
    if (framing_ == Framing::Length || framing_ == Framing::UntilEnd) {
      const bool bounded = framing_ == Framing::Length;
      const auto size = move(bounded ? left_ : in_.size());
      if (bounded) left_ -= size;
      if (size > 0) response.pieces.push_back({size, Clock::now()});
      return bounded && left_ == 0;
    }
    for (;;) {
      if (framing_ == Framing::ChunkData) {
        left_ -= move(left_);
        if (left_ > 0) return false;
        response.pieces.push_back({chunk_, Clock::now()});
        framing_ = Framing::ChunkEnd;
      }
      const auto end = in_.find("\r\n");
      if (end == std::string::npos) return false;
      const auto line = in_.substr(0, end);
      in_.erase(0, end + 2);
      if (framing_ == Framing::ChunkEnd) {
        if (!line.empty()) throw Failed("no end of a chunk: " + line);
        framing_ = Framing::ChunkSize;
      } else if (framing_ == Framing::ChunkSize) {
        const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), chunk_, 16);
        if (error != std::errc{}) throw Failed("no size of a chunk: " + line);
        left_ = chunk_;
        framing_ = chunk_ == 0 ? Framing::Trailers : Framing::ChunkData;
      } else if (line.empty()) {
        return true;
      }
    }
  }

  Descriptor socket_;
  std::unique_ptr<SSL_CTX, Freed> context_{};
  std::unique_ptr<SSL, Freed> ssl_{};
  Framing framing_ = Framing::UntilEnd;
  std::size_t left_ = 0;
  std::size_t chunk_ = 0;
};

RawClient::RawClient(int port) : impl_(std::make_unique<Impl>(port)) {}
RawClient::RawClient(int port, const Tls& tls) : RawClient(port) { impl_->start_tls(tls); }
RawClient::~RawClient() = default;
RawClient::RawClient(RawClient&&) noexcept = default;
RawClient& RawClient::operator=(RawClient&&) noexcept = default;

bool RawClient::try_send(std::string_view bytes, milliseconds patience) {
  return impl_->try_send(bytes, Clock::now() + patience);
}
void RawClient::send(std::string_view bytes, milliseconds patience) {
  if (!try_send(bytes, patience)) throw Failed("could not send " + std::to_string(bytes.size()) + " bytes");
}

Response RawClient::read_head(milliseconds patience) { return impl_->read_head(Clock::now() + patience); }
Response RawClient::read_response(milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  auto response = impl_->read_head(deadline);
  if (response.status != 0) impl_->read_body(response, deadline, [] { return false; });
  return response;
}
bool RawClient::read_until(Response& response, std::string_view text, milliseconds patience) {
  const auto there = [&] { return response.body.find(text) != std::string::npos; };
  if (!there()) impl_->read_body(response, Clock::now() + patience, there);
  return there();
}
void RawClient::read_rest(Response& response, milliseconds patience) {
  if (response.end != Response::End::Complete) {
    impl_->read_body(response, Clock::now() + patience, [] { return false; });
  }
}

std::string RawClient::read_exactly(std::size_t bytes, milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  while (impl_->in_.size() < bytes) {
    if (impl_->read_more(deadline) == Response::End::Complete) continue;
    throw Failed("waited for " + std::to_string(bytes) + " bytes, got " + std::to_string(impl_->in_.size()));
  }
  auto text = impl_->in_.substr(0, bytes);
  impl_->in_.erase(0, bytes);
  return text;
}
Response::End RawClient::read_to_end(milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  for (;;) {
    impl_->in_.clear();
    const auto got = impl_->read_more(deadline);
    if (got != Response::End::Complete) return got;
  }
}

void RawClient::fin() { impl_->end_our_direction(); }
void RawClient::rst() { impl_->reset(); }
void RawClient::close() { impl_->close(); }

std::string request_text(std::string_view method, std::string_view target, std::string_view body,
                         const std::vector<std::pair<std::string, std::string>>& headers) {
  std::string text = std::string{method} + " " + std::string{target} + " HTTP/1.1\r\nHost: 127.0.0.1\r\n";
  for (const auto& [name, value] : headers) text.append(name).append(": ").append(value).append("\r\n");
  if (!body.empty() || method == "POST" || method == "PUT") {
    text.append("Content-Length: ").append(std::to_string(body.size())).append("\r\n");
  }
  return text.append("\r\n").append(body);
}

Response http(std::string_view method, std::string_view url, std::string_view body,
              const std::vector<std::pair<std::string, std::string>>& headers, milliseconds patience) {
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme)) throw Failed("no http:// in " + std::string{url});
  const auto authority = url.substr(kScheme.size(), url.find('/', kScheme.size()) - kScheme.size());
  const auto target = url.substr(kScheme.size() + authority.size());
  auto all = headers;
  all.emplace_back("Connection", "close");
  RawClient client{port_of(authority)};
  std::string text = request_text(method, target.empty() ? "/" : target, body, all);
  const std::string host = "Host: 127.0.0.1\r\n";
  text.replace(text.find(host), host.size(), "Host: " + std::string{authority} + "\r\n");  // As clients say it.
  client.send(text, patience);
  return client.read_response(patience);
}

Response http_get(std::string_view url, milliseconds patience) { return http("GET", url, {}, {}, patience); }

}  // namespace support
