"""Python modules beside a file, loaded without becoming part of the program's own.

Law: afterwards `sys.path` and the names in `sys.modules` are as before, but for one entry of its own name for each
file loaded. Files are read as they are now, never from a byte code cache.
"""

import hashlib
import importlib
import importlib.machinery
import importlib.util
import sys
import threading
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from causeline.errors import Invalid, Missing

_LOADING = threading.RLock()
"""Loading changes the interpreter's import state for a moment, so only one thread does it at a time."""


class BrokenModule(Invalid):
    """A module raised while it was loaded."""

    code = "broken_module"


class _FromSource(importlib.machinery.SourceFileLoader):
    """Compiles the file each time; a byte code cache may be older than an edit within the same second."""

    def get_code(self, fullname: str) -> Any:
        return self.source_to_code(self.get_data(self.path), self.path)


class Modules:
    """Modules by name, beside `directory` or else installed."""

    def __init__(self, directory: Path, local: frozenset[str] = frozenset()) -> None:
        self.directory = directory
        self._local = local
        self._loaded: dict[Path, ModuleType] = {}

    def find(self, name: str) -> Path | None:
        """The file of a module: `tools`, `package.tools`, or a path that ends in .py."""
        if name.endswith(".py"):
            places = [self.directory / name]
        else:
            stem = self.directory.joinpath(*name.split("."))
            places = [stem.parent / f"{stem.name}.py", stem / "__init__.py"]
        return next((place.resolve() for place in places if place.is_file()), None)

    def load(self, name: str) -> ModuleType:
        """The module. Raises Missing, or BrokenModule saying where its code failed."""
        path = self.find(name)
        try:
            if path is None:
                return self._installed(name)
            if path not in self._loaded:
                self._loaded[path] = self._execute(path, name)
            return self._loaded[path]
        except (Missing, BrokenModule):
            raise
        except (Exception, SystemExit) as error:
            # Whatever a user's module raises is a finding about it.
            raise BrokenModule(_told(error, path)) from error

    def _installed(self, name: str) -> ModuleType:
        if name.endswith(".py") or not all(part.isidentifier() for part in name.split(".")):
            raise Missing(f"no file {name} in {self.directory}")
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise
            raise Missing(f"no module {name} in {self.directory}, and none installed") from None

    def _execute(self, path: Path, name: str) -> ModuleType:
        if "." in name.removesuffix(".py") and not name.endswith(".py"):
            return importlib.import_module(name)  # inside a package, whose relative imports need the real name
        plain = path.stem if path.parent == self.directory.resolve() and path.stem in self._local else None
        if plain in sys.modules:
            return sys.modules[plain]  # another module has imported it
        unique = f"causeline_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
        spec = importlib.util.spec_from_file_location(unique, path, loader=_FromSource(unique, str(path)))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        names = [unique] if plain is None else [unique, plain]
        sys.modules.update(dict.fromkeys(names, module))
        try:
            spec.loader.exec_module(module)
        except BaseException:
            for each in names:
                sys.modules.pop(each, None)
            raise
        return module


@contextmanager
def modules_beside(directory: Path) -> Generator[Modules]:
    """Load modules as if their directory came first on the path; they may import each other by their plain names."""
    with _LOADING:
        local = {path.stem for path in directory.glob("*.py")} | {path.parent.name for path in directory.glob("*/__init__.py")}
        local -= sys.stdlib_module_names | {"causeline"}  # those stay what they are for everybody
        hidden = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in local}
        writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        for name in hidden:
            del sys.modules[name]
        sys.path.insert(0, str(directory))
        importlib.invalidate_caches()
        try:
            yield Modules(directory, frozenset(local))
        finally:
            sys.path.remove(str(directory))
            sys.dont_write_bytecode = writes
            for name in [name for name in sys.modules if name.partition(".")[0] in local]:
                del sys.modules[name]
            sys.modules.update(hidden)


def attribute(module: ModuleType, dotted: str, name: str) -> Any:
    """Something in a module by its name, `lookup` or `Group.lookup`. `name` is the module as it was asked for. Raises Missing."""
    found: Any = module
    for part in dotted.split("."):
        if not hasattr(found, part):
            close = get_close_matches(part, [each for each in dir(found) if not each.startswith("_")], n=1)
            raise Missing(f"{name} has no {dotted}" + (f"; did you mean {close[0]}?" if close else ""))
        found = getattr(found, part)
    return found


def _told(error: BaseException, path: Path | None) -> str:
    """Where and how a module failed, in one line."""
    if isinstance(error, SyntaxError):
        return f"{Path(error.filename or '?').name}:{error.lineno}: {type(error).__name__}: {error.msg}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if path is not None and Path(frame.filename) == path]
    place = f"{path.name}:{frames[-1].lineno}: " if path is not None and frames else ""
    return f"{place}{type(error).__name__}: {error}"
