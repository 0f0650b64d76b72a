#include "gateway/health.h"

#include <utility>

namespace gateway {
namespace {

constexpr const char* kMetricsText = "text/plain; version=0.0.4; charset=utf-8";

EndpointAnswer text(int status, std::string body) {
  EndpointAnswer answer;
  answer.status = status;
  answer.body = std::move(body);
  return answer;
}

EndpointAnswer page(const HealthSources& sources, const EndpointRequest& request) {
  const bool known = request.path == "/livez" || request.path == "/readyz" || request.path == "/metrics";
  if (!known) return text(404, "only /livez, /readyz and /metrics are here\n");
  if (request.method != "GET" && request.method != "HEAD") {
    EndpointAnswer answer = text(405, "only GET and HEAD\n");
    answer.headers.push_back({"Allow", "GET, HEAD"});
    return answer;
  }
  if (request.path == "/livez") {
    const bool alive = sources.alive();
    return text(alive ? 200 : 503, alive ? "ok\n" : "the I/O thread does not turn\n");
  }
  if (request.path == "/readyz") {
    const std::string reasons = sources.not_ready_because();
    if (!reasons.empty()) return text(503, reasons + "\n");
    const std::string remark = sources.remark ? sources.remark() : std::string{};
    return text(200, remark.empty() ? "ok\n" : "ok, but " + remark + "\n");
  }
  if (request.spare_memory) return text(503, "too many scrapes at once\n");
  const bool last = sources.settled && sources.settled() && request.method == "GET";  // Asked before they are made.
  EndpointAnswer answer = text(200, sources.metrics());
  answer.type = kMetricsText;
  if (last) answer.taken = sources.last_taken;
  return answer;
}

EndpointOptions options_for(const std::string& address, HealthSources sources) {
  EndpointOptions options;
  options.address = address;
  options.key = "listen.health";
  options.purpose = "health and metrics";
  options.example = "127.0.0.1:4601 or [::1]:4601";
  options.answer = [sources = std::move(sources)](const EndpointRequest& request) { return page(sources, request); };
  return options;
}

}  // namespace

HealthServer::HealthServer(const std::string& address, HealthSources sources)
    : endpoint_(options_for(address, std::move(sources))) {}

}  // namespace gateway
