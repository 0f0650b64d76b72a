#include "cli/doctor.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <expected>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/admin_client.h"
#include "cli/config.h"
#include "cli/table.h"
#include "gateway/config_files.h"
#include "gateway/config_values.h"
#include "gateway/upstream_curl_reach.h"
#include "ledger/books.h"
#include "ledger/care.h"

namespace cli {
namespace {

using Json = nlohmann::ordered_json;
using gateway::Config;
using gateway::SecretSource;
using std::chrono::milliseconds;

constexpr milliseconds kPatience{5'000};
constexpr milliseconds kQuickLook{3'000};  // Of a file that may be in use meanwhile.
constexpr std::uint64_t kLittleDisk = 1ULL << 30U;
constexpr std::uint64_t kNoDisk = 64ULL << 20U;
constexpr std::int64_t kSkewMs =
    5'000;  // Rows of the store that are later than now by more: the clock has gone back.
constexpr const char* kOthersEyes = "look again as root, or as callgate's own user";
constexpr std::string_view kProxies = "HTTPS_PROXY, HTTP_PROXY and NO_PROXY";

enum class Level : std::uint8_t { Ok, Warn, Fail };
constexpr std::array<std::string_view, 3> kLevels = {"ok", "warn", "fail"};

struct Finding {
  Level level = Level::Ok;
  std::string check{};  // "config", "keys", "port", "upstream", "clock", "store", "disk", "instance"
  std::string says{};
  std::string mend{};  // Empty where nothing is to be done.
};

class Doctor {
 public:
  Doctor(const gateway::Loaded& loaded, std::string config_name, std::string admin, milliseconds patience)
      : config_(loaded.config),
        loaded_(loaded),
        config_name_(std::move(config_name)),
        admin_(std::move(admin)),
        patience_(patience) {}

  void look_at_config();
  void look_at_keys();
  void look_at_instance();  // Before the ports: who holds them?
  void look_at_ports();
  void look_at_upstreams(const std::vector<std::string>& asked);
  void look_at_clock();
  void look_at_store();
  [[nodiscard]] const std::vector<Finding>& findings() const { return findings_; }

 private:
  void add(Level level, std::string_view check, std::string says, std::string mend = {}) {
    findings_.push_back({level, std::string{check}, std::move(says), std::move(mend)});
  }
  void look_at_key(const std::string& name, const SecretSource& source);
  [[nodiscard]] std::expected<AdminAnswer, Unreachable> ask(const std::string& address,
                                                            const std::string& path) const;
  [[nodiscard]] std::vector<std::string> upstreams_in_use() const;
  void tell_reach(const std::string& name, const std::string& url, const gateway::Reach& reach);
  void tell_upstreams(const Json& json);
  void tell_pauses(const Json& json);

  const Config& config_;
  const gateway::Loaded& loaded_;
  const std::string config_name_;
  const std::string admin_;  // Where the running one is asked.
  const milliseconds patience_;
  bool running_ = false;
  std::vector<Finding> findings_{};
};

void Doctor::look_at_config() {
  for (const gateway::Problem& problem : loaded_.problems) {
    // Of keys the next check tells, and how to mend them.
    if (loaded_.usable() && problem.kind == gateway::Problem::Kind::Exposure &&
        problem.message.find("chmod 0640") != std::string::npos)
      continue;
    const bool error = problem.severity == gateway::Problem::Severity::Error;
    add(error ? Level::Fail : Level::Warn,
        problem.kind == gateway::Problem::Kind::Secret ? "keys" : "config",
        gateway::text_of(problem));
  }
  if (loaded_.usable()) {
    add(Level::Ok, "config", config_name_ + " is valid");
  } else {
    add(Level::Fail, "config", config_name_ + " is refused", "mend what stands above; nothing else was looked at");
  }
}

void Doctor::look_at_key(const std::string& name, const SecretSource& source) {
  if (!source.given()) return;
  if (source.from == SecretSource::From::Environment) {
    add(Level::Ok, "keys", name + ": from the environment variable " + source.name);
    return;
  }
  struct stat about {};
  const std::string file = gateway::say(source.name);
  if (::stat(source.name.c_str(), &about) != 0) {
    const int error = errno;
    add(Level::Fail,
        "keys",
        name + ": " + file + ": " + std::strerror(error),
        error == EACCES ? kOthersEyes : "put the key there");
    return;
  }
  // Wider than 0640 in any way.
  if ((about.st_mode & 0137U) != 0 && !gateway::in_a_pods_volume(source.name)) {
    std::array<char, 8> mode{};
    std::snprintf(mode.data(), mode.size(), "%04o", static_cast<unsigned>(about.st_mode & 07777U));
    add(Level::Warn,
        "keys",
        name + ": the mode of " + file + " is " + mode.data() + ", wider than 0640",
        "chmod 0640 " + file);
    return;
  }
  add(Level::Ok, "keys", name + ": " + file);
}

void Doctor::look_at_keys() {
  for (const gateway::UpstreamConfig& upstream : config_.upstreams) {
    for (const gateway::CredentialConfig& credential : upstream.credentials)
      look_at_key(upstream.name + "/" + credential.name, credential.key);
  }
  look_at_key("listen.admin_token", config_.listen.admin_token);
  look_at_key("store.payload_key", config_.store.payload_key);
  look_at_key("tracing.otlp_headers", config_.tracing.otlp_headers);
  look_at_key("webhooks.secret", config_.webhooks.secret);
}

std::expected<AdminAnswer, Unreachable> Doctor::ask(const std::string& address, const std::string& path) const {
  AdminRequest request;
  request.address = address;
  request.method = "GET";
  request.path = path;
  if (config_.listen.admin_token.given() && address == admin_) {
    const auto token = gateway::read_token(config_.listen.admin_token, gateway::process_environment());
    if (token) request.token = *token;
  }
  return ask_admin(request, patience_);
}

void Doctor::tell_upstreams(const Json& json) {
  std::size_t well = 0;
  for (const Json& one : json.at("upstreams")) {
    const std::string name = word(one.at("name"));
    const std::size_t before = findings_.size();
    for (const Json& breaker : one.at("breakers"))
      add(Level::Warn,
          "instance",
          name + ": breaker " + word(breaker.at("state")) + " for " + word(breaker.at("model")) + " (" +
              word(breaker.at("reason")) + ")",
          "it closes by itself when the provider answers again; callgate upstreams says when it is tried");
    for (const Json& credential : one.at("credentials")) {
      if (credential.at("quarantined_for").is_null()) continue;
      add(Level::Fail,
          "instance",
          name + ": key " + word(credential.at("name")) + " is left out (" + word(credential.at("quarantined_for")) +
              ")",
          "renew the key or the account's money; docs/operations.md, a key is left out");
    }
    if (findings_.size() == before) ++well;
  }
  add(Level::Ok,
      "instance",
      std::to_string(well) + " of " + std::to_string(json.at("upstreams").size()) +
          " upstreams have no open breaker and no key left out");
}

void Doctor::tell_pauses(const Json& json) {
  for (const char* group : {"tenants", "lanes", "upstreams", "queues"}) {
    if (!json.contains(group)) continue;
    for (const Json& one : json.at(group)) {
      if (!one.contains("paused") || one.at("paused").is_null()) continue;
      const std::string kind{group, std::strlen(group) - 1};
      const std::string name = word(one.at("name"));
      add(Level::Warn,
          "instance",
          kind + " " + name + " is paused, " + word(one.at("paused")),
          "callgate resume " + kind + " " + name);
    }
  }
}

void Doctor::look_at_instance() {
  const std::string& address = admin_;
  const auto upstreams = ask(address, "/v1/upstreams");
  if (!upstreams && upstreams.error().denied) {
    // Whoever listens for health may be asked by anybody.
    running_ = ask(config_.listen.health, "/livez").has_value();
    add(Level::Warn, "instance", "this user may not ask at " + address, kOthersEyes);
    return;
  }
  if (!upstreams) {
    add(Level::Ok, "instance", "no callgate answers at " + address);
    return;
  }
  if (upstreams->status == 401 || upstreams->status == 403) {
    running_ = true;
    add(Level::Warn,
        "instance",
        "callgate at " + address + " does not take our token",
        "give listen.admin_token of its configuration");
    return;
  }
  try {
    if (upstreams->status == 503) {
      running_ = true;
      add(Level::Fail,
          "instance",
          "callgate at " + address + " does not answer in time: its I/O thread is busy or stuck",
          "look at /livez and its log");
      return;
    }
    const Json json = Json::parse(upstreams->body);
    (void)json.at("upstreams");
    running_ = true;
    add(Level::Ok, "instance", "callgate answers at " + address);
    if (const auto ready = ask(config_.listen.health, "/readyz"); ready) {
      const std::string body = cell(ready->body.substr(0, ready->body.find_last_not_of('\n') + 1), 200);
      const bool well = ready->status == 200 && body == "ok";
      add(ready->status != 200 ? Level::Fail : well ? Level::Ok : Level::Warn, "instance", "/readyz says: " + body);
    }
    tell_upstreams(json);
    if (const auto status = ask(address, "/v1/status"); status && status->status == 200)
      tell_pauses(Json::parse(status->body));
  } catch (const Json::exception&) {
    add(Level::Warn,
        "instance",
        "what listens at " + address + " is no callgate of this version",
        "look at who holds listen.admin");
  }
}

/// 0, or the errno of an attempt to listen there.
int listening_fails(const gateway::Address& address) {
  sockaddr_storage at{};
  socklen_t size = 0;
  if (!address.unix_path.empty()) {
    // A socket that nobody listens at is taken over by callgate itself; who listens is told by the instance.
    const std::string folder = std::filesystem::path{address.unix_path}.parent_path().string();
    return ::access(folder.c_str(), W_OK | X_OK) == 0 ? 0 : errno;
  }
  std::string host = address.host == "localhost" ? "127.0.0.1" : address.host;
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(static_cast<std::uint16_t>(address.port));
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = v4.sin_port;
  if (::inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
    std::memcpy(&at, &v4, size = sizeof v4);
  } else if (::inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) == 1) {
    std::memcpy(&at, &v6, size = sizeof v6);
  } else {
    return EADDRNOTAVAIL;
  }
  const int fd = ::socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const int yes = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  int error = 0;
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&at), size) != 0 || ::listen(fd, 1) != 0) error = errno;
  ::close(fd);
  return error;
}

void Doctor::look_at_ports() {
  const std::pair<const char*, const std::string&> all[] = {{"listen.data", config_.listen.data},
                                                            {"listen.health", config_.listen.health},
                                                            {"listen.admin", config_.listen.admin}};
  for (const auto& [key, text] : all) {
    const auto address = gateway::read_address(text);
    if (!address) continue;  // The configuration's check has said so.
    const std::string name = std::string{key} + " " + text;
    const int error = running_ && !address->unix_path.empty() ? 0 : listening_fails(*address);
    if (error == 0) {
      const bool held = running_ && !address->unix_path.empty();
      add(Level::Ok, "port", name + (held ? ": held by callgate" : ": free"));
    } else if (error == EADDRINUSE && running_) {
      add(Level::Ok, "port", name + ": held by callgate");
    } else if (error == EADDRINUSE) {
      add(Level::Fail,
          "port",
          name + ": another program listens there",
          "ss -ltnp tells which one; or choose another port");
    } else if (error == EACCES) {
      add(Level::Fail,
          "port",
          name + ": this user may not listen there",
          "take a port above 1023, or a folder that it may write to");
    } else if (error == ENOENT) {
      add(Level::Warn,
          "port",
          name + ": its folder is not there",
          "make it; the systemd unit makes its own when it starts");
    } else {
      add(Level::Fail, "port", name + ": " + std::strerror(error), "give an address of this machine");
    }
  }
}

/// Those that the operator has written something about.
std::vector<std::string> Doctor::upstreams_in_use() const {
  std::set<std::string> names;
  for (const gateway::Setting& setting : loaded_.settings) {
    const bool own = setting.origin != "default" && setting.origin != "built in";
    if (own && setting.path.size() > 1 && setting.path[0] == "upstreams") names.insert(setting.path[1]);
  }
  for (const gateway::RouteConfig& route : config_.routes) {
    for (const gateway::RouteStep& step : route.steps) names.insert(step.upstream);
  }
  return {names.begin(), names.end()};
}

void Doctor::tell_reach(const std::string& name, const std::string& url, const gateway::Reach& reach) {
  using End = gateway::Reach::End;
  const std::string where = name + " (" + url + ")";
  const std::string by = reach.by_proxy ? " through the proxy" : "";
  const std::string detail = reach.detail.empty() ? "" : ": " + cell(reach.detail, 200);
  const auto fail = [&](const std::string& says, std::string mend) {
    add(Level::Fail, "upstream", where + ": " + says + detail, std::move(mend));
  };
  switch (reach.end) {
    case End::Reached:
      add(Level::Ok,
          "upstream",
          where + ": reached" + by + (reach.tls ? ", its certificate is believed" : "") + ", in " +
              std::to_string(reach.took.count()) + " ms" + (reach.by_proxy ? "" : ", at " + reach.address));
      return;
    case End::NoName:
      return fail("its name cannot be resolved",
                  "look at /etc/resolv.conf; where only a proxy leads outside, set " + std::string{kProxies});
    case End::NoProxyName:
      return fail("the proxy's name cannot be resolved", "look at " + std::string{kProxies});
    case End::NotConnected:
      return fail(reach.by_proxy ? "the proxy cannot be reached" : "cannot connect",
                  reach.by_proxy
                      ? "look at " + std::string{kProxies}
                      : "is it up, and does a firewall let us out? Behind a proxy set " + std::string{kProxies});
    case End::ProxyRefused:
      return fail("the proxy does not let us through", "let it pass this host, or name the host in NO_PROXY");
    case End::Untrusted:
      return fail("its certificate is not believed",
                  "install ca-certificates, or name the authority of your own proxy or provider in upstreams." +
                      name + ".ca_file; a wrong clock looks like this, too");
    case End::NoTls:
      return fail("no TLS 1.2 or later there", "is the URL's scheme and port right?");
    case End::Late:
      if (reach.connected)
        return fail("connected" + by + ", but no TLS handshake within " + gateway::say_duration(patience_.count()),
                    "is the URL's scheme and port right? --timeout waits longer");
      return fail("no connection within " + gateway::say_duration(patience_.count()),
                  "a firewall that drops packets looks like this; --timeout waits longer, behind a proxy set " +
                      std::string{kProxies});
    case End::Other:
      return fail("the connection failed" + by, "try again; if it stays, look at the network in between");
  }
}

void Doctor::look_at_upstreams(const std::vector<std::string>& asked) {
  const std::vector<std::string> names = asked.empty() ? upstreams_in_use() : asked;
  if (names.empty()) {
    add(Level::Ok, "upstream", "none is configured beyond those that are built in; --upstream openai looks at one");
    return;
  }
  std::vector<std::pair<const gateway::UpstreamConfig*, std::future<gateway::Reach>>> all;
  for (const gateway::UpstreamConfig& upstream : config_.upstreams) {
    if (std::ranges::find(names, upstream.name) == names.end()) continue;
    all.emplace_back(&upstream, std::async(std::launch::async, [&upstream, patience = patience_] {
      return gateway::reach(upstream.url, upstream.ca_file, patience);
    }));
  }
  for (auto& [upstream, found] : all) tell_reach(upstream->name, upstream->url, found.get());
}

void Doctor::look_at_clock() {
  timex clock{};
  const int state = ::adjtimex(&clock);
  if (state < 0) return;  // A sandbox that does not let us ask.
  if ((clock.status & STA_UNSYNC) != 0) {
    add(Level::Warn,
        "clock",
        "the kernel does not know of a time server that keeps its clock right",
        "timedatectl set-ntp true, or in a virtual machine or container look at its host; budgets' days and prices' "
        "dates follow the clock");
  } else {
    add(Level::Ok, "clock", "kept right by a time server");
  }
}

void Doctor::look_at_store() {
  const std::string& path = config_.store.path;
  if (path.starts_with(":memory:")) {
    add(Level::Warn, "store", "store.path is :memory:, so nothing outlives the process", "name a file");
    return;
  }
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0) {
    if (errno == EACCES)
      return add(Level::Warn, "store", "this user may not look into " + folder.string(), kOthersEyes);
    add(Level::Fail,
        "store",
        "the folder of " + path + ": " + std::strerror(errno),
        "make " + folder.string() + ", or change store.path");
    return;
  }
  const std::uint64_t free = std::uint64_t{disk.f_bavail} * disk.f_frsize;
  const std::string has = folder.string() + ": " + std::to_string(free >> 20U) + " MiB free";
  if (free < kNoDisk) {
    add(Level::Fail, "disk", has, "make room, else runs are refused and calls are not written down");
  } else if (free < kLittleDisk) {
    add(Level::Warn, "disk", has, "make room, or keep less: store.retention, dead_letters.max_bytes");
  } else {
    add(Level::Ok, "disk", has);
  }

  if (::access(path.c_str(), R_OK) != 0) {
    if (errno == ENOENT) return add(Level::Ok, "store", path + " is not there yet; the first start makes it");
    return add(Level::Warn, "store", "this user may not look into " + path, kOthersEyes);
  }
  const ledger::QuickLook look = ledger::quick_check(path, kQuickLook);
  for (const std::string& one : look.wrong)
    add(Level::Fail, "store", cell(one, 300), "callgate ledger check says all; a start sets a broken file aside");
  if (!look.wrong.empty()) return;
  add(Level::Ok,
      "store",
      path + ": sound as far as a quick look goes" +
          (look.whole ? "" : "; it is large, so the look was cut short (callgate ledger check sees all of it)"));
  const auto books = ledger::open_books(path);
  if (!books) return add(Level::Fail, "store", cell(books.error(), 300));
  ledger::CallsAsk ask;
  ask.most = 1;
  const auto calls = (*books)->calls(ask);
  if (!calls || calls->empty()) return;
  const auto now = std::chrono::floor<milliseconds>(std::chrono::system_clock::now()).time_since_epoch().count();
  const std::int64_t ahead = (*calls)[0].began_ms - now;
  if (ahead > kSkewMs)
    add(Level::Warn,
        "clock",
        "the last call in the store began " + std::to_string(ahead / 1'000) + " s after now: the clock has gone back",
        "set the clock right; until it has caught up, times of calls are out of order");
}

int tell(const std::vector<Finding>& findings, const Arguments& arguments, Terminal& terminal) {
  Level worst = Level::Ok;
  for (const Finding& one : findings) worst = std::max(worst, one.level);
  const auto name = [](Level level) { return std::string{kLevels[static_cast<std::size_t>(level)]}; };
  if (arguments.has("--json")) {
    Json list = Json::array();
    for (const Finding& one : findings)
      list.push_back({{"level", name(one.level)},
                      {"check", one.check},
                      {"says", one.says},
                      {"mend", one.mend.empty() ? Json(nullptr) : Json(one.mend)}});
    terminal.out << Json{{"worst", name(worst)}, {"findings", list}}.dump(
                        2, ' ', false, Json::error_handler_t::replace)
                 << '\n';
  } else if (arguments.has("--plain")) {
    for (const Finding& one : findings)
      terminal.out << name(one.level) << '\t' << one.check << '\t' << cell(one.says, 600) << '\t'
                   << cell(one.mend, 600) << '\n';
  } else {
    for (const Finding& one : findings) {
      const std::string level = name(one.level) + std::string(6 - name(one.level).size(), ' ');
      const std::string check = one.check + std::string(10 - std::min<std::size_t>(9, one.check.size()), ' ');
      const bool colour = terminal.colour_out && one.level != Level::Ok;
      terminal.out << toned(level, one.level == Level::Fail ? Tone::Red : Tone::Yellow, colour) << check
                   << cell(one.says, 600) << '\n';
      if (!one.mend.empty()) terminal.out << std::string(16, ' ') << "mend: " << cell(one.mend, 600) << '\n';
    }
  }
  return worst == Level::Fail ? kFailed : kDone;
}

}  // namespace

int doctor(const Arguments& arguments, Terminal& terminal) {
  const auto misuse = [&](const std::string& why) {
    terminal.err << "callgate doctor: " << why << "\nSee \"callgate doctor --help\".\n";
    return kUsage;
  };
  milliseconds patience = kPatience;
  if (arguments.has("--timeout")) {
    const auto given = gateway::read_duration(arguments.get("--timeout"));
    if (!given || *given <= 0 || *given > 600'000)
      return misuse("--timeout must be a duration such as 5s, at most 10m (is " +
                    gateway::say(arguments.get("--timeout")) + ")");
    patience = milliseconds{*given};
  }
  if (arguments.has("--admin") && !gateway::read_address(arguments.get("--admin")))
    return misuse("--admin must be an address such as 127.0.0.1:4602 or unix:/path (is " +
                  gateway::say(arguments.get("--admin")) + ")");
  const std::string file = config_file(arguments);
  const gateway::Loaded loaded = load(arguments, terminal);
  const std::string admin = arguments.get("--admin", loaded.config.listen.admin);
  const std::vector<std::string> asked = arguments.all("--upstream");
  std::vector<std::string> known;
  for (const gateway::UpstreamConfig& upstream : loaded.config.upstreams) known.push_back(upstream.name);
  for (const std::string& name : asked) {
    if (!loaded.usable() || std::ranges::find(known, name) != known.end()) continue;
    const std::string meant = gateway::nearest(name, known);
    return misuse("there is no upstream " + gateway::say(name) +
                  (meant.empty() ? "" : "; did you mean " + meant + "?"));
  }
  Doctor doctor{loaded, file.empty() ? "the built-in configuration" : file, admin, patience};
  doctor.look_at_config();
  if (loaded.usable()) {
    doctor.look_at_keys();
    doctor.look_at_instance();
    doctor.look_at_ports();
    doctor.look_at_upstreams(asked);
    doctor.look_at_clock();
    doctor.look_at_store();
  }
  const int code = tell(doctor.findings(), arguments, terminal);
  return loaded.usable() ? code : kInvalid;
}

}  // namespace cli
