#include "gateway/upstream_curl_reach.h"

#include <curl/curl.h>

#include <array>
#include <cstdlib>
#include <memory>

#include "gateway/curl_request.h"
#include "gateway/curl_trust.h"

namespace gateway {
namespace {

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string{} : std::string{value};
}

struct Tls {
  TrustStore trust;
  bool began = false;
};
CURLcode on_tls(CURL*, void* connection, void* of) {
  auto& tls = *static_cast<Tls*>(of);
  tls.began = true;
  const bool lent = tls.trust.lend(static_cast<ssl_ctx_st*>(connection));
  return lent ? CURLE_OK : CURLE_SSL_CACERT_BADFILE;
}

Reach::End end_of(CURLcode code, long connect_status) {
  switch (code) {
    case CURLE_OK:
      return Reach::End::Reached;
    case CURLE_COULDNT_RESOLVE_HOST:
      return Reach::End::NoName;
    case CURLE_COULDNT_RESOLVE_PROXY:
      return Reach::End::NoProxyName;
    case CURLE_COULDNT_CONNECT:
      return Reach::End::NotConnected;
    case CURLE_OPERATION_TIMEDOUT:
      return Reach::End::Late;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
      return Reach::End::Untrusted;
    case CURLE_SSL_CONNECT_ERROR:
      return Reach::End::NoTls;
    case CURLE_PROXY:
      return Reach::End::ProxyRefused;
    default:
      return connect_status >= 300 ? Reach::End::ProxyRefused : Reach::End::Other;
  }
}

}  // namespace

Reach reach(const std::string& base_url, const std::string& ca_file, std::chrono::milliseconds patience) {
  static const CURLcode once = curl_global_init(CURL_GLOBAL_ALL);
  Reach found;
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> owned{curl_easy_init(), &curl_easy_cleanup};
  CURL* easy = owned.get();
  if (once != CURLE_OK || easy == nullptr) return found;
  const Destination to = destination(base_url, from_environment);
  Tls tls{TrustStore{ca_file}};
  std::array<char, CURL_ERROR_SIZE> error{};
  curl_easy_setopt(easy, CURLOPT_URL, to.origin.c_str());
  curl_easy_setopt(easy, CURLOPT_PROXY, to.proxy.c_str());
  curl_easy_setopt(easy, CURLOPT_NOPROXY, to.no_proxy.c_str());
  curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(patience.count()));
  curl_easy_setopt(easy, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  for (const CURLoption files : {CURLOPT_CAINFO, CURLOPT_CAPATH, CURLOPT_PROXY_CAINFO, CURLOPT_PROXY_CAPATH})
    curl_easy_setopt(easy, files, nullptr);
  curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, 0L);
  curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, &on_tls);
  curl_easy_setopt(easy, CURLOPT_SSL_CTX_DATA, &tls);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error.data());

  const auto begin = std::chrono::steady_clock::now();
  const CURLcode code = curl_easy_perform(easy);
  found.took = std::chrono::ceil<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
  long connect_status = 0;
  curl_easy_getinfo(easy, CURLINFO_HTTP_CONNECTCODE, &connect_status);
  found.end = end_of(code, connect_status);
  // Of a proxy libcurl may repeat the text that it was given, and a password stands in that.
  const bool in_its_words = to.proxy.empty() && error[0] != '\0';
  if (code != CURLE_OK) found.detail = in_its_words ? error.data() : curl_easy_strerror(code);
  const char* ip = nullptr;
  long port = 0;
  curl_easy_getinfo(easy, CURLINFO_PRIMARY_IP, &ip);
  curl_easy_getinfo(easy, CURLINFO_PRIMARY_PORT, &port);
  if (ip != nullptr && *ip != '\0') found.address = std::string{ip} + ":" + std::to_string(port);
  found.connected = tls.began || code == CURLE_OK;
  found.by_proxy = !to.proxy.empty();
  found.tls = to.tls;
  return found;
}

}  // namespace gateway
