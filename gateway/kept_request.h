#pragma once
// What may be stored of a request so that it can be made again? By allow-list: what nobody has named here is left
// out.
//
//   part     kept                                                    always left out
//   -------  ------------------------------------------------------  ---------------------------------------------
//   headers  content-type, accept, versions, betas, organisation     keys, cookies, signatures, proxy-*, Callgate-*,
//            and project, what chooses a deployment or guardrail,    Idempotency-Key, tracestate, all that is
//            traceparent                                             unknown
//   query    the parameters that providers document (api-version,    key=, api_key=, sig=, X-Amz-*, …, all that is
//            alt, …)                                                 unknown: see left_out_of()
//   path     all of it                                               a segment with an issued key: "-" in its place
//   body     all of it, byte for byte

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "classifier/headers.h"
#include "ledger/records.h"

namespace gateway {

/// `target` as the worker wrote it, in origin form.
[[nodiscard]] std::shared_ptr<const ledger::KeptRequest> keep_request(std::string_view method,
                                                                      std::string_view target,
                                                                      const classifier::Headers& headers,
                                                                      std::string body);

/// Names of parameters of the query, as written, that are not kept although nothing says that they hold a key:
/// without them it is another request. At most 64 bytes each.
[[nodiscard]] std::vector<std::string> left_out_of(std::string_view target);

}  // namespace gateway
