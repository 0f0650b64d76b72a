// A provider that does what it is told: for tests, for the demo and for strangers. README.md in this folder.

#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/fake_provider_answer.h"
#include "tests/support/fake_provider_cert.h"
#include "tests/support/fake_provider_control.h"
#include "tests/support/fake_provider_http1.h"
#include "tests/support/fake_provider_http2.h"
#include "tests/support/fake_provider_records.h"
#include "tests/support/fake_provider_script.h"
#include "tests/support/fake_provider_transport.h"

namespace {

using namespace fake_provider;

struct Options {
  std::string listen = "127.0.0.1:0";
  std::string control = "127.0.0.1:0";
  std::string tls_cert{};
  std::string tls_key{};
  std::string self_signed{};
  std::string cert_host{};
  bool cert_expired = false;
  bool http2 = false;
  bool quiet_records = false;
  bool stdin_watch = true;
};

constexpr std::string_view kUsage =
    "fake_provider [--listen 127.0.0.1:0] [--control 127.0.0.1:0] [--http2] [--quiet-records] "
    "[--no-stdin-watch]\n"
    "              [--tls-cert FILE --tls-key FILE | --self-signed DIR [--cert-host NAME] [--cert-expired]]\n"
    "Prints one line of JSON with its addresses, then serves until SIGTERM or until its standard input, if "
    "that is\n"
    "a pipe, is closed.\n";

Options options_from(const std::vector<std::string_view>& words) {
  Options options;
  const std::pair<std::string_view, std::string Options::*> texts[] = {
      {"--listen", &Options::listen},
      {"--control", &Options::control},
      {"--tls-cert", &Options::tls_cert},
      {"--tls-key", &Options::tls_key},
      {"--self-signed", &Options::self_signed},
      {"--cert-host", &Options::cert_host},
  };
  const std::tuple<std::string_view, bool Options::*, bool> flags[] = {
      {"--cert-expired", &Options::cert_expired, true},
      {"--http2", &Options::http2, true},
      {"--quiet-records", &Options::quiet_records, true},
      {"--no-stdin-watch", &Options::stdin_watch, false},
  };
  for (std::size_t i = 0; i < words.size(); ++i) {
    bool known = false;
    for (const auto& [name, member] : texts) {
      if (words[i] != name) continue;
      if (i + 1 == words.size()) throw std::runtime_error(std::string{name} + " needs a value");
      options.*member = words[++i];
      known = true;
      break;
    }
    for (const auto& [name, member, value] : flags) {
      if (known || words[i] != name) continue;
      options.*member = value;
      known = true;
    }
    if (!known) throw std::runtime_error("unknown option " + std::string{words[i]} + "\n" + std::string{kUsage});
  }
  if (options.tls_cert.empty() != options.tls_key.empty()) {
    throw std::runtime_error("--tls-cert and --tls-key go together");
  }
  return options;
}

void serve(const Options& options) {
  std::string cert_file = options.tls_cert;
  std::string key_file = options.tls_key;
  if (!options.self_signed.empty()) {
    const auto made = make_cert(options.self_signed, options.cert_host, options.cert_expired);
    cert_file = made.cert_file;
    key_file = made.key_file;
  }

  Records records{options.quiet_records};
  Script script;
  EventLoop loop;
  std::unique_ptr<Control> control;
  const auto changed = [&control] {
    if (control) control->changed();
  };
  const OpenExchange open = [&](Wire& wire, Request request) {
    return open_exchange({loop, records, script}, wire, std::move(request));
  };
  TakeHttp2 take_http2;
  if (options.http2) {
    take_http2 = [&](std::shared_ptr<Transport> transport, std::string already_read) {
      serve_http2(loop, std::move(transport), open, std::move(already_read));
    };
  }
  const auto take = [&](Listener::Taken taken) {
    if (taken.http2) {
      serve_http2(loop, std::move(taken.transport), open, {});
    } else {
      serve_http1(loop, std::move(taken.transport), open, take_http2);
    }
  };
  const auto data = loop.listen({options.listen, cert_file, key_file, options.http2}, take, changed);
  control = std::make_unique<Control>(loop, records, script, *data);
  records.on_change(changed);
  const auto take_control = [&](Listener::Taken taken) {
    const OpenExchange open_control = [&](Wire& wire, Request request) {
      return control->open(wire, std::move(request));
    };
    serve_http1(loop, std::move(taken.transport), open_control, {});
  };
  const auto control_listener = loop.listen({options.control, "", "", false}, take_control, [] {});

  const nlohmann::json line = {{"event", "listening"},
                               {"url", (cert_file.empty() ? "http://" : "https://") + data->address()},
                               {"control", "http://" + control_listener->address()}};
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
  loop.run(options.stdin_watch);
  records.on_change({});
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  // Each stream takes a descriptor, and thousands of them are a normal benchmark.
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  try {
    const std::vector<std::string_view> words(argv + 1, argv + argc);
    if (words.size() == 1 && words[0] == "--help") {
      std::fputs(kUsage.data(), stdout);
      return 0;
    }
    serve(options_from(words));
    return 0;
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "fake_provider: %s\n", problem.what());
    return 1;
  }
}
