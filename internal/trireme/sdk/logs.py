"""The log of a plugin's process, on stderr: text, or one JSON object a line.

Also change: sdk/go/main.go, sdk/java/src/main/java/dev/trireme/sdk/Log.java, sdk/rust/src/serving.rs,
sdk/typescript/src/logging.ts (the same in the other languages' SDKs).

Tests: tests/contract/test_plugin_sdk_results.py, tests/contract/test_plugin_tls.py.
"""

import datetime
import json
import logging
import sys

# What every record has; anything else was given by `extra`.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def setup(log_format: str) -> None:
    """Log to stderr in the format `text` or `json`, from INFO on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else logging.Formatter(_TEXT))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


_TEXT = "%(asctime)s %(levelname).1s %(name)s: %(message)s"


class JsonFormatter(logging.Formatter):
    """Time in UTC, level, logger, message, what `extra` gave, and the traceback of an exception."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        out: dict[str, object] = {
            "time": datetime.datetime.fromtimestamp(record.created, datetime.UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        out |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            out["stacktrace"] = self.formatException(record.exc_info)
        return json.dumps(out, default=str, ensure_ascii=False)
