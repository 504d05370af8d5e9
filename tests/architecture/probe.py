"""Imports each named module in a forked child of a bare interpreter and reports what the import did.

Run as a script: the module names and the names of packages to hide come as one JSON object on standard
input; one JSON object a line, {module, faults}, goes to standard output.
"""

import _thread
import json
import os
import sys
import tempfile
import traceback

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
EFFECTS = {
    "ctypes.dlopen": "loaded a shared library",
    "os.exec": "started a process",
    "os.fork": "started a process",
    "os.mkdir": "made a folder",
    "os.posix_spawn": "started a process",
    "os.putenv": "changed the environment",
    "os.remove": "removed a file",
    "os.rename": "renamed a file",
    "os.unsetenv": "changed the environment",
    "signal.signal": "set a signal handler",
    "socket.__new__": "made a socket",
    "sqlite3.connect": "opened a database",
    "subprocess.Popen": "started a process",
}


def watch(faults: list[str]) -> None:
    """Note every effect from here on. The hook cannot be removed, which is why this runs in a fork."""

    def hook(event: str, args: tuple) -> None:
        if event in EFFECTS:
            faults.append(f"{EFFECTS[event]} ({event} {args[:1]})")
        elif event == "open" and isinstance(args[2], int) and args[2] & WRITES:
            faults.append(f"opened {args[0]} for writing")

    sys.addaudithook(hook)


def attempt(module: str, output: int) -> list[str]:
    """Import the module with both standard streams on `output`; returns what it did besides being imported."""
    os.dup2(output, 1)
    os.dup2(output, 2)
    faults: list[str] = []
    watch(faults)
    try:
        __import__(module)
    except BaseException:  # noqa: BLE001 - whatever it raises is the finding
        return [*faults, traceback.format_exc()]
    sys.stdout.flush()
    sys.stderr.flush()
    if os.lseek(output, 0, os.SEEK_END):
        os.lseek(output, 0, os.SEEK_SET)
        faults.append(f"printed {os.read(output, 200)!r}")
    if _thread._count():
        faults.append("left a thread running")
    logging = sys.modules.get("logging")
    if logging is not None and logging.root.handlers:
        faults.append("configured logging")
    return faults


def fork_and_import(module: str) -> list[str]:
    reader, writer = os.pipe()
    with tempfile.TemporaryFile() as output:
        if not (child := os.fork()):
            os.write(writer, json.dumps(attempt(module, output.fileno())).encode()[:60_000])
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as report:
        faults = json.loads(report.read() or '["died"]')
    os.waitpid(child, 0)
    return faults


if __name__ == "__main__":
    job = json.load(sys.stdin)
    for hidden in job["hide"]:
        sys.modules[hidden] = None  # pyright: ignore[reportArgumentType] - the import system's word for "not installed"
    for name in job["modules"]:
        print(json.dumps({"module": name, "faults": fork_and_import(name)}), flush=True)
