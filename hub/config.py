"""The settings of the hub: from the environment or from flags, each once, with its default."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hub.placement.model import Settings

VERSION = version("shunter")
DEFAULT_DATA = "shunter-data"
DEFAULT_LISTEN = "127.0.0.1:8417"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """How one hub runs. `database` None: SQLite in the data folder; `blobs` None: the data folder."""

    data: Path = Path(DEFAULT_DATA)
    host: str = "127.0.0.1"
    port: int = 8417
    url: str | None = None  # as clients reach it, for links; None: host and port
    database: str | None = None
    blobs: str | None = None
    hold_s: float = 15.0
    polling_s: float = 10.0
    silent_s: float = 30.0
    lease_s: float = 60.0
    start_s: float = 30.0  # a claim that is not confirmed within this is undone
    sweep_s: float = 5.0  # the safety net under the wake-ups
    queue_s: float = 24 * 3600.0  # a job that no runner took for this long ends in error
    reserve_mib: int = 4096
    log_mib: int = 1024  # the most that one job's log may take
    workspace_mib: int = 2048  # the largest packed folder
    artifact_mib: int = 4096  # the largest single artifact
    journal_entries: int = 20_000  # decisions of late, with what they were made from; 0: none are kept

    @classmethod
    def from_env(cls, environ: Mapping[str, str], **overrides: Any) -> "Config":
        """The settings in `environ` (`SHUNTER_HOLD_S` and so on), `overrides` that are not None first.

        Raises ValueError naming the setting whose value is not of its kind or is negative.
        """
        values: dict[str, Any] = {}
        for setting in fields(cls):
            text = environ.get(f"SHUNTER_{setting.name.upper()}")
            if text:
                values[setting.name] = _parse(setting.name, str(setting.type), text)
        values.update((name, value) for name, value in overrides.items() if value is not None)
        if (listen := values.pop("listen", None)) is not None:
            values["host"], values["port"] = parse_listen(listen)
        return cls(**values)

    @property
    def database_url(self) -> str:
        """The store's SQLAlchemy URL."""
        return self.database or f"sqlite+aiosqlite:///{quote(str(self.data.resolve() / 'hub.sqlite'))}"

    @property
    def base_url(self) -> str:
        """Where people find the pages."""
        return (self.url or f"http://{self.host}:{self.port}").rstrip("/")

    @property
    def lease_ms(self) -> int:
        return int(self.lease_s * 1000)

    @property
    def start_ms(self) -> int:
        return int(self.start_s * 1000)

    def placement(self) -> Settings:
        """The constants of the placement rules."""
        return Settings(
            hold_ms=int(self.hold_s * 1000),
            polling_ms=int(self.polling_s * 1000),
            silent_ms=int(self.silent_s * 1000),
            reserve_mib=self.reserve_mib,
        )


def parse_listen(text: str) -> tuple[str, int]:
    """`host:port`, `[::1]:port` or `:port` (all addresses). Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{text!r} is not host:port, such as {DEFAULT_LISTEN}")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - `:port` asks for all addresses


def _parse(name: str, kind: str, text: str) -> Any:
    try:
        if "Path" in kind:
            return Path(text)
        if "float" in kind or "int" in kind:
            number = float(text) if "float" in kind else int(text)
            if number < 0:
                raise ValueError
            return number
    except ValueError:
        raise ValueError(f"SHUNTER_{name.upper()}={text!r} is not a number of 0 or more") from None
    return text
