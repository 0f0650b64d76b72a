#pragma once
// Which certificate does a provider on this machine show? Made anew, for tests of TLS that need no files.

#include <string>

namespace fake_provider {

struct MadeCert {
  std::string ca_file{};
  std::string cert_file{};
  std::string key_file{};
};
/// Writes ca.pem, cert.pem and key.pem into `directory` (which is made). The certificate is for `host`, or
/// for localhost, 127.0.0.1 and ::1 if that is empty; an expired one ended yesterday.
[[nodiscard]] MadeCert make_cert(const std::string& directory, const std::string& host, bool expired);

}  // namespace fake_provider
