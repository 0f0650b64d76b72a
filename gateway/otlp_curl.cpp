#include "gateway/otlp_curl.h"

#include <curl/curl.h>
#include <zlib.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>

#include "classifier/retry_after.h"
#include "gateway/curl_request.h"
#include "gateway/otlp_json.h"

namespace gateway {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kAnswerMax = 64 * 1024;
constexpr milliseconds kLookUp{100};  // So often it is looked whether to stop.
constexpr milliseconds kConnectMax{5'000};

std::string variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody writes there.
  return value == nullptr ? std::string{} : std::string{value};
}

/// Empty: it could not be packed.
std::string gzipped(const std::string& text) {
  z_stream stream{};
  constexpr int kGzip = 16 + MAX_WBITS;
  if (text.size() > std::numeric_limits<uInt>::max() ||
      deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    return {};
  std::string packed(deflateBound(&stream, static_cast<uLong>(text.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));  // NOLINT: zlib only reads it.
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());  // NOLINT(cppcoreguidelines-pro-type-reinterpret-cast)
  stream.avail_out = static_cast<uInt>(packed.size());
  const bool done = deflate(&stream, Z_FINISH) == Z_STREAM_END;
  packed.resize(done ? stream.total_out : 0);
  deflateEnd(&stream);
  return packed;
}

std::size_t on_body(char* bytes, std::size_t size, std::size_t count, void* into) {
  auto& body = *static_cast<std::string*>(into);
  if (body.size() + size * count > kAnswerMax) return 0;  // Ends it; its status is known.
  body.append(bytes, size * count);
  return size * count;
}

class CurlWire final : public OtlpWire {
 public:
  CurlWire() : multi_(curl_multi_init()), easy_(curl_easy_init()) {}
  ~CurlWire() override {
    curl_easy_cleanup(easy_);
    curl_multi_cleanup(multi_);
  }
  CurlWire(const CurlWire&) = delete;
  CurlWire& operator=(const CurlWire&) = delete;

  OtlpAnswer post(const OtlpTarget& target, const std::string& body, TimePoint until,
                  const std::function<bool()>& stop) override {
    OtlpAnswer answer;
    if (!multi_ || !easy_) {
      answer.why = "libcurl cannot begin";
      return answer;
    }
    const std::string packed = target.gzip ? gzipped(body) : std::string{};
    const std::string& sent = packed.empty() ? body : packed;
    std::string said;
    curl_slist* headers = headers_of(target, !packed.empty());
    curl_easy_reset(easy_);
    set_up(target);
    set(CURLOPT_HTTPHEADER, headers);
    set(CURLOPT_POSTFIELDS, sent.data());
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(sent.size()));
    set(CURLOPT_WRITEDATA, &said);
    curl_multi_add_handle(multi_, easy_);
    const CURLcode result = perform(until, stop);
    read(answer, result, said);
    curl_multi_remove_handle(multi_, easy_);
    curl_slist_free_all(headers);
    return answer;
  }

 private:
  template <typename Value>
  void set(CURLoption option, Value value) {
    curl_easy_setopt(easy_, option, value);
  }

  static curl_slist* headers_of(const OtlpTarget& target, bool packed) {
    curl_slist* list = nullptr;
    const auto add = [&list](const std::string& line) { list = curl_slist_append(list, line.c_str()); };
    add("Content-Type: application/json");
    add("User-Agent: callgate/" CALLGATE_VERSION);
    add("Expect:");
    if (packed) add("Content-Encoding: gzip");
    // An empty value is said by a semicolon.
    for (const classifier::Header& header : target.headers)
      add(header.value.empty() ? header.name + ";" : header.name + ": " + header.value);
    return list;
  }

  void set_up(const OtlpTarget& target) {
    set(CURLOPT_URL, target.url.c_str());
    set(CURLOPT_POST, 1L);
    // As for upstreams: a proxy of the environment, and never for loopback.
    const Destination to = destination(target.url, variable);
    set(CURLOPT_PROXY, to.proxy.c_str());
    set(CURLOPT_NOPROXY, to.no_proxy.c_str());
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_FOLLOWLOCATION, 0L);
    set(CURLOPT_SSL_VERIFYPEER, 1L);
    set(CURLOPT_SSL_VERIFYHOST, 2L);
    set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
    set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(std::min(kConnectMax, target.timeout).count()));
    set(CURLOPT_WRITEFUNCTION, &on_body);
#if LIBCURL_VERSION_NUM >= 0x075700
    // A resolver that hangs does not hold up the process's end.
    set(CURLOPT_QUICK_EXIT, 1L);
#endif
    const std::string bundle = target.ca_file.empty() ? variable("SSL_CERT_FILE") : target.ca_file;
    if (!bundle.empty()) set(CURLOPT_CAINFO, bundle.c_str());
  }

  CURLcode perform(TimePoint until, const std::function<bool()>& stop) {
    int running = 1;
    while (running > 0) {
      if (curl_multi_perform(multi_, &running) != CURLM_OK) return CURLE_FAILED_INIT;
      if (running == 0) break;
      const TimePoint now = Clock::now();
      if (now >= until) return CURLE_OPERATION_TIMEDOUT;
      if (stop()) return CURLE_ABORTED_BY_CALLBACK;
      const milliseconds wait = std::min(kLookUp, std::chrono::ceil<milliseconds>(until - now));
      curl_multi_poll(multi_, nullptr, 0, static_cast<int>(wait.count()), nullptr);
    }
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
      if (message->msg == CURLMSG_DONE) return message->data.result;
    }
    return CURLE_FAILED_INIT;
  }

  void read(OtlpAnswer& answer, CURLcode result, const std::string& said) const {
    long status = 0;
    curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
    // An answer that was cut off behind its head has said what matters.
    if (result != CURLE_OK && result != CURLE_WRITE_ERROR) status = 0;
    answer.status = static_cast<int>(status);
    if (status == 0) {
      answer.why = result == CURLE_OPERATION_TIMEDOUT ? "the collector said nothing in time"
                                                      : std::string{curl_easy_strerror(result)};
      return;
    }
    curl_header* hint = nullptr;
    if (curl_easy_header(easy_, "Retry-After", 0, CURLH_HEADER, -1, &hint) == CURLHE_OK) {
      const classifier::Headers headers{{"Retry-After", hint->value}};
      classifier::HintSources sources;
      sources.headers = &headers;
      sources.now = std::chrono::system_clock::now();
      answer.retry_after = classifier::retry_after(sources);
    }
    if (status >= 200 && status < 300) answer.rejected = rejected_spans(said);
  }

  CURLM* multi_;
  CURL* easy_;
};

}  // namespace

std::unique_ptr<OtlpWire> make_otlp_wire() { return std::make_unique<CurlWire>(); }

}  // namespace gateway
