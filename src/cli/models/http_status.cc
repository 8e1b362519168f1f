#include "cli/models/http_status.h"

#include <array>
#include <curl/curl.h>
#include <memory>
#include <new>

#include "cli/transfer/failure.h"

namespace kvick::cli {
namespace {

size_t drop(char*, size_t one, size_t size, void*) { return one * size; }

}  // namespace

base::Result<int> http_status(const std::string& url, unsigned timeout_s) {
  if (!url.starts_with("http://") && !url.starts_with("https://"))
    return base::fail("{} is no URL such as http://127.0.0.1:8080", url);
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> handle(curl_easy_init(),
                                                                   curl_easy_cleanup);
  if (!handle) throw std::bad_alloc();
  CURL* curl = handle.get();
  std::array<char, CURL_ERROR_SIZE> error{};
  const auto set = [&](CURLoption option, auto value) {
    if (const CURLcode code = curl_easy_setopt(curl, option, value); code != CURLE_OK)
      throw failure("this system's libcurl cannot ask {}: {}", url, curl_easy_strerror(code));
  };
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_USERAGENT, "kvick/" KVICK_VERSION);
  set(CURLOPT_ERRORBUFFER, error.data());
  set(CURLOPT_NOPROXY, "*");
  set(CURLOPT_TIMEOUT, static_cast<long>(timeout_s));
  set(CURLOPT_WRITEFUNCTION, &drop);
  const CURLcode code = curl_easy_perform(curl);
  if (code == CURLE_URL_MALFORMAT)
    return base::fail("{} is no URL such as http://127.0.0.1:8080", url);
  if (code != CURLE_OK)
    throw failure("{} does not answer: {}", url,
                  error[0] != '\0' ? error.data() : curl_easy_strerror(code));
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  return static_cast<int>(status);
}

}  // namespace kvick::cli
