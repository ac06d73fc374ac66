"""Places of data: what can be said of a path or URL before anybody looks."""

from trainyard.spec.problems import show

# Schemes that nodes can fetch from. Others reach more than data, a shell for one.
PROTOCOLS = ("http", "https", "s3", "gs", "gcs", "abfs", "az", "hf", "sftp", "ftp", "memory", "zip", "tar")
ARCHIVED = ("zip", "tar")
WEB = ("http", "https")


def location_problem(location: str) -> str:
    """Return what is wrong with a path or URL of data, a sentence without its end; empty where nothing is."""
    head, is_nested, archive = location.partition("::")
    protocol, is_url, path = head.partition("://")
    if is_nested and protocol in ARCHIVED:
        return location_problem(archive)
    if is_nested or protocol in ARCHIVED:
        return f"{show(location)} names no archive; one is written as zip://folder::/data/all.zip"
    if not is_url:
        return "" if location.startswith("/") else f"{show(location)} is neither a whole path, from / on, nor a URL"
    if protocol == "file":
        return location_problem(path)
    if protocol not in PROTOCOLS:
        return f"{show(location)} begins with {protocol}://; accepted are file, {', '.join(PROTOCOLS)}"
    if protocol in WEB and path.partition("?")[0].endswith("/"):
        return f"{show(location)} is a folder, which a web server has not; name a file or an archive (.zip, .tar) of it"
    return ""
