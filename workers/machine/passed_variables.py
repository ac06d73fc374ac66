"""The variables of the node that its ranks get: what programs need to work on this machine, never a key or a token."""

from collections.abc import Mapping

NAMES = frozenset(
    (
        *("USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        *("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"),
        *("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY"),
    )
)
PREFIXES = ("LC_", "NCCL_", "GLOO_", "UCX_", "FI_")  # the language, and how this machine's network is used


def passed_variables(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name in NAMES or name.startswith(PREFIXES)}
