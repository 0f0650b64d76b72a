// Goal: what callgate costs, beside nginx, HAProxy and no proxy, in one interleaved run on this machine.
// Method: the proxies on core 1; load and provider on core 0. Rounds; in each round every scenario visits every
// target before the next scenario begins, so that a noisy minute hits all alike. Medians over rounds.

#include <sys/resource.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "bench/load.h"
#include "bench/overhead/report.h"
#include "bench/process.h"
#include "bench/socket.h"
#include "bench/upstream.h"

namespace bench {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

struct Options {
  std::string work{};  // A folder for configurations and logs.
  std::string callgate{};
  int rounds = 3;
  bool quick = false;  // Short windows: to try the harness, not to quote.
};

struct Entry {
  std::uint16_t port = 0;
  std::string prefix{};
};

/// Where calls go: a proxy that runs, or the provider itself.
struct Way {
  Target target = Target::Direct;
  Entry plain{};
  Entry tls{};
  std::shared_ptr<Process> process{};  // Null: the provider itself.
};

struct ProviderPorts {
  std::uint16_t plain = 0;
  std::uint16_t tls = 0;
};

constexpr int kLoadCore = 0;
constexpr int kProxyCore = 1;
constexpr std::string_view kPath = "/v1/chat/completions";
constexpr std::size_t kSmallBody = 1024;
constexpr std::size_t kBigBody = 5'000'000;
constexpr int kIdleStreams = 2'000;
constexpr int kIdleStreamsTls = 1'000;

std::uint16_t free_port() { return port_of(bound_socket(false)); }

std::string replaced(std::string text, const std::vector<std::pair<std::string, std::string>>& words) {
  for (const auto& [word, value] : words) {
    for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + value.size())) {
      text.replace(at, word.size(), value);
    }
  }
  return text;
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file{path};
  file << text;
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

std::string text_of(const std::string& path) {
  std::ifstream file{path};
  return {std::istreambuf_iterator<char>{file}, {}};
}

std::string chat_body(std::size_t size, bool stream) {
  std::string body = R"({"model":"gpt-5-mini","stream":)" + std::string{stream ? "true" : "false"};
  if (stream) body += R"(,"stream_options":{"include_usage":true})";
  body += R"(,"max_completion_tokens":512,"messages":[{"role":"user","content":")";
  constexpr std::string_view kTail = "\"}]}";
  while (body.size() + kTail.size() < size) body += "The quick brown fox jumps over the lazy dog. "[body.size() % 45];
  return body + std::string{kTail};
}

std::string stream_target(milliseconds every, int events) {
  return std::string{kPath} + std::string{kStreamQuery} + std::to_string(every.count() * 1000) +
         "&events=" + std::to_string(events);
}

// --- the proxies
// -----------------------------------------------------------------------------------------------------

// Bodies stay in memory, connections stay open: nginx as one would set it up for this work.
constexpr const char* kNginxConf = R"(
daemon off;
worker_processes 1;
worker_rlimit_nofile 20000;
pid @WORK@/nginx.pid;
error_log @WORK@/nginx.log error;
@USER@
events { worker_connections 10000; }
http {
  access_log off;
  keepalive_requests 100000000;
  keepalive_time 24h;
  client_max_body_size 64m;
  client_body_buffer_size 8m;
  client_body_temp_path @WORK@/nginx-body;
  proxy_temp_path @WORK@/nginx-proxy;
  fastcgi_temp_path @WORK@/nginx-fastcgi;
  uwsgi_temp_path @WORK@/nginx-uwsgi;
  scgi_temp_path @WORK@/nginx-scgi;
  proxy_http_version 1.1;
  proxy_set_header Connection "";
  proxy_read_timeout 600s;
  upstream plain { server 127.0.0.1:@UPLAIN@; keepalive 512; keepalive_requests 100000000; keepalive_time 24h; }
  upstream tls { server 127.0.0.1:@UTLS@; keepalive 512; keepalive_requests 100000000; keepalive_time 24h; }
  server { listen 127.0.0.1:@PLAIN@ backlog=4096; location / { proxy_pass http://plain; } }
  server {
    listen 127.0.0.1:@TLS@ backlog=4096;
    location / {
      proxy_pass https://tls;
      proxy_ssl_verify on;
      proxy_ssl_name localhost;
      proxy_ssl_trusted_certificate @CERT@;
    }
  }
}
)";

// Without http-no-delay HAProxy holds back small chunks of a stream for up to 200 ms.
constexpr const char* kHaproxyConf = R"(
global
  nbthread 1
  maxconn 9000
defaults
  mode http
  option http-no-delay
  option http-keep-alive
  http-reuse always
  timeout connect 5s
  timeout client 600s
  timeout server 600s
frontend plain
  bind 127.0.0.1:@PLAIN@ backlog 4096
  default_backend plain
backend plain
  server provider 127.0.0.1:@UPLAIN@
frontend tls
  bind 127.0.0.1:@TLS@ backlog 4096
  default_backend tls
backend tls
  server provider 127.0.0.1:@UTLS@ ssl verify required ca-file @CERT@ verifyhost localhost
)";

constexpr const char* kCallgateConf = R"(
listen: {data: "127.0.0.1:0", health: "127.0.0.1:0", admin: "127.0.0.1:0"}
upstreams:
  up: {dialect: openai, url: "http://127.0.0.1:@UPLAIN@", limits: {concurrent: 0}}
  ups: {dialect: openai, url: "https://127.0.0.1:@UTLS@", ca_file: "@CERT@", limits: {concurrent: 0}}
)";

/// Asks until there is an answer; half a millisecond is fine enough for what is measured in milliseconds.
template <typename Answer>
void wait_until(Process& process, const std::string& log, Answer&& answered) {
  const TimePoint limit = Clock::now() + 10s;
  while (!answered()) {
    if (!process.running()) throw std::runtime_error("it ended at once; its last words:\n" + text_of(log));
    if (Clock::now() > limit) throw std::runtime_error("it was not ready within 10 s:\n" + text_of(log));
    std::this_thread::sleep_for(500us);
  }
}

bool accepts(std::uint16_t port) {
  const Fd fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const sockaddr_in address = loopback(port);
  return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

/// The port that callgate names in its line "listening", once it is there.
std::optional<std::uint16_t> announced_port(const std::string& log) {
  std::ifstream lines{log};
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || json.value("event", "") != "listening") continue;
    const std::string address = json.value("data", "");
    return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  }
  return std::nullopt;
}

class Proxies {
 public:
  Proxies(Options options, ProviderPorts provider) : options_(std::move(options)), provider_(provider) {}

  /// Starts one afresh and notes how long that took.
  Way start(Target target, Report& report) {
    const TimePoint begun = Clock::now();
    Way way = target == Target::Nginx ? nginx() : target == Target::Haproxy ? haproxy() : callgate();
    way.target = target;
    report.add(Figure::StartToReady, target, std::chrono::duration<double, std::milli>{Clock::now() - begun}.count());
    return way;
  }

 private:
  [[nodiscard]] std::string path(const std::string& name) const { return options_.work + "/" + name; }

  [[nodiscard]] std::string filled(const char* conf, std::uint16_t plain, std::uint16_t tls) const {
    return replaced(conf,
                    {{"@UPLAIN@", std::to_string(provider_.plain)},
                     {"@UTLS@", std::to_string(provider_.tls)},
                     {"@PLAIN@", std::to_string(plain)},
                     {"@TLS@", std::to_string(tls)},
                     {"@CERT@", path("cert.pem")},
                     {"@WORK@", options_.work},
                     // The work folder is ours alone, so the workers must be us.
                     {"@USER@", ::getuid() == 0 ? "user root;" : ""}});
  }

  Way on_ports(const std::vector<std::string>& command, const std::string& log, std::uint16_t plain,
               std::uint16_t tls) {
    Way way{.plain = {plain, ""}, .tls = {tls, ""}};
    way.process = std::make_shared<Process>(command, log, kProxyCore);
    wait_until(*way.process, log, [&] { return accepts(plain) && accepts(tls); });
    return way;
  }

  Way nginx() {
    const std::uint16_t plain = free_port();
    const std::uint16_t tls = free_port();
    write_file(path("nginx.conf"), filled(kNginxConf, plain, tls));
    return on_ports({"nginx", "-p", options_.work, "-c", path("nginx.conf"), "-e", path("nginx.log")},
                    path("nginx.out"),
                    plain,
                    tls);
  }

  Way haproxy() {
    const std::uint16_t plain = free_port();
    const std::uint16_t tls = free_port();
    write_file(path("haproxy.conf"), filled(kHaproxyConf, plain, tls));
    return on_ports({"haproxy", "-db", "-f", path("haproxy.conf")}, path("haproxy.out"), plain, tls);
  }

  Way callgate() {
    write_file(path("callgate.yaml"), filled(kCallgateConf, 0, 0));
    const std::string log = path("callgate.out");
    std::filesystem::remove(log);
    std::optional<std::uint16_t> port;
    Way way;
    way.process = std::make_shared<Process>(std::vector<std::string>{options_.callgate,
                                                                     "serve",
                                                                     "--config",
                                                                     path("callgate.yaml"),
                                                                     "--set",
                                                                     "store.path=" + path("callgate.db")},
                                            log,
                                            kProxyCore);
    wait_until(*way.process, log, [&] { return (port = announced_port(log)).has_value(); });
    way.plain = {*port, "/up"};
    way.tls = {*port, "/ups"};
    return way;
  }

  Options options_;
  ProviderPorts provider_;
};

// --- the scenarios
// ---------------------------------------------------------------------------------------------------

double micros(std::chrono::nanoseconds time) { return std::chrono::duration<double, std::micro>{time}.count(); }

std::chrono::nanoseconds cpu_of(const Way& way) { return way.process ? way.process->cpu() : 0ns; }

LoadPlan plan_for(const Entry& entry, std::string_view target, std::string body) {
  return {.port = entry.port, .target = entry.prefix + std::string{target}, .body = std::move(body)};
}

/// Streams that have begun and then say nothing for as long as anybody here looks.
std::unique_ptr<Load> idle_streams(const Entry& entry, int count) {
  LoadPlan plan = plan_for(entry, stream_target(3'600'000ms, 0), chat_body(kSmallBody, true));
  plan.connections = count;
  auto load = std::make_unique<Load>(plan);
  load->run_until_streaming(30s);
  return load;
}

/// In a process of its own that has done nothing yet: later its allocator has room to spare, and streams seem to cost
/// nothing.
void at_rest(const Way& way, Report& report) {
  Load warm{plan_for(way.plain, kPath, chat_body(kSmallBody, false))};
  warm.run_for(20ms);
  std::this_thread::sleep_for(200ms);
  const std::uint64_t idle = way.process->rss_bytes();
  report.add(Figure::IdleRss, way.target, static_cast<double>(idle) / (1024 * 1024));
  const auto grown = [&](std::uint64_t before, int streams) {
    return (static_cast<double>(way.process->rss_bytes()) - static_cast<double>(before)) / 1000 / streams;
  };
  const auto plain = idle_streams(way.plain, kIdleStreams);
  report.add(Figure::IdleStream, way.target, grown(idle, kIdleStreams));
  // Beside the plain ones, so that what those hold is not given out again.
  const std::uint64_t before = way.process->rss_bytes();
  const auto tls = idle_streams(way.tls, kIdleStreamsTls);
  report.add(Figure::IdleStreamTls, way.target, grown(before, kIdleStreamsTls));
}

class Round {
 public:
  Round(const Options& options, std::vector<Way> ways, Report& report)
      : ways_(std::move(ways)), report_(report), scale_(options.quick ? 0.2 : 1.0) {}

  void run() {
    // First, while the processes are fresh: a peak shows only where nothing lies about that could be used again.
    each([&](const Way& way) { big_bodies(way); });
    for (const bool tls : {false, true}) {
      unary({.connections = 32},
            tls,
            tls ? Unary{Figure::TlsClosedCpu, Figure::TlsClosedP50, Figure::TlsClosedP99, Figure::TlsClosedRate}
                : Unary{Figure::PlainClosedCpu,
                        Figure::PlainClosedP50,
                        Figure::PlainClosedP99,
                        Figure::PlainClosedRate},
            2000ms);
      unary({.connections = 1},
            tls,
            tls ? Unary{Figure::TlsOneCpu, Figure::TlsOneP50, Figure::TlsOneP99}
                : Unary{Figure::PlainOneCpu, Figure::PlainOneP50, Figure::PlainOneP99},
            1500ms);
      unary({.connections = 64, .calls_per_second = 2000},
            tls,
            tls ? Unary{Figure::TlsPacedCpu, Figure::TlsPacedP50, Figure::TlsPacedP99}
                : Unary{Figure::PlainPacedCpu, Figure::PlainPacedP50, Figure::PlainPacedP99},
            3000ms);
    }
    each([&](const Way& way) { first_token(way); });
    each([&](const Way& way) { many_streams(way); });
    each([&](const Way& way) {
      if (way.process) beside_idle_streams(way);
    });
    for (const Way& way : ways_) report_.add(Figure::Errors, way.target, static_cast<double>(errors_[way.target]));
  }

 private:
  struct Shape {
    int connections = 1;
    double calls_per_second = 0;
  };
  struct Unary {
    Figure cpu;
    Figure p50;
    Figure p99;
    std::optional<Figure> rate{};
  };

  [[nodiscard]] milliseconds scaled(milliseconds time) const {
    return std::chrono::duration_cast<milliseconds>(time * scale_);
  }

  template <typename Visit>
  void each(Visit visit) {
    for (const Way& way : ways_) {
      visit(way);
      std::cerr << '.' << std::flush;
    }
  }

  /// Runs a warm load for a window and gives its figures with the proxy's CPU time in it.
  std::pair<LoadFigures, std::chrono::nanoseconds> window(const Way& way, Load& load, milliseconds time) {
    const auto before = cpu_of(way);
    LoadFigures figures = load.run_for(scaled(time));
    const auto cpu = cpu_of(way) - before;
    errors_[way.target] += figures.errors;
    return {std::move(figures), cpu};
  }

  void add_cpu(Figure figure, const Way& way, std::chrono::nanoseconds cpu, std::uint64_t count) {
    if (way.process && count > 0) report_.add(figure, way.target, micros(cpu) / static_cast<double>(count));
  }

  void add_quantiles(const Way& way, std::vector<std::chrono::nanoseconds>& values, Figure p50, Figure p99) {
    report_.add(p50, way.target, micros(quantile(values, 0.50)));
    report_.add(p99, way.target, micros(quantile(values, 0.99)));
  }

  void unary(Shape shape, bool tls, Unary into, milliseconds time) {
    each([&](const Way& way) {
      LoadPlan plan = plan_for(tls ? way.tls : way.plain, kPath, chat_body(kSmallBody, false));
      plan.connections = shape.connections;
      plan.calls_per_second = shape.calls_per_second;
      Load load{plan};
      load.run_for(scaled(400ms));
      auto [figures, cpu] = window(way, load, time);
      add_cpu(into.cpu, way, cpu, figures.calls);
      add_quantiles(way, figures.took, into.p50, into.p99);
      if (into.rate) {
        report_.add(*into.rate,
                    way.target,
                    static_cast<double>(figures.calls) / std::chrono::duration<double>{scaled(time)}.count());
      }
    });
  }

  /// Three events and an end, all at once: what is late is late because of the proxy.
  void first_token(const Way& way) {
    Load load{plan_for(way.plain, stream_target(0ms, 3), chat_body(kSmallBody, true))};
    load.run_for(scaled(300ms));
    auto [figures, cpu] = window(way, load, 1500ms);
    add_cpu(Figure::FirstTokenCpu, way, cpu, figures.calls);
    add_quantiles(way, figures.first_event, Figure::FirstTokenP50, Figure::FirstTokenP99);
  }

  void many_streams(const Way& way) {
    LoadPlan plan = plan_for(way.plain, stream_target(20ms, 0), chat_body(kSmallBody, true));
    plan.connections = 500;
    Load load{plan};
    load.run_until_streaming(30s);
    load.run_for(scaled(500ms));
    auto [figures, cpu] = window(way, load, 3000ms);
    add_cpu(Figure::StreamsCpu, way, cpu, figures.events);
    add_quantiles(way, figures.event_delay, Figure::StreamsP50, Figure::StreamsP99);
    report_.add(Figure::StreamsRate,
                way.target,
                static_cast<double>(figures.events) / std::chrono::duration<double>{scaled(3000ms)}.count());
  }

  void big_bodies(const Way& way) {
    LoadPlan plan = plan_for(way.plain, kPath, chat_body(kBigBody, false));
    plan.connections = 4;
    Load load{plan};
    std::uint64_t before = 0;
    if (way.process) {
      before = way.process->rss_bytes();
      way.process->reset_peak_rss();
    }
    load.run_for(scaled(300ms));
    auto [figures, cpu] = window(way, load, 2000ms);
    add_cpu(Figure::BigCpu, way, cpu, figures.calls);
    report_.add(Figure::BigP50, way.target, micros(quantile(figures.took, 0.50)));
    if (way.process) {
      report_.add(
          Figure::BigPeak,
          way.target,
          static_cast<double>(way.process->peak_rss_bytes() - before) / (4.0 * static_cast<double>(kBigBody)));
    }
  }

  std::pair<double, double> short_calls(const Way& way) {
    LoadPlan plan = plan_for(way.plain, kPath, chat_body(kSmallBody, false));
    plan.connections = 8;
    plan.calls_per_second = 500;
    Load load{plan};
    load.run_for(scaled(300ms));
    auto [figures, cpu] = window(way, load, 2000ms);
    if (figures.calls == 0) throw std::runtime_error("no short call came through");
    return {micros(cpu) / static_cast<double>(figures.calls), micros(quantile(figures.took, 0.50))};
  }

  void beside_idle_streams(const Way& way) {
    const auto [cpu_alone, p50_alone] = short_calls(way);
    const auto held = idle_streams(way.plain, kIdleStreams);
    const auto [cpu_beside, p50_beside] = short_calls(way);
    report_.add(Figure::ShortAloneCpu, way.target, cpu_alone);
    report_.add(Figure::ShortBesideCpu, way.target, cpu_beside);
    report_.add(Figure::ShortCpuRatio, way.target, cpu_beside / cpu_alone);
    report_.add(Figure::ShortAloneP50, way.target, p50_alone);
    report_.add(Figure::ShortBesideP50, way.target, p50_beside);
  }
  std::vector<Way> ways_;
  Report& report_;
  double scale_;
  std::map<Target, std::uint64_t> errors_{};
};

// --- all of it
// -------------------------------------------------------------------------------------------------------

void run_quietly(const std::vector<std::string>& command, const std::string& log) {
  Process process{command, log, kLoadCore};
  const TimePoint limit = Clock::now() + 20s;
  while (process.running()) {
    if (Clock::now() > limit) throw std::runtime_error(command.front() + " takes too long");
    std::this_thread::sleep_for(5ms);
  }
}

void make_certificate(const Options& options) {
  const std::string log = options.work + "/openssl.out";
  run_quietly({"openssl",
               "req",
               "-x509",
               "-newkey",
               "ec",
               "-pkeyopt",
               "ec_paramgen_curve:prime256v1",
               "-nodes",
               "-days",
               "2",
               "-subj",
               "/CN=localhost",
               "-addext",
               "subjectAltName=DNS:localhost,IP:127.0.0.1",
               "-keyout",
               options.work + "/key.pem",
               "-out",
               options.work + "/cert.pem"},
              log);
  if (!std::filesystem::exists(options.work + "/cert.pem")) {
    throw std::runtime_error("openssl made no certificate:\n" + text_of(log));
  }
}

void measure_executable(const Options& options, Report& report) {
  const std::string stripped = options.work + "/callgate.stripped";
  run_quietly({"strip", "-o", stripped, options.callgate}, options.work + "/strip.out");
  if (!std::filesystem::exists(stripped)) return;
  report.add(
      Figure::ExecutableSize, Target::Callgate, static_cast<double>(std::filesystem::file_size(stripped)) / 1e6);
}

void allow_many_descriptors() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max < 8192) {
    throw std::runtime_error("needs 8192 descriptors, and the hard limit is " + std::to_string(limit.rlim_max) +
                             "; the mend: ulimit -Hn 20000 as root");
  }
}

void measure(const Options& options) {
  const TimePoint begun = Clock::now();
  allow_many_descriptors();
  std::signal(SIGPIPE, SIG_IGN);
  make_certificate(options);
  pin_to_core(kLoadCore);

  Fd plain = bound_socket(true);
  Fd tls = bound_socket(true);
  const ProviderPorts ports{port_of(plain), port_of(tls)};
  Process provider{[&] {
    try {
      serve_upstream(std::move(plain), std::move(tls), options.work + "/cert.pem", options.work + "/key.pem");
    } catch (const std::exception& error) {
      std::cerr << "the provider ended: " << error.what() << '\n';
    }
  }};
  // The child has its own.
  plain = Fd{};
  tls = Fd{};

  Report report;
  measure_executable(options, report);
  Proxies proxies{options, ports};
  std::set<std::string> absent;
  for (int number = 1; number <= options.rounds; ++number) {
    std::vector<Way> ways{{.target = Target::Direct, .plain = {ports.plain, ""}, .tls = {ports.plain, ""}}};
    for (const Target target : {Target::Nginx, Target::Haproxy, Target::Callgate}) {
      const std::string name{kTargetNames[static_cast<std::size_t>(target)]};
      if (absent.contains(name)) continue;
      try {
        at_rest(proxies.start(target, report), report);
        ways.push_back(proxies.start(target, report));
      } catch (const std::exception& error) {
        std::cerr << name << " is left out: " << error.what() << '\n';
        absent.insert(name);
      }
    }
    Round{options, std::move(ways), report}.run();
    const auto so_far = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begun);
    std::cerr << " round " << number << " of " << options.rounds << ", " << so_far.count() << " s\n";
  }
  std::cout << "\ncallgate beside nginx and HAProxy: medians of " << options.rounds
            << " interleaved rounds; 1 kB request, 2 kB answer unless said; proxies on core 1 of "
            << std::thread::hardware_concurrency() << "\n\n"
            << report.table();
}

Options read_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&]() -> std::string {
      if (i + 1 == argc) throw std::invalid_argument(word + " needs a value");
      return argv[++i];
    };
    if (word == "--work") {
      options.work = value();
    } else if (word == "--callgate") {
      options.callgate = value();
    } else if (word == "--rounds") {
      options.rounds = std::stoi(value());
    } else if (word == "--quick") {
      options.quick = true;
      options.rounds = 1;
    } else {
      throw std::invalid_argument("unknown word " + word + "; known: --rounds N, --quick");
    }
  }
  if (options.work.empty() || options.callgate.empty())
    throw std::invalid_argument("--work and --callgate are needed");
  if (options.rounds < 1) throw std::invalid_argument("--rounds must be at least 1");
  return options;
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  try {
    bench::measure(bench::read_options(argc, argv));
    return 0;
  } catch (const std::invalid_argument& error) {
    std::cerr << "bench overhead: " << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "bench overhead: " << error.what() << '\n';
    return 1;
  }
}
