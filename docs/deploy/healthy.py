"""Whether the process of this container works, for probes: ends with 0, or says what is wrong and ends with 1.

`python healthy.py` asks web, `healthy.py control` and `healthy.py ingest N` (default: SHARD, else 0) ask Valkey what
those write there.
"""

import json
import os
import sys
import time
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

CONTROL_LIMIT_S = 60.0


def problem(process: str = "web", shard: str = os.environ.get("SHARD", "0")) -> str:
    if process == "web":
        url = f"http://127.0.0.1:{os.environ.get('PORT', '8000')}/api/v1/health"
        request = Request(url, headers={"Host": host()})
        try:
            with urlopen(request, timeout=5) as answer:
                return "" if json.load(answer)["live"] else "web says that it does not live"
        except HTTPError as error:  # 503: another process is away, which a new web does not bring back
            return "" if error.code == 503 else f"web answers {error.code}"
    import redis

    url = os.environ.get("REDIS_URL") or Path(os.environ["REDIS_URL_FILE"]).read_text().strip()
    key = "trainyard:control:tick" if process == "control" else f"trainyard:ingest:{shard}"
    try:
        found = redis.Redis.from_url(url, socket_timeout=5).get(key)
    except redis.RedisError as error:
        return f"Valkey does not answer: {error}"
    if found is None:
        return f"{process} has not worked"
    age_s = time.time() - float(found) if process == "control" else 0.0
    return f"control last worked {age_s:.0f} s ago" if age_s > CONTROL_LIMIT_S else ""


def host() -> str:
    """Return a name that the site answers to."""
    return urlsplit(os.environ.get("PUBLIC_URL", "http://127.0.0.1")).netloc


if __name__ == "__main__":
    try:
        words = problem(*sys.argv[1:])
    except (OSError, ValueError, KeyError) as error:
        words = str(error) or type(error).__name__
    sys.exit(words or 0)
