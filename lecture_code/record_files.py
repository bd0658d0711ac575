"""Record files: measurements from a real GPU, each with where, when and how it was taken.

A record is a JSON file in `lecture_code/records/`. It holds rows of plain values; a row is a timing
or a size (`p20`, `p50`, `p80`), a single reading (`value`), or says why there is none (`status`).
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata, resources
from pathlib import Path

SCHEMA = 1
_TEXTS = ("name", "description", "unit", "convention", "timer")
_PROVENANCE = ("device", "driver", "clocks", "torch", "triton", "python", "date", "commit")
_PLAIN = (str, int, float, bool, type(None))


@dataclass(frozen=True)
class Record:
    """One record file.

    Attributes
    ----------
    name, description
        The file's name, and what was measured in one sentence.
    unit
        Unit of `p20`, `p50`, `p80` and `value`.
    convention
        How FLOP and bytes were counted.
    timer
        How the time, or the size, was taken.
    settings
        What all rows share.
    provenance
        Device, driver, clocks, versions, date, commit.
    rows
        One dict a measurement.
    """

    name: str
    description: str
    unit: str
    convention: str
    timer: str
    settings: Mapping
    provenance: Mapping
    rows: tuple

    def select(self, **where) -> list[dict]:
        """Return the rows whose fields equal these, in the file's order."""
        return [row for row in self.rows if all(row.get(k) == v for k, v in where.items())]

    def one(self, **where) -> dict:
        """Return the only row whose fields equal these.

        Raises
        ------
        ValueError
            If no row, or more than one, fits.
        """
        rows = self.select(**where)
        if len(rows) != 1:
            raise ValueError(f"record {self.name}: expected one row with {where}, got {len(rows)}")
        return rows[0]

    @property
    def source(self) -> str:
        """Where the numbers come from, in one line for a reader."""
        p = self.provenance
        return (
            f"{p['device']}, driver {p['driver']}, torch {p['torch']}, triton {p['triton']}, "
            f"{p['date'][:10]}, commit {_short(p['commit'])}"
        )


def _short(commit: str) -> str:
    revision, _, mark = commit.partition("-")
    return revision[:10] + (f"-{mark}" if mark else "")


def validate_record(data: Mapping, where: str = "record") -> None:
    """Check a record's content.

    Raises
    ------
    ValueError
        If a field is missing or malformed, percentiles are out of order, or a row holds no reading.
    """

    def need(condition, problem: str):
        if not condition:
            raise ValueError(f"{where}: {problem}")

    need(isinstance(data, Mapping), "expected an object")
    need(data.get("schema") == SCHEMA, f"schema: expected {SCHEMA}, got {data.get('schema')!r}")
    for field in _TEXTS:
        value = data.get(field)
        need(isinstance(value, str) and value.strip(), f"{field}: expected a text, got {value!r}")
    need(re.fullmatch(r"[a-z0-9_]+", data["name"]), f"name: expected a-z, 0-9, _: {data['name']!r}")
    need(isinstance(data.get("settings"), Mapping), "settings: expected an object")
    origin = data.get("provenance")
    need(isinstance(origin, Mapping), "provenance: expected an object")
    for field in _PROVENANCE:
        value = origin.get(field)
        need(value not in (None, ""), f"provenance: {field} is missing")
        kind, word = (Mapping, "an object") if field == "clocks" else (str, "a text")
        need(isinstance(value, kind), f"provenance: {field}: expected {word}, got {value!r}")
    try:
        json.dumps([data["settings"], origin], allow_nan=False)
    except (TypeError, ValueError) as error:
        need(False, f"settings, provenance: expected finite plain values: {error}")
    need(
        re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d", origin["date"]),
        f"provenance: date: expected YYYY-MM-DDTHH:MM, got {origin['date']!r}",
    )
    rows = data.get("rows")
    need(isinstance(rows, Sequence) and rows, "rows: expected at least one")
    for i, row in enumerate(rows):
        need(isinstance(row, Mapping), f"rows[{i}]: expected an object")
        for key, value in row.items():
            need(isinstance(value, _PLAIN), f"rows[{i}].{key}: expected a plain value")
            need(
                value == value and value not in (float("inf"), float("-inf")),
                f"rows[{i}].{key}: not finite",
            )
        percentiles = [row.get(p) for p in ("p20", "p50", "p80")]
        if any(p is not None for p in percentiles):
            need(all(_is_number(p) for p in percentiles), f"rows[{i}]: p20, p50, p80 go together")
            need(
                percentiles == sorted(percentiles),
                f"rows[{i}]: expected p20 <= p50 <= p80, got {percentiles}",
            )
        else:
            reading = _is_number(row.get("value")) or bool(row.get("status"))
            need(reading, f"rows[{i}]: expected p20, p50, p80, or value, or status")


def _is_number(value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _folder():
    return resources.files("lecture_code") / "records"


def record_names() -> list[str]:
    """Return the names of the records that came with the package."""
    folder = _folder()
    if not folder.is_dir():
        return []
    return sorted(f.name[: -len(".json")] for f in folder.iterdir() if f.name.endswith(".json"))


def load_record(name: str) -> Record:
    """Load and check a record that came with the package.

    Raises
    ------
    ValueError
        If there is no such record (the message lists those there are), or its content is malformed.
    """
    if name not in record_names():
        raise ValueError(f"name: no record {name!r}; there are: {', '.join(record_names())}")
    text = (_folder() / f"{name}.json").read_text(encoding="utf-8")
    return parse_record(text, f"records/{name}.json")


def parse_record(text: str, where: str = "record") -> Record:
    """Check a record file's text and return the record.

    Raises
    ------
    ValueError
        If it is not JSON, or malformed; the message begins with `where`.
    """
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}: not JSON: {error}") from None
    validate_record(data, where)
    fields = (*_TEXTS, "settings", "provenance")
    return Record(**{field: data[field] for field in fields}, rows=tuple(data["rows"]))


def write_record(
    name: str,
    rows: Iterable[Mapping],
    *,
    description: str,
    unit: str,
    convention: str,
    timer: str,
    provenance: Mapping,
    settings: Mapping | None = None,
    folder: str | Path,
) -> Path:
    """Write a record file, numbers rounded to five digits, and return its path.

    Parameters
    ----------
    rows
        Mappings of plain values; see `validate_record` for what each must hold.
    provenance
        What `provenance()` returned.
    folder
        Where the file goes; made if it is missing.

    Raises
    ------
    ValueError
        If the record would not pass `validate_record`; nothing is written then.
    """
    data = {
        "schema": SCHEMA,
        "name": name,
        "description": description,
        "unit": unit,
        "convention": convention,
        "timer": timer,
        "settings": dict(settings or {}),
        "provenance": dict(provenance),
        "rows": [{key: _rounded(value) for key, value in row.items()} for row in rows],
    }
    validate_record(data, f"record {name}")
    # one row a line: a change shows as one line
    head = {key: value for key, value in data.items() if key != "rows"}
    text = json.dumps(head, indent=1, ensure_ascii=False)[:-2]
    lines = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in data["rows"])
    path = Path(folder) / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{text},\n "rows": [\n{lines}\n ]\n}}\n', encoding="utf-8")
    return path


def _rounded(value):
    return float(f"{value:.5g}") if isinstance(value, float) else value


def provenance(
    *, commit: str | None = None, sources: Sequence[str | Path] = (), clocks: Mapping | None = None
) -> dict:
    """Return where and with what a measurement was taken.

    Parameters
    ----------
    commit
        Revision of the code, with ``-dirty`` if it had changes. Left out: the environment variable
        LECTURE_COMMIT, then git, which is asked about `sources` alone if there are any.
    sources
        Files that measured; each is recorded with its git blob id, which finds it in the history
        even when the tree was dirty.
    clocks
        What `measure.ClockWatch` saw; the state at this moment if left out.

    Raises
    ------
    ValueError
        If no commit is given and git knows none.
    """
    result = {
        **_gpu(),
        **_versions(),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%MZ"),
        "commit": commit or os.environ.get("LECTURE_COMMIT") or _git_commit(sources),
    }
    if clocks:
        result["clocks"] = dict(clocks)
    if sources:
        result["sources"] = {Path(path).as_posix(): _blob(Path(path)) for path in sources}
    return result


def _versions() -> dict:
    versions = {}
    for package in ("torch", "triton", "numpy"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "none"
    return versions


def _gpu() -> dict:
    """Describe the first CUDA device, or the CPU if torch is not loaded or sees no device."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        name = platform.processor() or platform.machine()
        return {"device": f"CPU {name}", "driver": "none", "clocks": {}}
    properties = torch.cuda.get_device_properties(0)
    fields = ("driver_version", "clocks.sm", "clocks.mem", "clocks.max.sm", "power.limit")
    driver, sm, memory, sm_max, power = _nvidia_smi(fields)
    return {
        "device": properties.name,
        "capability": f"{properties.major}.{properties.minor}",
        "sm_count": properties.multi_processor_count,
        "l2_bytes": properties.L2_cache_size,
        "memory_bytes": properties.total_memory,
        "driver": driver,
        "clocks": {"sm_mhz": _number(sm), "memory_mhz": _number(memory)},
        "sm_mhz_limit": _number(sm_max),
        "power_w_limit": _number(power),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
    }


def _nvidia_smi(fields: Sequence[str]) -> list[str]:
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    output = subprocess.run([*command, "--id=0"], capture_output=True, text=True, check=True).stdout
    return [value.strip() for value in output.strip().split(",")]


def _number(text: str) -> float | str:
    """A number, or what nvidia-smi says instead, such as [N/A]."""
    try:
        return float(text)
    except ValueError:
        return text


def _git_commit(sources: Sequence[str | Path]) -> str:
    folder = Path(sources[0]).parent if sources else None

    def git(*arguments):
        done = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", *map(str, sources))
        return git("rev-parse", "HEAD") + ("-dirty" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        raise ValueError("commit: git knows none here; give it, or set LECTURE_COMMIT") from None


def _blob(path: Path) -> str:
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
