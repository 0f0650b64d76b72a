#include "gateway/admin.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "gateway/config_files.h"
#include "gateway/config_print.h"
#include "gateway/endpoint.h"

namespace gateway {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kBodyMax = 64 * 1024;  // Nothing that is asked here has a body; a polite client may send one.
constexpr std::string_view kBearer = "bearer ";

std::string dumped(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

EndpointAnswer json_answer(int status, const Json& json) {
  EndpointAnswer answer;
  answer.status = status;
  answer.type = "application/json";
  answer.body = dumped(json);
  return answer;
}

/// RFC 9457.
EndpointAnswer problem(int status, std::string_view title, std::string_view detail, Json more = Json::object()) {
  Json json{{"title", title}, {"status", status}, {"detail", detail}};
  json.update(more);
  EndpointAnswer answer = json_answer(status, json);
  answer.type = "application/problem+json";
  return answer;
}

EndpointAnswer no_answer() {
  return problem(503, "No answer in time", "The I/O thread did not answer in time; ask again, and look at /livez.");
}

/// A token may be rotated at any time, and its file be away or empty for a moment: the last good one stays.
class TokenKeeper {
 public:
  explicit TokenKeeper(const AdminAccess& access) : source_(access.token) { refresh(access.environment); }

  void refresh(const Environment& environment) {
    if (auto read = read_secret(source_, environment)) last_good_ = std::move(*read);
  }
  [[nodiscard]] const SecretSource& source() const { return source_; }

  /// Takes as long for a near miss as for anything else.
  [[nodiscard]] bool is(std::string_view shown) const {
    return !last_good_.empty() && CRYPTO_memcmp(digest(shown).data(), digest(last_good_).data(), kDigest) == 0;
  }

 private:
  static constexpr std::size_t kDigest = SHA256_DIGEST_LENGTH;
  static std::array<unsigned char, kDigest> digest(std::string_view text) {
    std::array<unsigned char, kDigest> out{};
    SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), out.data());
    return out;
  }

  SecretSource source_;
  std::string last_good_{};
};

/// "localhost:4602" -> "localhost"
std::string_view without_port(std::string_view host) {
  const std::size_t colon = host.rfind(':');
  const bool v6_alone = host.ends_with(']');
  return colon == std::string_view::npos || v6_alone ? host : host.substr(0, colon);
}

bool is_listed(std::string_view host, const std::vector<std::string>& hosts) {
  return std::ranges::any_of(hosts, [&](const std::string& one) { return classifier::same_name(one, host); });
}

Json json_of(const ReloadReport& report) {
  Json changed = Json::array();
  for (const Change& change : report.changed) {
    Json one{{"path", change.path}, {"from", nullptr}, {"to", nullptr}};
    if (!change.from.empty()) one["from"] = change.from;
    if (!change.to.empty()) one["to"] = change.to;
    changed.push_back(std::move(one));
  }
  return {{"result", name_of(report.result)},
          {"file", report.file},
          {"changed", std::move(changed)},
          {"restart_needed", report.restart_needed},
          {"problems", Json::parse(problems_json(report.problems))}};
}

struct Call {
  std::string_view method;
  std::string_view path;
  EndpointAnswer (*answer)(const AdminSources& sources);
};
constexpr Call kCalls[] = {
    {"POST",
     "/v1/reload",
     [](const AdminSources& sources) {
       const std::optional<ReloadReport> report = sources.reload();
       if (!report) return no_answer();
       if (report->result != ReloadReport::Result::Refused) return json_answer(200, json_of(*report));
       return problem(422,
                      "The configuration is refused",
                      "Nothing has changed; the problems say what to mend.",
                      json_of(*report));
     }},
    {"GET",
     "/v1/config",
     [](const AdminSources& sources) {
       const auto settings = sources.settings();
       if (!settings) return no_answer();
       EndpointAnswer answer;
       answer.type = "application/json";
       answer.body = settings_json(*settings);
       return answer;
     }},
    {"GET",
     "/v1/version",
     [](const AdminSources& /*sources*/) {
       return json_answer(200, {{"version", CALLGATE_VERSION}});
     }},
};

}  // namespace

class AdminServer::Impl {
 public:
  Impl(const std::string& address, AdminAccess access, AdminSources sources)
      : access_(std::move(access)), token_(access_), sources_(std::move(sources)), endpoint_(options_for(address)) {}

  [[nodiscard]] const std::string& address() const { return endpoint_.address(); }

  void update(AdminAccess access) {
    const std::scoped_lock lock{mutex_};
    next_ = std::move(access);
  }

 private:
  EndpointOptions options_for(const std::string& address) {
    EndpointOptions options;
    options.address = address;
    options.key = "listen.admin";
    options.purpose = "the admin API";
    options.example = "127.0.0.1:4602, [::1]:4602 or unix:/run/callgate/admin.sock";
    options.on_file = true;
    options.body_max = kBodyMax;
    options.answer = [this](const EndpointRequest& request) {
      std::optional<EndpointAnswer> refused = refusal_of(request);
      return refused ? std::move(*refused) : answer_to(request);
    };
    return options;
  }

  /// Here and not in update(): a token's file is read, which may take its time.
  void take_next_access() {
    std::optional<AdminAccess> next;
    {
      const std::scoped_lock lock{mutex_};
      next = std::exchange(next_, std::nullopt);
    }
    if (!next) return;
    // Of another source nothing of the old one is left.
    if (next->token != token_.source()) token_ = TokenKeeper{*next};
    access_ = std::move(*next);
  }

  std::optional<EndpointAnswer> refusal_of(const EndpointRequest& request) {
    take_next_access();
    // A web page must not be able to ask for anything, by its own name for us or by ours.
    const auto count = [&](std::string_view name) {
      return std::ranges::count_if(request.headers,
                                   [&](const auto& h) { return classifier::same_name(h.name, name); });
    };
    if (count("host") != 1) return problem(400, "Bad request", "Exactly one Host header is needed.");
    if (!is_listed(without_port(*classifier::find(request.headers, "host")), access_.hosts)) {
      return problem(403, "Forbidden", "This Host is not among listen.hosts.");
    }
    if (count("origin") > 0) return problem(403, "Forbidden", "Web pages are not answered (an Origin header).");
    if (!access_.token.given()) return std::nullopt;
    token_.refresh(access_.environment);
    if (count("authorization") == 1) {
      const std::string_view shown = *classifier::find(request.headers, "authorization");
      if (classifier::same_name(shown.substr(0, kBearer.size()), kBearer) &&
          token_.is(shown.substr(kBearer.size()))) {
        return std::nullopt;
      }
    }
    EndpointAnswer answer =
        problem(401, "Unauthorized", "Authorization: Bearer with the token of listen.admin_token is needed.");
    answer.headers.push_back({"WWW-Authenticate", "Bearer"});
    return answer;
  }

  EndpointAnswer answer_to(const EndpointRequest& request) const {
    std::string methods;
    for (const Call& call : kCalls) {
      if (call.path != request.path) continue;
      if (call.method == request.method) return call.answer(sources_);
      methods += (methods.empty() ? "" : ", ") + std::string{call.method};
    }
    if (!methods.empty()) {
      EndpointAnswer answer = problem(405, "Method not allowed", "Only " + methods + " is answered here.");
      answer.headers.push_back({"Allow", methods});
      return answer;
    }
    Json there = Json::array();
    for (const Call& call : kCalls) there.push_back(std::string{call.method} + " " + std::string{call.path});
    return problem(404, "Not found", "There is no such page.", {{"there_is", there}});
  }

  std::mutex mutex_{};
  std::optional<AdminAccess> next_{};  // With the mutex; all else is the endpoint's thread's.
  AdminAccess access_;
  TokenKeeper token_;
  const AdminSources sources_;
  Endpoint endpoint_;
};

AdminServer::AdminServer(const std::string& address, AdminAccess access, AdminSources sources)
    : impl_(std::make_unique<Impl>(address, std::move(access), std::move(sources))) {}
AdminServer::~AdminServer() = default;
const std::string& AdminServer::address() const { return impl_->address(); }
void AdminServer::update(AdminAccess access) { impl_->update(std::move(access)); }

}  // namespace gateway
